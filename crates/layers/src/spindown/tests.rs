//! What reaches the disk and when, and what that saves. Crashes are explored in `tests/promises`.

use seekless_core::runtime::{Runtime, now, sleep};
use seekless_core::{Extent, PAGE_SECTORS, Slice};
use seekless_drive::{Disk, Policy, QueueOptions, Simulated, spec};

use super::*;
use crate::under_test::{values, write};

const SECONDS: u64 = 1_000_000_000;

/// A disk with standby after a minute, as of a drive file.
fn disk() -> Rc<Disk> {
    let mut spec = spec::find("wd-re3-1tb").unwrap();
    let power = spec.power.as_mut().expect("its power is known");
    power.state.push(spec::PowerState {
        name: "standby".to_owned(),
        watts: 1.0,
        after_s: 60.0,
        recover_ms: 8_000.0,
        recover_w: 15.0,
    });
    Rc::new(Disk::new(0, &spec, QueueOptions { policy: Policy::CLook, ..QueueOptions::default() }))
}

fn below(disk: &Rc<Disk>, pages: u64) -> Below {
    let flash: Rc<dyn BlockDevice> =
        Rc::new(Disk::new(1, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
    let cache: Rc<dyn BlockDevice> = Rc::new(Slice::new(flash, Extent::of_pages(0, pages)).unwrap());
    Below {
        over: vec![disk.clone()],
        devices: [("cache".to_owned(), vec![cache])].into(),
        create: true,
        timing_only: false,
    }
}

async fn open(disk: &Rc<Disk>, pages: u64, options: &Options) -> Rc<Spindown> {
    let layer = Spindown::open(&below(disk, pages), options).await.unwrap();
    // The first use formats the cache.
    write(&*layer, 0, 8, 9).await.unwrap();
    layer.command("drain", Hints::default()).await.unwrap();
    layer
}

fn count(layer: &Spindown, name: &str) -> u64 {
    layer.counters().into_iter().find(|(known, _)| *known == name).expect(name).1
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

#[test]
fn writes_and_flushes_leave_the_disk_alone_until_it_is_read() {
    run(async {
        let disk = disk();
        let layer = open(&disk, 4_096, &Options::default()).await;
        sleep(Nanos(10 * SECONDS)).await;
        layer.flush(Hints::default()).await.unwrap();
        let (before, destaged) = (disk.all().commands, count(&layer, "destages_after_use"));
        for page in 1..200 {
            write(&*layer, page * 7 * PAGE_SECTORS, PAGE_SECTORS, page as u8).await.unwrap();
            layer.flush(Hints::default()).await.unwrap();
            sleep(Nanos(SECONDS)).await;
        }
        let read = async |page: u64| values(&*layer, Extent::of_pages(page, 1)).await.unwrap()[0];
        assert_eq!(read(7 * 5).await, 5);
        assert_eq!(disk.all().commands, before, "nothing came to the disk");
        assert!(count(&layer, "flushes_spared") >= 199);
        assert_eq!(count(&layer, "pages_dirty"), 199);
        // A read that needs the disk: dirty pages follow once it is idle, and no sooner.
        read(1_000_000).await;
        let began = now();
        assert_eq!(count(&layer, "destages_after_use"), destaged);
        sleep(Nanos(SECONDS)).await;
        assert_eq!(count(&layer, "pages_dirty"), 199);
        while count(&layer, "pages_dirty") > 0 {
            sleep(Nanos(SECONDS)).await;
            assert!(now().since(began) < Nanos(20 * SECONDS), "it is destaged soon");
        }
        assert_eq!(read(7 * 5).await, 5);
        assert_eq!(count(&layer, "destages_after_use"), destaged + 1);
    });
}

#[test]
fn a_nearly_full_cache_is_destaged_without_a_read() {
    run(async {
        let disk = disk();
        let layer = open(&disk, 512, &Options::default()).await;
        for page in 1..1_000 {
            write(&*layer, page * PAGE_SECTORS, PAGE_SECTORS, page as u8).await.unwrap();
            sleep(Nanos(SECONDS / 5)).await;
        }
        assert!(count(&layer, "pages_destaged") > 500, "{:?}", layer.counters());
        let read = values(&*layer, Extent::of_pages(3, 1)).await.unwrap();
        assert_eq!(read[0], 3);
    });
}

#[test]
fn a_flush_reaches_the_disk_if_something_was_written_there() {
    run(async {
        let disk = disk();
        let layer =
            open(&disk, 4_096, &Options { absorb_below: crate::Bytes(8_192), ..Options::default() }).await;
        layer.flush(Hints::default()).await.unwrap();
        let spared = count(&layer, "flushes_spared");
        write(&*layer, 800, 64, 3).await.unwrap();
        layer.flush(Hints::default()).await.unwrap();
        assert_eq!(count(&layer, "flushes_spared"), spared, "a large write goes to the disk");
        layer.flush(Hints::default()).await.unwrap();
        assert_eq!(count(&layer, "flushes_spared"), spared + 1);
    });
}

/// A write every ten seconds for an hour, and a read of other data every 20 minutes.
#[test]
fn it_saves_most_of_the_energy_of_a_disk_with_few_reads() {
    let hour = |layered: bool| {
        run(async {
            let disk = disk();
            let layer = if layered { Some(open(&disk, 4_096, &Options::default()).await) } else { None };
            let top: Rc<dyn BlockDevice> = match &layer {
                Some(layer) => layer.clone(),
                None => disk.clone(),
            };
            let begun = disk.joules().unwrap();
            for second in 1..=360_u64 {
                write(&*top, second * 8_000, PAGE_SECTORS, second as u8).await.unwrap();
                top.flush(Hints::default()).await.unwrap();
                if second % 120 == 0 {
                    values(&*top, Extent::of_pages(50_000_000 + second, 1)).await.unwrap();
                }
                sleep(Nanos(10 * SECONDS)).await;
            }
            disk.joules().unwrap() - begun
        })
    };
    let (with, without) = (hour(true), hour(false));
    // An hour at 7.8 W is 28 kJ, and one at 1 W with three periods of a minute and three recoveries 5 kJ.
    assert!(without > 27_000.0 && with < 7_000.0, "{with} J with it, {without} J without");
}
