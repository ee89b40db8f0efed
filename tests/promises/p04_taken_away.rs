//! Promise 4. A transparent layer can always be taken away, in time proportional to what is dirty, and leaves the
//! component in the volume's own order.
//!
//! Fault model: none. Every layer that holds data and is transparent is written through, taken away, and what is
//! below it is read. (What BORG moves is not on disk yet.)

use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, Layer, Nanos};
use seekless_drive::{Disk, QueueOptions, spec};
use seekless_lab::check::{self, Found};
use seekless_layers::fault::powercut::{self, PowerCut};
use seekless_layers::fault::{Faulty, delay, error, lose};

fn disk() -> Rc<dyn BlockDevice> {
    Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
}

/// Writes so many pages here and there, some of them twice, takes the layer away, and reads what is below.
async fn written_and_taken_away(layer: &dyn Layer, below: &dyn BlockDevice, pages: u64) -> Nanos {
    let place = |page: u64| Extent::of_pages(page * 7_919 % 100_000, 1);
    for write in 1..=pages {
        layer.write(place(write), check::stamped(place(write), write), Hints::default()).await.unwrap();
    }
    let again = pages / 2 + 1;
    layer.write(place(again), check::stamped(place(again), pages + 1), Hints::default()).await.unwrap();
    let began = runtime::now();
    layer.detach().await.unwrap();
    let took = runtime::now().since(began);
    for write in 1..=pages {
        let at = place(write);
        let read = below.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
        let last = if write == again { pages + 1 } else { write };
        check::found(&read, |index, found| {
            let stamp = check::Stamp { sector: at.start.0 + index, write: last };
            assert_eq!(found, Found::Stamp(stamp), "page {}", at.start.page());
        });
    }
    took
}

#[test]
fn a_volatile_cache_is_written_home_in_the_time_that_its_contents_take() {
    let took = |pages| {
        Runtime::new(1)
            .run(async {
                let disk = disk();
                let options = powercut::Options { nth: u64::MAX, ..powercut::Options::default() };
                written_and_taken_away(&PowerCut::new(disk.clone(), options), &*disk, pages).await
            })
            .unwrap()
    };
    let (few, many) = (took(50), took(500));
    println!("50 dirty pages took {few}, 500 took {many}");
    assert!(many.0 > 5 * few.0 && many.0 < 20 * few.0, "{few} and {many}");
}

#[test]
fn layers_that_hold_nothing_back_leave_all_in_its_place() {
    Runtime::new(1)
        .run(async {
            let disk = disk();
            let slow = delay::Options { time: Nanos::from_millis(1), ..delay::Options::default() };
            let slow = Faulty::new(disk.clone(), delay::Delay::new(slow));
            assert_eq!(written_and_taken_away(&slow, &*disk, 40).await, Nanos::ZERO);
            let fails: error::Options = toml::from_str("ops = [\"discard\"]").unwrap();
            let fails = Faulty::new(disk.clone(), error::Error::new(&fails));
            assert_eq!(written_and_taken_away(&fails, &*disk, 40).await, Nanos::ZERO);
            let loses = lose::Options { nth: 1 << 40, ..lose::Options::default() };
            let loses = Faulty::new(disk.clone(), lose::Lose::new(&loses));
            assert_eq!(written_and_taken_away(&loses, &*disk, 40).await, Nanos::ZERO);
        })
        .unwrap();
}
