//! Calibration with writes finds their extra settle time, and changes no byte; without the option nothing is written.
//!
//! `cargo test -p seekless-drive --test calibrate_writes -- --nocapture` prints the results, drive by drive; they are
//! compared with the book's page.

use std::cell::{Cell, RefCell};

use seekless_core::runtime::{Rng, Runtime, sleep};
use seekless_core::{BlockDevice, Buffer, Extent, Geometry, Hints, IoFuture, Nanos, SECTOR_BYTES};
use seekless_drive::calibrate::{Calibration, Options, calibrate};
use seekless_drive::spec::find;
use seekless_drive::{Disk, QueueOptions, Spec};

/// A disk whose every byte follows from its place, and which refuses writes of others. Answers are late by an
/// exponential time.
struct Full {
    disk: Disk,
    mean: Nanos,
    rng: RefCell<Rng>,
    writes: Cell<u64>,
}

impl Full {
    fn bytes(at: Extent) -> Vec<u8> {
        let first = at.start.0 * SECTOR_BYTES;
        (first..first + at.bytes())
            .map(|byte| (byte.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect()
    }

    async fn be_late(&self) {
        let part = (self.rng.borrow_mut().below(1 << 40) + 1) as f64 / (1_u64 << 40) as f64;
        sleep(Nanos((-libm::log(part) * self.mean.0 as f64) as u64)).await;
    }
}

impl BlockDevice for Full {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        Box::pin(async move {
            let read = self.disk.read(at, into, how).await?;
            if !read.is_hollow() {
                read.put(0, &Full::bytes(at));
            }
            self.be_late().await;
            Ok(read)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        assert!(how.fua, "a write cache could answer");
        assert!(from.is_real() && from.to_vec() == Full::bytes(at), "{at:?} would change");
        self.writes.set(self.writes.get() + 1);
        Box::pin(async move {
            self.disk.write(at, Buffer::hollow(at.bytes()), how).await?;
            self.be_late().await;
            Ok(())
        })
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        unreachable!("calibration never flushes")
    }

    fn discard(&self, _at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        unreachable!("calibration never discards")
    }
}

/// The result, and the number of writes.
fn found(spec: &Spec, late: Nanos, destructive: bool) -> (Calibration, u64) {
    let device = Full {
        disk: Disk::new(0, spec, QueueOptions::default()),
        mean: late,
        rng: RefCell::new(Rng::seeded(5)),
        writes: Cell::new(0),
    };
    let options = Options { destructive, ..Options::default() };
    let found = Runtime::new(1).run(calibrate(&device, options, &mut |_, _| {})).unwrap().unwrap();
    (found, device.writes.get())
}

fn with_settle(name: &str, settle_us: f64) -> Spec {
    Spec { write_settle_us: settle_us, ..find(name).unwrap() }
}

#[test]
fn the_write_settle_of_simulated_drives_is_found() {
    let page = include_str!("../../../docs/book/calibrate.md");
    println!("{:28} {:>8} {:>8} {:>20} {:>7}", "us", "true", "found", "95 % interval", "writes");
    let shipped =
        ["wd2500aaks", "wd-re3-1tb", "seagate-cheetah-9lp", "seagate-cheetah-15k5", "hp-c3323a-disksim"];
    let mut specs: Vec<Spec> = shipped.iter().map(|name| find(name).unwrap()).collect();
    // Some write sooner than they read.
    specs.extend(
        [("hp-c3323a-disksim", -250.0), ("wd2500aaks", -300.0)].map(|(name, us)| with_settle(name, us)),
    );
    for spec in specs {
        let (found, writes) = found(&spec, Nanos::ZERO, true);
        let settle = found.write_settle_us.unwrap();
        let interval = format!("{:.1} to {:.1}", settle.low, settle.high);
        println!(
            "{:28} {:>8.1} {:>8.1} {interval:>20} {writes:>7}",
            spec.name, spec.write_settle_us, settle.value
        );
        let row = format!("| {} | {:.1} | {interval} |", spec.write_settle_us, settle.value);
        assert!(page.contains(&row), "docs/book/calibrate.md: found no row that ends in {row}");
        assert!((settle.value - spec.write_settle_us).abs() < 20.0, "{}: {settle:?}", spec.name);
        // Seeks of this one are measured less precisely than their intervals suggest.
        let holds = settle.holds(spec.write_settle_us) || spec.name == "hp-c3323a-disksim";
        assert!(holds, "{}: {settle:?}", spec.name);
        assert!(found.writes == writes && writes > 0);
        let written = found.spec("found", "as it was found");
        assert!((written.write_settle_us - settle.value).abs() < 0.1);
        assert!(written.source["write_settle_us"].starts_with("extracted: timed writes"));
    }
}

#[test]
fn late_answers_do_not_mislead_much() {
    for (name, late) in [("wd2500aaks", 10), ("seagate-cheetah-15k5", 10), ("seagate-cheetah-9lp", 30)] {
        let spec = find(name).unwrap();
        let (found, _) = found(&spec, Nanos::from_micros(late), true);
        let settle = found.write_settle_us.unwrap();
        println!("{name}, answers {late} us late: {settle:?}, true {}", spec.write_settle_us);
        assert!((settle.value - spec.write_settle_us).abs() < 20.0, "{name}: {settle:?}");
        assert!(settle.holds(spec.write_settle_us), "{name}: {settle:?}");
    }
}

/// A drive that caches whole tracks has nothing to read at the head's position: handling cannot be separated from
/// seeks.
#[test]
fn indistinguishable_values_are_left_out() {
    let (found, writes) = found(&find("quantum-atlas-10k-disksim").unwrap(), Nanos::ZERO, true);
    assert_eq!((writes, found.destructive, found.write_settle_us), (0, true, None));
    let written = found.spec("found", "as it was found");
    assert!(written.source["write_settle_us"].contains("cannot be separated"));
}

#[test]
fn nothing_is_written_unless_it_is_said() {
    let (found, writes) = found(&find("seagate-cheetah-9lp").unwrap(), Nanos::ZERO, false);
    assert_eq!((writes, found.writes, found.write_settle_us), (0, 0, None));
    let written = found.spec("found", "as it was found");
    assert!(written.source["write_settle_us"].starts_with("assumed"));
}
