//! Passes over a simulated disk, beside clients and with bad sectors.

use std::cell::Cell;

use seekless_core::runtime::{Runtime, sleep, spawn};
use seekless_core::{ErrorKind, Op, Slice};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::{Act, Fault, Faulty, delay, error};

/// Sectors of the volume: 4 MiB.
const SECTORS: u64 = 8_192;

fn run<T>(work: impl Future<Output = T>) -> T {
    Runtime::new(1).run(work).unwrap()
}

fn disk(queue: QueueOptions) -> Rc<Slice> {
    let disk = Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), queue));
    Rc::new(Slice::new(disk, Extent::new(0, SECTORS)).unwrap())
}

/// A medium with these options of the error layer.
fn aging(options: &str) -> Rc<dyn BlockDevice> {
    let options: error::Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    Rc::new(Faulty::new(disk(QueueOptions::default()), error::Error::new(&options)))
}

fn scrub(below: Rc<dyn BlockDevice>, options: &str) -> Rc<Scrub> {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    Scrub::new(below, options)
}

fn counter(scrub: &Scrub, name: &str) -> u64 {
    scrub.counters().into_iter().find(|(known, _)| *known == name).unwrap().1
}

async fn scrub_once(scrub: &Scrub) -> Result<(), IoError> {
    scrub.command("scrub", Hints::default()).await
}

async fn write(device: &Scrub, at: Extent) {
    device.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await.unwrap();
}

/// Notes what is read, and may fail it.
#[derive(Default)]
struct Watch {
    read: RefCell<Vec<(Extent, bool)>>,
    gone: Cell<bool>,
    fails_once: Cell<bool>,
}

impl Fault for Rc<Watch> {
    fn meet(&self, op: Op, at: Extent, _: u64) -> Act {
        let kind = if self.gone.get() { ErrorKind::Gone } else { ErrorKind::Medium };
        if op == Op::Read && (self.gone.get() || self.fails_once.take()) {
            return Act::Fail(IoError::new(kind, "test", Some(at), "made to fail"));
        }
        Act::Pass
    }

    fn meet_read(&self, at: Extent, how: &Hints, sectors: u64) -> Act {
        self.read.borrow_mut().push((at, how.verify));
        self.meet(Op::Read, at, sectors)
    }
}

fn watched(below: Rc<dyn BlockDevice>) -> (Rc<dyn BlockDevice>, Rc<Watch>) {
    let watch = Rc::<Watch>::default();
    (Rc::new(Faulty::new(below, watch.clone())), watch)
}

#[test]
fn a_pass_reads_everything_once_and_verifies() {
    run(async {
        let (below, watch) = watched(disk(QueueOptions::default()));
        let scrub = scrub(below, "block = '1MiB'");
        scrub_once(&scrub).await.unwrap();
        let mut read = watch.read.take();
        read.sort_by_key(|(at, _)| at.start);
        let expected: Vec<_> = Extent::new(0, SECTORS).split(2_048).map(|at| (at, true)).collect();
        assert_eq!(read, expected);
        let counters =
            ["passes", "bytes_scrubbed", "bytes_left_of_the_pass"].map(|name| counter(&scrub, name));
        assert_eq!(counters, [1, 4 << 20, 0]);
    });
}

#[test]
fn bad_sectors_are_found_alone_and_forgotten_when_they_are_written() {
    run(async {
        // Sectors 1001 to 1003, and 4095 and 4096 on both sides of a block's end.
        let below = aging("until_written = true\nat = '512512'\nsize = '1536'");
        let options: error::Options =
            toml::from_str("until_written = true\nat = '2096640'\nsize = '1KiB'").unwrap();
        let below = Rc::new(Faulty::new(below, error::Error::new(&options)));
        let scrub = scrub(below, "");
        for _ in 0..2 {
            scrub_once(&scrub).await.unwrap();
            assert_eq!(scrub.state.borrow().found.kept(), [1_001, 1_002, 1_003, 4_095, 4_096]);
        }
        assert_eq!((counter(&scrub, "bad_sectors"), counter(&scrub, "bad_sectors_so_far")), (5, 5));
        let (top, mut parts) = (seekless_core::Top::new(scrub.clone()), Vec::new());
        assert!(
            top.unreadable(Extent::new(1_003, 4), &mut |at, bad| parts.push((at.start.0, at.sectors, bad)))
        );
        assert_eq!(parts, [(1_003, 1, true), (1_004, 3, false)]);
        write(&scrub, Extent::new(1_002, 2)).await;
        assert_eq!(counter(&scrub, "bad_sectors"), 3);
        let at = Extent::new(4_000, 200);
        scrub.write_zeroes(at, Hints::default(), Zeroes::default()).await.unwrap();
        assert_eq!(scrub.state.borrow().found.kept(), [1_001]);
        // Behind its back: the next pass sees it.
        let at = Extent::new(1_001, 1);
        scrub.below.write(at, Buffer::zeroed(512), Hints::default()).await.unwrap();
        scrub_once(&scrub).await.unwrap();
        assert_eq!((counter(&scrub, "bad_sectors"), counter(&scrub, "passes")), (0, 3));
    });
}

