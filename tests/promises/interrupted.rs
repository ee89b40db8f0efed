//! Tools that are killed: at every write of a repair, a rescue and a restoration, and a rescue a second time while it
//! goes on. Given again, each ends as if it had not been killed.
//!
//! Fault model: a kill between two writes or flushes of any device; what was written stays.

use std::cell::Cell;

use seekless_core::device::io;

use super::*;

/// How many more requests are carried out before the kill; devices that share it die together.
type Left = Rc<Cell<u64>>;

/// A device of a program that is killed.
struct Failing {
    below: Rc<dyn BlockDevice>,
    left: Left,
}

impl Failing {
    fn over(below: &Rc<dyn BlockDevice>, left: &Left) -> Rc<dyn BlockDevice> {
        Rc::new(Failing { below: below.clone(), left: left.clone() })
    }

    fn take(&self, at: Option<Extent>) -> Result<(), IoError> {
        let gone = || IoError::new(ErrorKind::Medium, "kill", at, "the program was killed");
        self.left.set(self.left.get().checked_sub(1).ok_or_else(gone)?);
        Ok(())
    }
}

impl BlockDevice for Failing {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.below)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.take(Some(at))?;
            self.below.write(at, from, how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.take(None)?;
            self.below.flush(how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, _: Zeroes) -> IoFuture<'_, ()> {
        self.write(at, Buffer::zeroed(at.bytes()), how)
    }
}

fn left(requests: u64) -> Left {
    Rc::new(Cell::new(requests))
}

async fn area() -> Rc<dyn BlockDevice> {
    disk(2, vec![0; (BOPT_PAGES as usize + 24) * PAGE]).await
}

#[test]
fn a_repair_that_is_killed_at_any_write_is_given_again_and_never_changes_what_it_reads() {
    let keep: toml::Table =
        options().into_iter().chain([("origin_changed".to_owned(), "keep".into())]).collect();
    let some = |(name, kind, ..): &Image| name.starts_with("killed") || *kind == "map-both";
    for (name, kind, origin, bopt, _) in images().into_iter().filter(some) {
        let run = async {
            let (origin, device) = (disk(0, origin).await, disk(1, bopt.clone()).await);
            let whole = area().await;
            let Ok(expected) = repair(below(&origin, &device), &whole).await else {
                assert!(HOPELESS.contains(&kind), "{name}");
                assert!(content(&*whole).await == content(&*area().await).await, "{name}: nothing is begun");
                return;
            };
            let expected = (expected, content(&*whole).await);
            // How many requests a repair takes.
            let all = left(u64::MAX);
            repair(below(&origin, &device), &Failing::over(&area().await, &all)).await.unwrap();
            let all = u64::MAX - all.get();
            assert!(all > 10, "{name}: only {all} requests");
            for requests in 0..all {
                let new = area().await;
                let killed = repair(below(&origin, &device), &Failing::over(&new, &left(requests))).await;
                assert!(killed.is_err(), "{name}: after {requests} of {all}");
                // Two super pages, and a flush after each: the first one completes it.
                let half = borg().build(below(&origin, &new), &keep).await;
                assert!(half.is_err() || requests + 3 >= all, "{name}: valid after {requests} of {all}");
                let is_open = half.is_ok();
                drop(half);
                match repair(below(&origin, &device), &new).await {
                    Ok(again) => assert_eq!(again, expected.0, "{name}: after {requests} of {all}"),
                    Err(error) => {
                        let completed = is_open && error.to_string().contains("found a BOPT");
                        assert!(completed, "{name}: after {requests} of {all}: {error}");
                    }
                }
                assert!(content(&*new).await == expected.1, "{name}: after {requests} of {all}");
            }
            assert!(content(&*device).await == bopt, "{name}");
        };
        Runtime::new(1).run(run).unwrap();
    }
}

/// Everything home and a clean stop, as `seekless volume rescue` has it.
async fn rescue(origin: &Rc<dyn BlockDevice>, bopt: &Rc<dyn BlockDevice>) -> Result<(), IoError> {
    let Built { layer, .. } = borg().build(below(origin, bopt), &options()).await?;
    layer.write_back(Account::default()).await?;
    origin.flush(Hints::default()).await?;
    layer.stop().await
}

/// A rescue that is killed after this many requests to either device.
async fn killed_rescue(
    origin: &Rc<dyn BlockDevice>,
    bopt: &Rc<dyn BlockDevice>,
    requests: u64,
) -> Option<u64> {
    let left = left(requests);
    let ended = rescue(&Failing::over(origin, &left), &Failing::over(bopt, &left)).await;
    ended.is_ok().then(|| requests - left.get())
}

#[test]
fn a_rescue_that_is_killed_at_any_write_and_once_more_goes_on() {
    let run = async {
        let [origin, bopt, shown] = used("killed").await;
        let devices = async |images: &[Vec<u8>; 2]| {
            (disk(0, images[0].clone()).await, disk(1, images[1].clone()).await)
        };
        let before = [origin, bopt];
        let (origin, bopt) = devices(&before).await;
        let all = killed_rescue(&origin, &bopt, 1 << 40).await.unwrap();
        assert!(all > 10 && content(&*origin).await == shown, "{all} requests");
        let (mut states, mut second) = (0, 0);
        for first in 0..all {
            let (origin, bopt) = devices(&before).await;
            // What comes last are second copies, which it goes without.
            killed_rescue(&origin, &bopt, first).await;
            let half = [content(&*origin).await, content(&*bopt).await];
            for again in 0.. {
                let (origin, bopt) = devices(&half).await;
                let ended = killed_rescue(&origin, &bopt, again).await;
                second += u64::from(ended.is_none());
                rescue(&origin, &bopt).await.unwrap();
                assert!(content(&*origin).await == shown, "after {first} and {again}");
                let Built { layer, .. } = borg().build(below(&origin, &bopt), &options()).await.unwrap();
                let dirty = layer.counters().iter().find(|(name, _)| *name == "pages_dirty").map(|(_, n)| *n);
                assert_eq!(dirty, Some(0), "after {first} and {again}");
                states += 1;
                if ended.is_some() {
                    break;
                }
            }
        }
        println!("{all} requests, {states} rescues, of which {second} were killed twice");
        assert!(second > all);
    };
    Runtime::new(1).run(run).unwrap();
}

#[test]
fn a_restoration_that_is_killed_at_any_write_is_given_again() {
    let run = async {
        let [origin, bopt, shown] = used("killed").await;
        let (origin, device) = (disk(0, origin).await, disk(1, bopt.clone()).await);
        let dump = borg().tools.dump(below(&origin, &device), options()).await.unwrap();
        let restore = async |to: &Rc<dyn BlockDevice>| {
            borg().tools.restore(below(&origin, to), options(), dump.clone(), true).await
        };
        for requests in 0.. {
            let device = disk(1, bopt.clone()).await;
            let ended = restore(&Failing::over(&device, &left(requests))).await;
            restore(&device).await.unwrap();
            let Built { device, .. } = borg().build(below(&origin, &device), &options()).await.unwrap();
            assert!(content(&*device).await == shown, "after {requests}");
            if ended.is_ok() {
                assert!(requests > 5, "{requests} requests");
                break;
            }
        }
    };
    Runtime::new(1).run(run).unwrap();
}
