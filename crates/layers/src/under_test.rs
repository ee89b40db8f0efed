//! For the tests of layers: a register for each sector of a small volume, and steps applied to both.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use proptest::prelude::*;
use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, PAGE_SECTORS, SECTOR_BYTES, Zeroes};

use crate::fault::{Faulty, error};

/// Pages that the tests see.
pub const PAGES: u64 = 12;
/// The same in sectors.
pub const SECTORS: u64 = PAGES * PAGE_SECTORS;

/// Runs it in a world of its own; also the edges that it reached.
pub fn world<T>(work: impl AsyncFnOnce() -> T) -> (T, Vec<(&'static str, u64)>) {
    let runtime = Runtime::new(1);
    (runtime.run(work()).unwrap(), runtime.edges())
}

pub fn reached(edges: &[(&'static str, u64)], edge: &str) -> bool {
    edges.iter().any(|(name, _)| *name == edge)
}

pub fn filled(value: u8, sectors: u64) -> Buffer {
    Buffer::from_vec(vec![value; (sectors * SECTOR_BYTES) as usize])
}

pub async fn write(device: &dyn BlockDevice, start: u64, sectors: u64, value: u8) -> Result<(), IoError> {
    device.write(Extent::new(start, sectors), filled(value, sectors), Hints::default()).await
}

pub async fn flush(device: &dyn BlockDevice) -> Result<(), IoError> {
    device.flush(Hints::default()).await
}

/// Copies all that a device holds to another one; returns that.
pub async fn copied(of: &Rc<dyn BlockDevice>, to: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    let all = Extent::new(0, of.geometry().sectors);
    let bytes = of.read(all, Buffer::zeroed(all.bytes()), Hints::default()).await.unwrap();
    to.write(all, bytes, Hints::default()).await.unwrap();
    to
}

/// What each sector holds, which is the same all over.
pub async fn values(device: &dyn BlockDevice, at: Extent) -> Result<Vec<u8>, IoError> {
    let read = device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await?.to_vec();
    let sectors = read.chunks(SECTOR_BYTES as usize);
    assert!(sectors.clone().all(|bytes| bytes.iter().all(|byte| *byte == bytes[0])), "a sector is mixed");
    Ok(sectors.map(|bytes| bytes[0]).collect())
}

/// It fails as the options of the layer `error` say.
pub fn with_error(below: &Rc<dyn BlockDevice>, options: &str) -> Rc<dyn BlockDevice> {
    Rc::new(Faulty::new(below.clone(), error::Error::new(&toml::from_str(options).unwrap())))
}

/// Of each sector, the versions that a restart may find: the last durable one first, the last one written last.
pub struct Versions(BTreeMap<u64, Vec<u8>>);

/// A step of a workload: what, from where, how many sectors.
pub type Step = (u8, u64, u64);

/// Some of them.
pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..9_u8, 0..SECTORS - 1, 1..30_u64), 1..most)
}

impl Versions {
    pub fn zeroes() -> Versions {
        Versions((0..SECTORS).map(|sector| (sector, vec![0])).collect())
    }

    pub fn last(&self, sectors: Range<u64>) -> Vec<u8> {
        sectors.map(|sector| *self.0[&sector].last().unwrap()).collect()
    }

    /// It may be found from now on.
    pub fn may_be(&mut self, sectors: Range<u64>, value: u8) {
        sectors.for_each(|sector| self.0.get_mut(&sector).unwrap().push(value));
    }

    /// What was answered last is durable.
    fn settle(&mut self, sectors: Range<u64>) {
        for (_, all) in self.0.range_mut(sectors) {
            all.drain(..all.len() - 1);
        }
    }

    /// Carries steps out until one fails; writes `first` and the numbers behind.
    pub async fn carry_out(
        &mut self,
        device: &dyn BlockDevice,
        steps: &[Step],
        first: u8,
    ) -> Result<(), IoError> {
        for (number, &(what, start, sectors)) in (first..).zip(steps) {
            let at = Extent::new(start, sectors.min(SECTORS - start));
            let sectors = at.start.0..at.end().0;
            let how = Hints { fua: what == 1, ..Hints::default() };
            // Answered or not, it may be found.
            match what {
                0 | 2 => {}
                3 => {
                    let whole = at.split(PAGE_SECTORS).filter(|part| part.sectors == PAGE_SECTORS);
                    whole.for_each(|page| self.may_be(page.start.0..page.end().0, 0));
                }
                4 => self.may_be(sectors.clone(), 0),
                _ => self.may_be(sectors.clone(), number),
            }
            match what {
                0 => device.flush(how).await?,
                2 => assert_eq!(values(device, at).await?, self.last(sectors.clone()), "step {number}"),
                3 => device.discard(at, how).await?,
                4 => device.write_zeroes(at, how, Zeroes::default()).await?,
                _ => device.write(at, filled(number, at.sectors), how).await?,
            }
            // A flush makes all durable that was answered; a write with FUA only itself.
            match what {
                0 => self.settle(0..SECTORS),
                1 => self.settle(sectors),
                _ => {}
            }
        }
        Ok(())
    }

    /// The contents are one of the versions; from then on it is the only one.
    pub async fn agree(&mut self, device: &dyn BlockDevice, when: &str) {
        let found = values(device, Extent::new(0, SECTORS)).await.unwrap();
        for (sector, value) in (0..).zip(found) {
            let versions = self.0.get_mut(&sector).unwrap();
            assert!(versions.contains(&value), "{when}: sector {sector}: {value} of {versions:?}");
            *versions = vec![value];
        }
    }
}
