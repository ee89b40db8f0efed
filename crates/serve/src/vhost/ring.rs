//! A split ring: a table of descriptors, the ring of heads that the guest makes available, and the ring of those that
//! the device has used.
//!
//! Invariants: indices wrap at 2^16; no more heads are taken than the ring has entries. Fault model: as the module's.

use super::Malformed;
use super::chain::{Chain, DESCRIPTOR_BYTES};
use super::memory::GuestMemory;

/// Entries of a ring, at most; a power of two, as all their numbers are.
pub const MOST_ENTRIES: u16 = 1024;

/// In the flags of the available ring: the guest needs no interrupts.
const NO_INTERRUPT: u16 = 1;
/// In the flags of the used ring: the device needs no kicks.
const NO_NOTIFY: u16 = 1;
/// Bytes before the entries of both rings: flags and index.
const HEADER: u64 = 4;
const USED_BYTES: u64 = 8;

/// Where a ring's parts are, in the process of the virtual machine or in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The table of descriptors.
    pub descriptors: u64,
    /// The available ring.
    pub available: u64,
    /// The used ring.
    pub used: u64,
}

/// See the file's header.
#[derive(Debug)]
pub struct Ring {
    /// In the guest.
    at: Addresses,
    entries: u16,
    next_available: u16,
    next_used: u16,
    /// Whether both sides say at which index they want to be notified.
    by_index: bool,
    /// The index when the guest was last notified.
    notified: u16,
}

impl Ring {
    /// A ring at these addresses of the guest, from which the heads before `next_available` were taken.
    pub fn new(
        memory: &GuestMemory,
        at: Addresses,
        entries: u16,
        next_available: u16,
        by_index: bool,
    ) -> Result<Ring, Malformed> {
        if !entries.is_power_of_two() || entries > MOST_ENTRIES {
            let expected = format!("a power of two up to {MOST_ENTRIES}");
            return Err(Malformed::new("ring", format!("{entries} entries"), expected));
        }
        let count = u64::from(entries);
        let parts = [
            ("descriptor table", at.descriptors, DESCRIPTOR_BYTES, count * DESCRIPTOR_BYTES),
            ("available ring", at.available, 2, HEADER + 2 * count + 2),
            ("used ring", at.used, 4, HEADER + USED_BYTES * count + 2),
        ];
        for (place, at, aligned, bytes) in parts {
            memory.check(place, at, bytes as usize)?;
            if at % aligned != 0 {
                let expected = format!("a multiple of {aligned}");
                return Err(Malformed::new(place, format!("address {at:#x}"), expected));
            }
        }
        let next_used = memory.load(at.used + 2)?;
        Ok(Ring { at, entries, next_available, next_used, by_index, notified: next_used })
    }

    /// Entries.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Index of the next head to take.
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// Continues at this index of heads: those before it were taken, and may have to be carried out again.
    pub fn skip_to(&mut self, next_available: u16) {
        self.next_available = next_available;
    }

    /// Index after the last used head.
    pub fn used_index(&self) -> u16 {
        self.next_used
    }

    /// Whether the guest has made heads available that were not taken.
    pub fn has_available(&self, memory: &GuestMemory) -> Result<bool, Malformed> {
        Ok(memory.load(self.at.available + 2)? != self.next_available)
    }

    /// Takes the next head that the guest has made available, if any.
    pub fn take(&mut self, memory: &GuestMemory) -> Result<Option<u16>, Malformed> {
        let available = memory.load(self.at.available + 2)?;
        let waiting = available.wrapping_sub(self.next_available);
        if waiting == 0 {
            return Ok(None);
        } else if waiting > self.entries {
            let expected = format!("at most {}", self.entries);
            return Err(Malformed::new("available ring", format!("{waiting} heads"), expected));
        }
        let slot = u64::from(self.next_available % self.entries);
        let head = memory.load(self.at.available + HEADER + 2 * slot)?;
        if head >= self.entries {
            return Err(Malformed::new(
                "available ring",
                format!("head {head}"),
                format!("below {}", self.entries),
            ));
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// The chain of a head.
    pub fn chain(&self, memory: &GuestMemory, head: u16) -> Result<Chain, Malformed> {
        Chain::read(memory, self.at.descriptors, self.entries, head)
    }

    /// Puts a head into the used ring: `written` bytes of its chain were written.
    pub fn put_used(&mut self, memory: &GuestMemory, head: u16, written: u32) -> Result<(), Malformed> {
        let slot = self.at.used + HEADER + USED_BYTES * u64::from(self.next_used % self.entries);
        let mut element = [0; USED_BYTES as usize];
        element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        memory.write(slot, &element)?;
        self.next_used = self.next_used.wrapping_add(1);
        memory.store(self.at.used + 2, self.next_used)
    }

    /// Whether the guest is to be notified of the heads used since it was last.
    pub fn wants_notice(&mut self, memory: &GuestMemory) -> Result<bool, Malformed> {
        let (before, now) = (std::mem::replace(&mut self.notified, self.next_used), self.next_used);
        // The index of used heads must be visible before the guest's wish is read.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if !self.by_index {
            return Ok(before != now && memory.load(self.at.available)? & NO_INTERRUPT == 0);
        }
        let wanted = memory.load(self.at.available + HEADER + 2 * u64::from(self.entries))?;
        // Whether `wanted` is one of the indices from `before` to the one before `now`.
        Ok(now.wrapping_sub(wanted).wrapping_sub(1) < now.wrapping_sub(before))
    }

    /// Asks the guest to notify of further heads, or not to. With a wish for notices, look for heads once more: the
    /// guest may have added some before it read the wish.
    pub fn wish_for_kicks(&mut self, memory: &GuestMemory, wish: bool) -> Result<(), Malformed> {
        if !self.by_index {
            memory.store(self.at.used, if wish { 0 } else { NO_NOTIFY })?;
        } else if wish {
            let event = self.at.used + HEADER + USED_BYTES * u64::from(self.entries);
            memory.store(event, self.next_available)?;
        }
        // Otherwise the index stays behind, and no kick is sent before it is reached again.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}
