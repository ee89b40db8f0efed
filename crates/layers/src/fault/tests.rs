//! Each fault strikes where it is configured to, has its documented effect, and leaves everything else as it is.

use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{ErrorKind, SECTOR_BYTES};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::registry::{self, Below};

/// Runs `work` on a simulated disk under the layer that these lines of a volume file describe.
fn under<T>(name: &str, options: &str, work: impl AsyncFnOnce(Rc<dyn BlockDevice>) -> T) -> T {
    let runtime = Runtime::new(7);
    runtime
        .run(async {
            let spec = spec::find("wd2500aaks").unwrap();
            let over: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
            let below = Below {
                over: vec![over],
                devices: std::collections::BTreeMap::new(),
                create: true,
                timing_only: false,
            };
            let entry = registry::find(name).unwrap();
            work(entry.build(below, &toml::from_str(options).unwrap()).await.unwrap().device).await
        })
        .unwrap()
}

fn filled(value: u8, sectors: u64) -> Buffer {
    Buffer::from_vec(vec![value; (sectors * SECTOR_BYTES) as usize])
}

async fn write(device: &Rc<dyn BlockDevice>, start: u64, value: u8, sectors: u64) -> Result<(), IoError> {
    device.write(Extent::new(start, sectors), filled(value, sectors), Hints::default()).await
}

/// The first byte of each sector.
async fn read(device: &Rc<dyn BlockDevice>, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    let into = Buffer::zeroed(sectors * SECTOR_BYTES);
    let read = device.read(Extent::new(start, sectors), into, Hints::default()).await?;
    Ok(read.to_vec().into_iter().step_by(SECTOR_BYTES as usize).collect())
}

/// How long reads of one sector take, one after the other, in microseconds.
fn times(options: &str, starts: &[u64]) -> Vec<u64> {
    under("delay", options, async |device| {
        let mut times = Vec::new();
        for &start in starts {
            let began = runtime::now();
            read(&device, start, 1).await.unwrap();
            times.push((runtime::now() - began).0 / 1_000);
        }
        times
    })
}

#[test]
fn a_delay_delays_what_it_is_about() {
    let starts = [10_000, 4_000_000, 90_000];
    let none = times("time = '1us'\nops = ['write']", &starts);
    // From a cache, so that where the disk is does not matter.
    let again = [10_000, 10_000, 10_000];
    let [usual, _, hit] = times("time = '1us'\nops = ['write']", &again)[..] else { panic!() };
    assert_eq!(usual, none[0]);
    let [_, _, late] = times("time = '5ms'", &again)[..] else { panic!() };
    assert_eq!(late, hit + 5_000);
    let [_, _, slow] = times("times = 3.0", &again)[..] else { panic!() };
    assert!(slow.abs_diff(3 * hit) <= 2, "{slow} of {hit}");
    let [_, _, elsewhere] = times("time = '5ms'\nat = '1GiB'\nsize = '1MiB'", &again)[..] else { panic!() };
    assert_eq!(elsewhere, hit);
    let random = |_| times("random = '5ms'", &again)[2];
    assert!((hit..=hit + 5_000).contains(&random(0)) && random(0) == random(1), "the same in every run");
}

#[test]
fn an_error_strikes_once_or_for_ever_and_what_fails_is_not_done() {
    let outcomes = |options: &str| {
        under("error", options, async |device| {
            let mut outcomes = String::new();
            for value in 1..=6 {
                let done = write(&device, 100, value, 2).await;
                if let Err(error) = &done {
                    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
                }
                outcomes.push(if done.is_ok() { '+' } else { '-' });
            }
            (outcomes, read(&device, 100, 1).await.unwrap()[0])
        })
    };
    assert_eq!(outcomes("nth = 3"), ("++-+++".to_owned(), 6));
    assert_eq!(outcomes("nth = 4\nfor_ever = true\nops = ['write']"), ("+++---".to_owned(), 3));
    assert_eq!(outcomes("ops = ['flush']"), ("++++++".to_owned(), 6));
    assert_eq!(outcomes("at = '1MiB'"), ("++++++".to_owned(), 6));
    let by_chance = outcomes("rate_pct = 50\nops = ['write']");
    assert!(by_chance.0.contains('+') && by_chance.0.contains('-'), "{by_chance:?}");
    assert_eq!(by_chance, outcomes("rate_pct = 50\nops = ['write']"), "the same in every run");
    let kind =
        under("error", "kind = 'no space'", async |device| write(&device, 0, 1, 1).await.unwrap_err().kind());
    assert_eq!(kind, ErrorKind::NoSpace);
}

