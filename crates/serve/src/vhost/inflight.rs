//! Requests in flight, in memory that the process of the virtual machine keeps: a server that is started after a crash
//! finds there what its predecessor had not answered. The layout is the specification's for split rings:
//!
//! | bytes of a ring's part | |
//! |---|---|
//! | 0..8 | features: 0 |
//! | 8..10 | version: 1, or 0 before the first use |
//! | 10..12 | entries |
//! | 12..14 | the head that was answered last |
//! | 14..16 | index of the used ring when the last answer was complete |
//! | from 16 on, 16 for each entry | in flight (1), 5 unused, the head answered before (2), a counter of requests (8) |
//!
//! After the parts there are eight bytes of ours: [`CACHE_KNOWN`], and whether the guest has chosen write-back.
//!
//! Invariants: a head is marked before its request is carried out. It is answered in three steps (the head is linked,
//! the used ring's index grows, the mark is removed) and a crash between any two of them leaves it answered once. Fault
//! model: the server is killed between any two instructions; the other side may put anything there.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, memfd_create};
use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, VolatileMemory};

use super::message::Area;
use super::{MOST_ENTRIES, Malformed, block, memory};

const HEADER: usize = 16;
const ENTRY: usize = 16;
const ALIGNED: usize = 64;
const VERSION: u16 = 1;
const TRAILER: usize = 8;
/// First byte after the parts: the next one is known.
const CACHE_KNOWN: u8 = 0x5e;

/// The whole area.
#[derive(Debug)]
pub struct Inflight {
    map: MmapRegion<()>,
    rings: usize,
    entries: u16,
    /// Further stores fail: as if the server were killed there.
    #[cfg(test)]
    pub(super) stores_left: std::cell::Cell<usize>,
}

/// A ring's part of it.
#[derive(Debug)]
pub struct Track {
    area: Rc<Inflight>,
    start: usize,
    entries: u16,
    counter: u64,
}

/// Bytes of a ring's part.
fn part(entries: u16) -> usize {
    (HEADER + ENTRY * usize::from(entries)).next_multiple_of(ALIGNED)
}

fn malformed(found: impl Into<String>, expected: impl Into<String>) -> Malformed {
    Malformed::new("in-flight area", found, expected)
}

impl Inflight {
    /// A new area, its file and its size in bytes.
    pub fn create(rings: u16, entries: u16) -> Result<(OwnedFd, Area), Malformed> {
        let bytes = Inflight::bytes(rings, entries)? + TRAILER;
        let made = memfd_create("seekless-inflight", MemfdFlags::CLOEXEC).map(File::from);
        let sized = made.map_err(std::io::Error::from).and_then(|file| {
            file.set_len(bytes as u64)?;
            Ok(file)
        });
        let file = sized.map_err(|error| malformed(error.to_string(), "shared memory"))?;
        Ok((file.into(), Area { bytes: bytes as u64, offset: 0, rings, entries }))
    }

    /// Bytes of the parts of this many rings.
    fn bytes(rings: u16, entries: u16) -> Result<usize, Malformed> {
        if rings == 0 || usize::from(rings) > block::RINGS {
            return Err(malformed(format!("{rings} rings"), format!("1 to {}", block::RINGS)));
        } else if entries == 0 || entries > MOST_ENTRIES {
            return Err(malformed(format!("{entries} entries"), format!("1 to {MOST_ENTRIES}")));
        }
        Ok(usize::from(rings) * part(entries))
    }

    /// Maps an area.
    pub fn open(file: OwnedFd, area: &Area) -> Result<Rc<Inflight>, Malformed> {
        let least = Inflight::bytes(area.rings, area.entries)? as u64;
        if area.bytes < least {
            return Err(malformed(format!("{} bytes", area.bytes), format!("at least {least}")));
        }
        let map = memory::map(file, area.offset, area.bytes)?;
        Ok(Rc::new(Inflight {
            map,
            rings: area.rings.into(),
            entries: area.entries,
            #[cfg(test)]
            stores_left: std::cell::Cell::new(usize::MAX),
        }))
    }

    fn load<T: vm_memory::AtomicAccess>(&self, at: usize) -> Result<T, Malformed> {
        let loaded = self.map.as_volatile_slice().load::<T>(at, Ordering::Acquire);
        loaded.map_err(|error| malformed(error.to_string(), "a place in it"))
    }

