//! The log-structured logical disk against a register for each sector, with power cuts at every request; and one
//! test for each thing that can go wrong in between.

mod cleaning;
mod crashes;
mod rules;

use proptest::prelude::*;
use seekless_core::Slice;
use seekless_core::runtime::Runtime;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::under_test::{
    PAGES, SECTORS, Versions, filled, flush, reached, steps, values, with_error, world, write,
};

/// Blocks of the volume, in segments of four: it takes ten of them.
const BLOCKS: u64 = PAGES;

/// The device below: `segments` segments of `segment` blocks, after two copies of a page.
fn disk(segments: u64, segment: u64) -> Rc<dyn BlockDevice> {
    let spec = spec::find("wd2500aaks").unwrap();
    let disk: Rc<dyn BlockDevice> = Rc::new(Disk::new(0, &spec, QueueOptions::default()));
    Rc::new(Slice::new(disk, Extent::of_pages(0, 2 + segments * segment)).unwrap())
}

fn options(blocks: u64, segment: u64, more: &str) -> Options {
    toml::from_str(&format!("size = '{}KiB'\nsegment = '{}KiB'\n{more}", 4 * blocks, 4 * segment)).unwrap()
}

async fn open_with(below: &Rc<dyn BlockDevice>, more: &str) -> Result<Rc<Lld>, IoError> {
    Lld::open(below.clone(), options(BLOCKS, 4, more), true).await
}

async fn open(below: &Rc<dyn BlockDevice>) -> Result<Rc<Lld>, IoError> {
    open_with(below, "").await
}

/// Slots that have a block, segments that are free: all of it agrees.
fn agrees(lld: &Lld) {
    let state = lld.state.borrow();
    let mut live = vec![0; lld.layout.segments as usize];
    for (block, &slot) in (0..).zip(&state.slots).filter(|(_, slot)| **slot != NONE) {
        assert_eq!(state.owners[slot as usize], block);
        live[lld.layout.segment_of(slot) as usize] += 1;
    }
    let message: Vec<u32> = state.segments.iter().map(|(_, segment)| segment.live).collect();
    assert_eq!(message, live);
    let owned = state.owners.iter().filter(|owner| **owner != NONE).count() as u32;
    assert_eq!(owned, live.iter().sum::<u32>());
    assert!(state.segments.iter().all(|(_, segment)| segment.pins == 0 && !segment.cleaning));
}

/// What a restart finds is one of the versions; from then on it is the only one.
async fn recover(versions: &mut Versions, below: &Rc<dyn BlockDevice>, more: &str, when: &str) -> Rc<Lld> {
    let lld = open_with(below, more).await.unwrap_or_else(|error| panic!("{when}: {error}"));
    versions.agree(&*lld, when).await;
    lld
}

/// The same, and it goes on working.
async fn check(versions: &mut Versions, below: Rc<dyn BlockDevice>, more: &str, when: &str) {
    let lld = recover(versions, &below, more, when).await;
    write(&*lld, 0, SECTORS, 77).await.unwrap();
    flush(&*lld).await.unwrap();
    agrees(&lld);
    let again = open_with(&below, more).await.unwrap();
    assert_eq!(values(&*again, Extent::new(0, SECTORS)).await.unwrap(), [77; SECTORS as usize], "{when}");
    agrees(&again);
}