#[test]
fn bad_sectors_cannot_be_read_until_they_are_written() {
    under("error", "until_written = true\nat = '51200'\nsize = '1KiB'", async |device| {
        let is_bad = async |start, sectors| read(&device, start, sectors).await.is_err();
        assert!(!is_bad(92, 8).await && is_bad(93, 8).await && is_bad(101, 1).await && !is_bad(102, 4).await);
        write(&device, 98, 3, 3).await.unwrap();
        assert_eq!(read(&device, 96, 5).await.unwrap(), [0, 0, 3, 3, 3]);
        let error = read(&device, 96, 8).await.unwrap_err();
        assert_eq!((error.kind(), error.extent()), (ErrorKind::Medium, Some(Extent::new(101, 1))));
        device.write_zeroes(Extent::new(101, 1), Hints::default(), Zeroes::default()).await.unwrap();
        assert!(!is_bad(96, 8).await);
    });
}

#[test]
fn sectors_go_bad_by_chance_and_weak_ones_are_read_but_not_verified() {
    under(
        "error",
        "until_written = true\nrate_pct = 50\nweak = true\nat = '0'\nsize = '8KiB'",
        async |device| {
            let verify = async |start| {
                let how = Hints { verify: true, ..Hints::default() };
                device.read(Extent::new(start, 4), Buffer::hollow_sectors(4), how).await.is_err()
            };
            let mut bad = Vec::new();
            for start in (0..32).step_by(4) {
                read(&device, start, 4).await.unwrap();
                if verify(start).await {
                    assert!(verify(start).await && start < 16, "it stays, and is where it may be");
                    bad.push(start);
                }
            }
            assert!(!bad.is_empty(), "{bad:?}");
            assert!(read(&device, 0, 32).await.is_ok());
        },
    );
}

#[test]
fn writes_are_lost_torn_or_misdirected() {
    let after = |options: &str| {
        under("lose", options, async |device| {
            write(&device, 100, 1, 8).await.unwrap();
            write(&device, 100, 2, 8).await.unwrap();
            read(&device, 100, 8).await.unwrap()
        })
    };
    assert_eq!(after("nth = 2"), [1; 8]);
    assert_eq!(after("nth = 3"), [2; 8]);
    assert_eq!(after("rate_pct = 100"), [0; 8]);
    assert_eq!(after("rate_pct = 0"), [2; 8]);
    assert_eq!(after("what = 'misdirected'\nnth = 2"), [1; 8]);
    let at_the_end = under("lose", "what = 'misdirected'", async |device| {
        let end = device.geometry().sectors;
        write(&device, end - 8, 3, 8).await.unwrap();
        read(&device, end - 8, 8).await.unwrap()
    });
    assert_eq!(at_the_end, [0; 8], "no room further on");
}

/// Over many writes every shape is seen: the first sectors, the last, those between, none; never all of them.
#[test]
fn a_torn_write_is_torn_anywhere() {
    let mut shapes = under("lose", "what = 'torn'\nfor_ever = true", async |device| {
        let mut shapes = std::collections::BTreeSet::new();
        for start in (0..2_000).step_by(4) {
            write(&device, start, 1, 4).await.unwrap();
            shapes.insert(read(&device, start, 4).await.unwrap());
        }
        shapes
    });
    assert!(!shapes.contains(&vec![1; 4]));
    shapes.insert(vec![1; 4]);
    assert_eq!(shapes.len(), 16, "any of four sectors: {shapes:?}");
}

#[test]
fn a_device_is_full_when_so_much_was_written() {
    under("error", "after = '2KiB'", async |device| {
        for start in [0, 1, 0] {
            write(&device, start, 1, 1).await.unwrap();
        }
        let error = write(&device, 5, 1, 2).await.unwrap_err();
        assert_eq!((error.kind(), error.extent()), (ErrorKind::NoSpace, Some(Extent::new(5, 2))));
        write(&device, 5, 1, 1).await.unwrap();
        let zeroes = device.write_zeroes(Extent::new(9, 1), Hints::default(), Zeroes::default()).await;
        assert_eq!(zeroes.unwrap_err().kind(), ErrorKind::NoSpace);
        device.flush(Hints::default()).await.unwrap();
        assert_eq!(read(&device, 0, 7).await.unwrap(), [1, 1, 0, 0, 0, 1, 0]);
    });
}

