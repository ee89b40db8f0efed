//! Memory that a virtual machine shares, by the addresses of its guest.
//!
//! Invariants: every access is within a region, and copies: nothing here holds a reference to bytes that the guest may
//! change. Fault model: a file that its owner makes shorter than it was when it was mapped; the kernel then ends this
//! process (SIGBUS). QEMU seals its memory against that.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use vm_memory::mmap::MmapRegion;
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemory as _, GuestMemoryMmap, GuestRegionMmap, Permissions,
};

use super::Malformed;

/// A part of a guest's memory, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address in the guest.
    pub guest: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Address in the process of the virtual machine.
    pub user: u64,
    /// Offset in the file that is shared.
    pub offset: u64,
}

/// See the file's header.
#[derive(Debug)]
pub struct GuestMemory {
    map: GuestMemoryMmap<()>,
    regions: Vec<Region>,
}

/// The range of bytes that is not in memory.
fn outside(place: &str, at: u64, bytes: usize) -> Malformed {
    Malformed::new(place, format!("{bytes} bytes at {at:#x}"), "memory of the guest")
}

impl GuestMemory {
    /// Maps regions of files, each in its own.
    ///
    /// # Errors
    /// Regions that overlap, and those that the files do not have.
    pub fn map(regions: &[Region], files: Vec<OwnedFd>) -> Result<GuestMemory, Malformed> {
        let mut all: Vec<(Region, OwnedFd)> = regions.iter().copied().zip(files).collect();
        all.sort_by_key(|(region, _)| region.guest);
        let regions = all.iter().map(|(region, _)| *region).collect();
        let mapped = all.into_iter().map(|(region, file)| {
            let mapping = map(file, region.offset, region.bytes)?;
            let unfit = || malformed(&region, "past the end of addresses");
            GuestRegionMmap::new(mapping, GuestAddress(region.guest)).ok_or_else(unfit)
        });
        GuestMemory::of(mapped.collect::<Result<_, _>>()?, regions)
    }

    /// Memory of zeroes in this process, at these addresses and of these sizes: for tests.
    pub fn zeroed(parts: &[(u64, usize)]) -> Result<GuestMemory, Malformed> {
        let region = |(guest, bytes): &(u64, usize)| Region {
            guest: *guest,
            bytes: *bytes as u64,
            user: *guest,
            offset: 0,
        };
        let regions: Vec<Region> = parts.iter().map(region).collect();
        let mapped = regions.iter().map(|region| {
            let mapping = MmapRegion::new(region.bytes as usize).map_err(|error| malformed(region, &error));
            let unfit = || malformed(region, "past the end of addresses");
            GuestRegionMmap::new(mapping?, GuestAddress(region.guest)).ok_or_else(unfit)
        });
        GuestMemory::of(mapped.collect::<Result<_, _>>()?, regions)
    }

    fn of(mapped: Vec<GuestRegionMmap<()>>, regions: Vec<Region>) -> Result<GuestMemory, Malformed> {
        let map = GuestMemoryMmap::from_regions(mapped);
        let map =
            map.map_err(|error| Malformed::new("memory", error.to_string(), "regions that do not overlap"))?;
        Ok(GuestMemory { map, regions })
    }

    /// The guest's address of an address in the process of the virtual machine.
    pub fn guest_address(&self, user: u64) -> Option<u64> {
        let inside = |region: &&Region| user.checked_sub(region.user).is_some_and(|at| at < region.bytes);
        let region = self.regions.iter().find(inside)?;
        Some(region.guest + (user - region.user))
    }

    /// Checks that these bytes are in memory; `place` is for the error.
    pub fn check(&self, place: &str, at: u64, bytes: usize) -> Result<(), Malformed> {
        let inside = self.map.check_range(GuestAddress(at), bytes, Permissions::ReadWrite);
        if inside || bytes == 0 { Ok(()) } else { Err(outside(place, at, bytes)) }
    }

    /// Copies from memory.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Malformed> {
        let bytes = into.len();
        self.map.read_slice(into, GuestAddress(at)).map_err(|_| outside("read", at, bytes))
    }

    /// Copies to memory.
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), Malformed> {
        self.map.write_slice(from, GuestAddress(at)).map_err(|_| outside("write", at, from.len()))
    }

    /// Loads a number at an even address; what was stored before it is visible afterwards.
    pub fn load(&self, at: u64) -> Result<u16, Malformed> {
        let loaded = self.map.load::<u16>(GuestAddress(at), Ordering::Acquire);
        loaded.map(u16::from_le).map_err(|_| outside("load", at, 2))
    }

    /// Stores a number at an even address, after all that was stored before.
    pub fn store(&self, at: u64, number: u16) -> Result<(), Malformed> {
        let stored = self.map.store(number.to_le(), GuestAddress(at), Ordering::Release);
        stored.map_err(|_| outside("store", at, 2))
    }
}

/// Maps a part of a file.
pub(super) fn map(file: OwnedFd, offset: u64, bytes: u64) -> Result<MmapRegion<()>, Malformed> {
    let region = Region { guest: 0, bytes, user: 0, offset };
    let file = File::from(file);
    // What is mapped past the end of a file cannot be accessed.
    let length = file.metadata().map_err(|error| malformed(&region, &error))?.len();
    if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > length) {
        return Err(malformed(&region, format_args!("in a file of {length} bytes")));
    }
    MmapRegion::from_file(FileOffset::new(file, offset), bytes as usize)
        .map_err(|error| malformed(&region, &error))
}

fn malformed(region: &Region, why: impl std::fmt::Display) -> Malformed {
    let found = format!("{} bytes at {}, {why}", region.bytes, region.offset);
    Malformed::new("shared memory", found, "a part of a file that can be mapped")
}
