//! The log-structured logical disk against a register for each sector, with power cuts at every request; and one
//! test for each thing that can go wrong in between.

mod cleaning;
mod crashes;
mod rules;

use std::collections::BTreeMap;

use proptest::prelude::*;
use seekless_core::runtime::Runtime;
use seekless_core::{SECTOR_BYTES, Slice};
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::{Faulty, error};

/// Blocks of the volume, in segments of four: it takes ten of them.
const BLOCKS: u64 = 12;
const SECTORS: u64 = BLOCKS * PAGE_SECTORS;

/// What is below: so many segments of so many blocks, behind two homes of a page.
fn disk(segments: u64, segment: u64) -> Rc<dyn BlockDevice> {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    Rc::new(Slice::new(disk, Extent::of_pages(0, 2 + segments * segment)).unwrap())
}

fn options(blocks: u64, segment: u64, more: &str) -> Options {
    toml::from_str(&format!("size = '{}KiB'\nsegment = '{}KiB'\n{more}", 4 * blocks, 4 * segment)).unwrap()
}

async fn open_with(below: &Rc<dyn BlockDevice>, more: &str) -> Result<Rc<Lld>, IoError> {
    Lld::open(below.clone(), options(BLOCKS, 4, more)).await
}

async fn open(below: &Rc<dyn BlockDevice>) -> Result<Rc<Lld>, IoError> {
    open_with(below, "").await
}

fn world<T>(work: impl AsyncFnOnce() -> T) -> (T, Vec<(&'static str, u64)>) {
    let runtime = Runtime::new(1);
    (runtime.run(work()).unwrap(), runtime.edges())
}

fn reached(edges: &[(&'static str, u64)], edge: &str) -> bool {
    edges.iter().any(|(name, _)| *name == edge)
}

fn filled(value: u8, sectors: u64) -> Buffer {
    Buffer::from_vec(vec![value; (sectors * SECTOR_BYTES) as usize])
}

async fn write(device: &dyn BlockDevice, start: u64, sectors: u64, value: u8) -> Result<(), IoError> {
    device.write(Extent::new(start, sectors), filled(value, sectors), Hints::default()).await
}

async fn flush(device: &dyn BlockDevice) -> Result<(), IoError> {
    device.flush(Hints::default()).await
}

/// What each sector holds, which is the same all over.
async fn values(device: &dyn BlockDevice, at: Extent) -> Result<Vec<u8>, IoError> {
    let read = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
    let sectors = read.chunks(SECTOR_BYTES as usize);
    assert!(sectors.clone().all(|bytes| bytes.iter().all(|byte| *byte == bytes[0])), "a sector is mixed");
    Ok(sectors.map(|bytes| bytes[0]).collect())
}

fn with_error(below: &Rc<dyn BlockDevice>, options: &str) -> Rc<dyn BlockDevice> {
    Rc::new(Faulty::new(below.clone(), error::Error::new(&toml::from_str(options).unwrap())))
}

/// Slots that have a block, segments that are free: all of it agrees.
fn agrees(lld: &Lld) {
    let state = lld.state.borrow();
    let mut live = vec![0; lld.layout.segments as usize];
    for (block, &slot) in (0..).zip(&state.slots).filter(|(_, slot)| **slot != NONE) {
        assert_eq!(state.owners[slot as usize], block);
        live[lld.layout.segment_of(slot) as usize] += 1;
    }
    let told: Vec<u32> = state.segments.iter().map(|(_, segment)| segment.live).collect();
    assert_eq!(told, live);
    let owned = state.owners.iter().filter(|owner| **owner != NONE).count() as u32;
    assert_eq!(owned, live.iter().sum::<u32>());
    assert!(state.segments.iter().all(|(_, segment)| segment.pins == 0 && !segment.cleaning));
}

/// Of each sector, the versions that a restart may find: the last durable one first, the last one written last.
struct Versions(BTreeMap<u64, Vec<u8>>);

/// A step of a workload: what, from where, how many sectors.
type Step = (u8, u64, u64);

impl Versions {
    fn zeroes() -> Versions {
        Versions((0..SECTORS).map(|sector| (sector, vec![0])).collect())
    }

    fn last(&self, sectors: std::ops::Range<u64>) -> Vec<u8> {
        sectors.map(|sector| *self.0[&sector].last().unwrap()).collect()
    }

    /// What was answered is durable.
    fn settle(&mut self) {
        for all in self.0.values_mut() {
            all.drain(..all.len() - 1);
        }
    }

    /// Carries steps out until one fails; writes `first` and the numbers behind.
    async fn carry_out(&mut self, lld: &dyn BlockDevice, steps: &[Step], first: u8) -> Result<(), IoError> {
        for (number, &(what, start, sectors)) in (first..).zip(steps) {
            let at = Extent::new(start, sectors.min(SECTORS - start));
            let sectors = at.start.0..at.end().0;
            let how = Hints { fua: what == 1, ..Hints::default() };
            let (value, touched) = match what {
                3 => (0, at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS).collect()),
                4 => (0, vec![at]),
                0 | 2 => (0, Vec::new()),
                _ => (number, vec![at]),
            };
            // Answered or not, it may be found.
            for sector in touched.iter().flat_map(|part| part.start.0..part.end().0) {
                self.0.get_mut(&sector).unwrap().push(value);
            }
            match what {
                0 => lld.flush(how).await?,
                2 => assert_eq!(values(lld, at).await?, self.last(sectors), "step {number}"),
                3 => lld.discard(at, how).await?,
                4 => lld.write_zeroes(at, how, Zeroes::default()).await?,
                _ => lld.write(at, filled(number, at.sectors), how).await?,
            }
            // What follows makes all that was answered durable; a write with FUA only itself.
            match what {
                0 => self.settle(),
                1 => {
                    for sector in at.start.0..at.end().0 {
                        let all = self.0.get_mut(&sector).unwrap();
                        all.drain(..all.len() - 1);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a restart finds is one of the versions; from then on it is the only one.
    async fn recover(&mut self, below: &Rc<dyn BlockDevice>, more: &str, when: &str) -> Rc<Lld> {
        let lld = open_with(below, more).await.unwrap_or_else(|error| panic!("{when}: {error}"));
        let found = values(&*lld, Extent::new(0, SECTORS)).await.unwrap();
        for (sector, value) in (0..).zip(found) {
            let versions = self.0.get_mut(&sector).unwrap();
            assert!(versions.contains(&value), "{when}: sector {sector}: {value} of {versions:?}");
            *versions = vec![value];
        }
        lld
    }

    /// The same, and it goes on working.
    async fn check(&mut self, below: Rc<dyn BlockDevice>, more: &str, when: &str) {
        let lld = self.recover(&below, more, when).await;
        write(&*lld, 0, SECTORS, 77).await.unwrap();
        flush(&*lld).await.unwrap();
        agrees(&lld);
        let again = open_with(&below, more).await.unwrap();
        assert_eq!(values(&*again, Extent::new(0, SECTORS)).await.unwrap(), [77; SECTORS as usize], "{when}");
        agrees(&again);
    }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..9_u8, 0..SECTORS - 1, 1..30_u64), 1..most)
}
