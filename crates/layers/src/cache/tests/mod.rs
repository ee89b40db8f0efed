//! The buffer cache against a register for each sector, with clients side by side and requests that fail; and one test
//! for each thing that it promises.

mod ahead;
mod model;
mod rules;
mod size;

use seekless_core::runtime::{self, Runtime, now, sleep};
use seekless_core::{IoError, SECTOR_BYTES, Slice};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Disk, QueueOptions, spec};

use super::*;
use crate::fault::{Faulty, error};

/// The first sectors of a disk whose head takes along what is asked for free.
fn disk(sectors: u64) -> Rc<dyn BlockDevice> {
    let options = QueueOptions { freeblock: Some(FreeOptions::default()), ..QueueOptions::default() };
    let disk = Disk::new(0, &spec::find("wd2500aaks").unwrap(), options);
    Rc::new(Slice::new(Rc::new(disk), Extent::new(0, sectors)).unwrap())
}

fn cache(below: &Rc<dyn BlockDevice>, options: &str) -> Rc<Cache> {
    let options: Options = toml::from_str(options).unwrap();
    options.check().unwrap();
    Cache::new(below.clone(), options)
}

fn with_error(below: &Rc<dyn BlockDevice>, options: &str) -> Rc<dyn BlockDevice> {
    Rc::new(Faulty::new(below.clone(), error::Error::new(&toml::from_str(options).unwrap())))
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

async fn write_fua(device: &dyn BlockDevice, start: u64, sectors: u64, value: u8) -> Result<(), IoError> {
    let how = Hints { fua: true, ..Hints::default() };
    device.write(Extent::new(start, sectors), filled(value, sectors), how).await
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

async fn value(device: &dyn BlockDevice, sector: u64) -> u8 {
    values(device, Extent::new(sector, 1)).await.unwrap()[0]
}

fn counted(cache: &Cache, name: &str) -> u64 {
    cache.counters().iter().find(|(key, _)| *key == name).unwrap().1
}

/// What always holds: memory is bounded, and each page that is not below is in one queue.
fn agrees(cache: &Cache) {
    let state = cache.state.borrow();
    assert!(state.held() <= state.capacity, "{} pages", state.held());
    for (&sequence, &page) in &state.waiting {
        let page = state.page(page).unwrap();
        assert!(page.sequence == sequence && page.dirty != 0 && page.flight.is_none());
        assert_eq!(page.dirty & !page.known, 0);
    }
    for (&sequence, &page) in &state.flying {
        assert_eq!(state.page(page).unwrap().flight.as_ref().unwrap().sequence, sequence);
    }
}