#[test]
fn what_fails_once_is_not_bad_and_what_is_written_meanwhile_is_not_listed() {
    run(async {
        let (below, watch) = watched(disk(QueueOptions::default()));
        watch.fails_once.set(true);
        let one = scrub(below, "");
        scrub_once(&one).await.unwrap();
        assert_eq!((counter(&one, "bad_sectors_so_far"), counter(&one, "passes")), (0, 1));
        // A client writes 5001 again and again, which goes bad each time. Reads take a while.
        let options = "until_written = true\nrate_pct = 100\nweak = true\nat = '2560512'\nsize = '512'";
        let late: delay::Options = toml::from_str("ops = ['read']\ntime = '50ms'").unwrap();
        let scrub = scrub(Rc::new(Faulty::new(aging(options), delay::Delay::new(late))), "");
        let client = spawn({
            let scrub = scrub.clone();
            async move {
                while counter(&scrub, "passes") == 0 {
                    write(&scrub, Extent::new(5_001, 1)).await;
                    sleep(Nanos::from_millis(10)).await;
                }
            }
        });
        scrub_once(&scrub).await.unwrap();
        client.await;
        assert_eq!(counter(&scrub, "bad_sectors_so_far"), 0);
        scrub_once(&scrub).await.unwrap();
        assert_eq!(counter(&scrub, "bad_sectors"), 1, "now it is");
    });
}

#[test]
fn a_device_that_is_gone_ends_a_pass_with_its_error() {
    run(async {
        let (below, watch) = watched(disk(QueueOptions::default()));
        watch.gone.set(true);
        let scrub = scrub(below, "every = '1h'");
        sleep(Nanos::from_millis(100)).await;
        assert_eq!(scrub_once(&scrub).await.unwrap_err().kind(), ErrorKind::Gone);
        assert_eq!((counter(&scrub, "passes_not_finished"), counter(&scrub, "bad_sectors")), (2, 0));
        assert!(watch.read.borrow().len() <= 4, "nobody halves anything");
        watch.gone.set(false);
        sleep(Nanos::from_millis(3_601_000)).await;
        assert_eq!(counter(&scrub, "passes"), 1, "the next one is tried");
    });
}

#[test]
fn passes_begin_as_often_as_is_said_no_faster_than_is_said() {
    run(async {
        let scrub = scrub(disk(QueueOptions::default()), "every = '10s'\nrate = '1MiB'");
        let passes = async |after_ms| {
            sleep(Nanos::from_millis(after_ms)).await;
            counter(&scrub, "passes")
        };
        // 4 MiB take 4 seconds, but for the last two blocks.
        assert_eq!(
            (passes(3_800).await, passes(300).await, passes(9_600).await, passes(400).await),
            (0, 1, 1, 2)
        );
        assert_eq!(counter(&scrub, "last_pass_s"), 3);
    });
}

#[test]
fn two_callers_share_one_pass() {
    run(async {
        let scrub = scrub(disk(QueueOptions::default()), "");
        let (one, other) = futures_util::future::join(scrub_once(&scrub), scrub_once(&scrub)).await;
        assert_eq!((one, other, counter(&scrub, "passes")), (Ok(()), Ok(()), 1));
        scrub_once(&scrub).await.unwrap();
        assert_eq!(counter(&scrub, "passes"), 2);
    });
}

/// A free pass beside an idle foreground would wait for ever.
#[test]
fn a_free_pass_ends_by_its_deadline_and_with_its_layer() {
    run(async {
        let free = QueueOptions { freeblock: Some(FreeOptions::default()), ..QueueOptions::default() };
        let one = scrub(disk(free), "class = 'free'\ndeadline = '1m'");
        scrub_once(&one).await.unwrap();
        let took = runtime::now();
        assert!((60..70).contains(&(took.0 / 1_000_000_000)), "{took}");
        assert_eq!((counter(&one, "passes"), counter(&one, "bytes_scrubbed_for_free")), (1, 0));
        let task = spawn({
            let one = one.clone();
            async move { scrub_once(&one).await }
        });
        sleep(Nanos::from_millis(1_000)).await;
        one.detach().await.unwrap();
        assert_eq!(task.await, Ok(()));
        assert!(runtime::now() - took < Nanos::from_millis(1_010), "at once");
        assert_eq!((counter(&one, "passes"), counter(&one, "passes_not_finished")), (1, 1));
        scrub_once(&one).await.unwrap();
        assert_eq!(counter(&one, "passes"), 2, "it may be told again");
    });
}

#[test]
fn options_that_make_no_sense_are_reported() {
    let refused = |text: &str| {
        let options: Options = toml::from_str(text).unwrap();
        options.check().unwrap_err().to_string()
    };
    for (text, word) in [
        ("block = '5KiB'", "4KiB to 32MiB"),
        ("block = '64MiB'", "4KiB to 32MiB"),
        ("wanted = '1MiB'", "32MiB or more"),
        ("every = '0s'", "a time"),
    ] {
        assert!(refused(text).contains(word), "{text}: {}", refused(text));
    }
    assert!(toml::from_str::<Options>("class = 'urgent'").is_err());
}