/// With four requests outstanding all the time, a drive that is three times as slow does a third.
#[test]
fn a_slow_drive_does_so_many_times_less() {
    let took = |options: &str| {
        under("delay", options, async |device| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let device = device.clone();
                    runtime::spawn(async move {
                        for turn in 0..50 {
                            read(&device, (client * 7 + turn * 13) % 97 * 4_000_000, 8).await.unwrap();
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await;
            }
            runtime::now().seconds()
        })
    };
    let times = took("times = 3.0") / took("time = '1ns'");
    assert!((2.7..3.3).contains(&times), "{times}");
}

/// A device that has carried a request out when it is called, and not when its answer is waited for.
struct Eager(std::cell::Cell<u64>);

impl BlockDevice for Eager {
    fn geometry(&self) -> Geometry {
        Geometry::of_memory(1 << 20)
    }

    fn read(&self, _: Extent, into: Buffer, _: Hints) -> IoFuture<'_, Buffer> {
        self.0.set(self.0.get() + 1);
        io(std::future::ready(Ok(into)))
    }

    fn write(&self, _: Extent, _: Buffer, _: Hints) -> IoFuture<'_, ()> {
        self.0.set(self.0.get() + 1);
        io(std::future::ready(Ok(())))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.write(Extent::default(), Buffer::default(), how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.write(at, Buffer::default(), how)
    }
}

#[test]
fn what_is_not_carried_out_never_reaches_the_device_and_an_endless_request_ends_with_its_world() {
    for options in ["error kind = 'gone'", "lose what = 'lost'", "lose what = 'endless'"] {
        let (name, options) = options.split_once(' ').unwrap();
        let runtime = Runtime::new(1);
        let device = Rc::new(Eager(std::cell::Cell::new(0)));
        let over: Rc<dyn BlockDevice> = device.clone();
        runtime
            .run(async {
                let all = "for_ever = true\nops = ['read', 'write', 'flush', 'discard', 'write zeroes']";
                let options = toml::from_str(&format!("{options}\n{all}")).unwrap();
                let below = Below {
                    over: vec![over],
                    devices: std::collections::BTreeMap::new(),
                    create: true,
                    timing_only: false,
                };
                let layer = registry::find(name).unwrap().build(below, &options).await.unwrap().device;
                let at = Extent::new(0, 1);
                runtime::spawn(async move {
                    let zeroes = || layer.write_zeroes(at, Hints::default(), Zeroes::default());
                    let read = io(async { read(&layer, 0, 1).await.map(drop) });
                    let write = io(write(&layer, 0, 1, 1));
                    let (flush, discard) =
                        (layer.flush(Hints::default()), layer.discard(at, Hints::default()));
                    futures_util::future::join_all([read, write, flush, discard, zeroes()]).await
                })
                .detach();
                runtime::sleep(Nanos::from_millis(1)).await;
            })
            .unwrap();
        assert_eq!(device.0.get(), 0, "{name}: {options}");
        drop(runtime);
        assert_eq!(Rc::strong_count(&device), 1, "{name}: {options}");
    }
}

#[test]
fn an_endless_request_stops_nobody_else() {
    under("lose", "what = 'endless'\nops = ['read']", async |device| {
        let first = device.clone();
        let waits = runtime::spawn(async move { read(&first, 0, 1).await });
        runtime::sleep(Nanos(1)).await;
        write(&device, 0, 9, 1).await.unwrap();
        assert_eq!(read(&device, 0, 1).await.unwrap(), [9]);
        assert!(!waits.is_finished());
    });
}

#[test]
fn options_that_make_no_sense_are_reported() {
    for (name, options, words) in [
        ("delay", "", ["no delay", "exponential or normal"]),
        ("delay", "time = '1ms'\nrate_pct = -1", ["-1", "0 to 100"]),
        ("delay", "time = '1ms'\ntimes = 2.0", ["it with a time", "times above 1"]),
        ("delay", "times = 0.5", ["0.5", "1 to 1000000"]),
        ("delay", "time = '5'", ["'5'", "a time such as 1.5ms"]),
        ("error", "nth = 0", ["found 0", "the first is 1"]),
        ("error", "kind = 'rust'", ["'rust'", "medium, corrupt"]),
        ("error", "rate_pct = 101", ["101", "0 to 100"]),
        ("error", "rate_pct = 1\nnth = 2", ["rate_pct", "one of them"]),
        ("error", "after = '1MiB'\nnth = 2", ["after", "it alone"]),
        ("lose", "nth = 2\nrate_pct = 3", ["rate_pct", "one of them"]),
        ("lose", "what = 'torn'\nops = ['read']", ["ops", "only they can be torn"]),
        ("lose", "ops = ['fly']", ["'fly'", "read, write"]),
        ("lose", "at = '3'", ["'3'", "whole sectors"]),
    ] {
        let error =
            registry::find(name).unwrap().check(&toml::from_str(options).unwrap()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{name}, {options}: {error}");
    }
}
