//! How often parts of an address space were accessed, in bounded memory.
//!
//! Invariant: there are at most [`PARTS`] parts, equal and a power of two in size. An address beyond them doubles the
//! size of all: neighbours are added.

use std::cell::RefCell;

/// Parts, at most.
pub const PARTS: usize = 256;

/// Counts of accesses by address.
#[derive(Debug)]
pub struct Accesses(RefCell<Counts>);

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of a part: a power of two.
    pub part_bytes: u64,
    /// Reads that touched each part.
    pub reads: Vec<u64>,
    /// Writes that touched each part.
    pub writes: Vec<u64>,
}

impl Accesses {
    /// For a space of `bytes` bytes, which may grow.
    pub fn new(bytes: u64) -> Accesses {
        let part_bytes = bytes.div_ceil(PARTS as u64).max(4096).next_power_of_two();
        Accesses(RefCell::new(Counts { part_bytes, reads: Vec::new(), writes: Vec::new() }))
    }

    /// A read, or else a write, of `bytes` bytes from byte `start`; of a read or write without bytes nothing is
    /// counted.
    pub fn count(&self, is_read: bool, start: u64, bytes: u64) {
        let Some(last) = bytes.checked_sub(1).and_then(|more| start.checked_add(more)) else { return };
        let mut counts = self.0.borrow_mut();
        while last / counts.part_bytes >= PARTS as u64 {
            counts.double();
        }
        let (first, last) = (start / counts.part_bytes, last / counts.part_bytes);
        let parts = if is_read { &mut counts.reads } else { &mut counts.writes };
        if parts.len() <= last as usize {
            parts.resize(last as usize + 1, 0);
        }
        parts[first as usize..=last as usize].iter_mut().for_each(|part| *part += 1);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.0.borrow().clone()
    }
}

impl Counts {
    /// Doubles the size of the parts.
    pub fn double(&mut self) {
        self.part_bytes *= 2;
        for parts in [&mut self.reads, &mut self.writes] {
            *parts = parts.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_touched_part_counts_once_and_parts_grow_with_the_space() {
        let accesses = Accesses::new(1 << 20);
        accesses.count(true, 4095, 2);
        accesses.count(false, 8192, 4096);
        accesses.count(true, 0, 0);
        accesses.count(true, u64::MAX, 2);
        let counts = accesses.counts();
        assert_eq!(
            (counts.part_bytes, &counts.reads[..], &counts.writes[..]),
            (4096, &[1, 1][..], &[0, 0, 1][..])
        );
        accesses.count(true, (2 << 20) - 1, 1);
        let counts = accesses.counts();
        assert_eq!(
            (counts.part_bytes, counts.reads.len(), counts.reads[0], counts.reads[255]),
            (8192, 256, 2, 1)
        );
        assert_eq!(counts.writes, [0, 1]);
        accesses.count(false, u64::MAX - 1, 1);
        let counts = accesses.counts();
        assert!(counts.writes.len() <= PARTS && counts.part_bytes.is_power_of_two());
        assert_eq!(counts.writes.iter().sum::<u64>(), 2);
    }
}