    fn store<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) -> Result<(), Malformed> {
        #[cfg(test)]
        match self.stores_left.get().checked_sub(1) {
            Some(left) => self.stores_left.set(left),
            None => return Err(malformed("the end of the server", "no end")),
        }
        let stored = self.map.as_volatile_slice().store(value, at, Ordering::SeqCst);
        stored.map_err(|error| malformed(error.to_string(), "a place in it"))
    }

    fn trailer(&self) -> Option<usize> {
        let at = self.rings * part(self.entries);
        (at + TRAILER <= self.map.size()).then_some(at)
    }

    /// Whether the guest has chosen write-back, if a server has noted that.
    pub fn write_back(&self) -> Option<bool> {
        let at = self.trailer()?;
        let noted: [u8; 2] = [self.load(at).ok()?, self.load(at + 1).ok()?];
        (noted[0] == CACHE_KNOWN).then_some(noted[1] != 0)
    }

    /// Whether no ring has used it.
    pub fn is_new(&self) -> bool {
        (0..self.rings)
            .all(|ring| self.load::<u16>(ring * part(self.entries) + 8).is_ok_and(|version| version == 0))
    }

    /// Notes whether the guest has chosen write-back.
    pub fn note_write_back(&self, write_back: bool) -> Result<(), Malformed> {
        let Some(at) = self.trailer() else { return Ok(()) };
        self.store(at + 1, u8::from(write_back))?;
        self.store(at, CACHE_KNOWN)
    }

    /// The part of a ring with this many entries.
    pub fn track(self: &Rc<Self>, ring: usize, entries: u16) -> Result<Track, Malformed> {
        if ring >= self.rings || entries > self.entries {
            let found = format!("ring {ring} with {entries} entries");
            return Err(malformed(found, format!("one of {} with up to {}", self.rings, self.entries)));
        }
        Ok(Track { area: self.clone(), start: ring * part(self.entries), entries, counter: 0 })
    }
}

impl Track {
    fn entry(&self, head: u16) -> usize {
        self.start + HEADER + ENTRY * usize::from(head)
    }

    /// Completes the answer at which the last server was killed, if any; `used` is the index of the used ring. Returns
    /// the heads that it had not answered, in the order in which they were taken.
    pub fn recover(&mut self, used: u16) -> Result<Vec<u16>, Malformed> {
        let area = self.area.clone();
        let [version, entries, last, answered] = [
            area.load::<u16>(self.start + 8)?,
            area.load(self.start + 10)?,
            area.load(self.start + 12)?,
            area.load(self.start + 14)?,
        ];
        if version == 0 {
            area.store(self.start + 10, self.entries)?;
            area.store(self.start + 14, used)?;
            area.store(self.start + 8, VERSION)?;
        } else if version != VERSION || entries != self.entries {
            let found = format!("version {version} for {entries} entries");
            return Err(malformed(found, format!("version {VERSION} for {}", self.entries)));
        } else if answered != used {
            self.forget(last, used.wrapping_sub(answered))?;
            area.store(self.start + 14, used)?;
        }
        let mut waiting = Vec::new();
        for head in 0..self.entries {
            if area.load::<u8>(self.entry(head))? != 0 {
                waiting.push((area.load::<u64>(self.entry(head) + 8)?, head));
            }
        }
        waiting.sort_unstable();
        self.counter = waiting.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(waiting.into_iter().map(|(_, head)| head).collect())
    }

    /// Removes the marks of the `count` heads answered last.
    fn forget(&mut self, last: u16, count: u16) -> Result<(), Malformed> {
        if count > self.entries {
            let found = format!("{count} answers at once");
            return Err(malformed(found, format!("at most {}", self.entries)));
        }
        let mut head = last;
        for _ in 0..count {
            if head >= self.entries {
                return Err(malformed(format!("head {head}"), format!("below {}", self.entries)));
            }
            self.area.store(self.entry(head), 0_u8)?;
            head = self.area.load(self.entry(head) + 6)?;
        }
        Ok(())
    }

    /// Marks a head before its request is carried out.
    pub fn begin(&mut self, head: u16) -> Result<(), Malformed> {
        let at = self.entry(head);
        self.area.store(at + 8, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        self.area.store(at, 1_u8)
    }

    /// Whether a head is marked: the guest has made it available before it was answered.
    pub fn has(&self, head: u16) -> Result<bool, Malformed> {
        self.area.load::<u8>(self.entry(head)).map(|mark| mark != 0)
    }

    /// Links a head, before it is put into the used ring.
    pub fn answer(&mut self, head: u16) -> Result<(), Malformed> {
        let last: u16 = self.area.load(self.start + 12)?;
        self.area.store(self.entry(head) + 6, last)?;
        self.area.store(self.start + 12, head)
    }

    /// Removes the mark of a head that was put into the used ring, whose index is now `used`.
    pub fn end(&mut self, head: u16, used: u16) -> Result<(), Malformed> {
        self.area.store(self.entry(head), 0_u8)?;
        self.area.store(self.start + 14, used)
    }
}
