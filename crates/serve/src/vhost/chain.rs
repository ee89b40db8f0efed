//! A descriptor chain: the parts of guest memory that make up a request, in a ring's table or in one of its own.
//!
//! Invariants of a chain that was read: all its parts are in the guest's memory, those to read are before those to
//! write, and there are at most [`MOST_PARTS`]. Fault model: a table may hold anything, such as a loop.

use super::memory::GuestMemory;
use super::{MOST_ENTRIES, Malformed};

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Parts of a chain, at most: as many as the largest ring has entries.
const MOST_PARTS: usize = MOST_ENTRIES as usize;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A part of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its address.
    pub at: u64,
    /// Its length in bytes.
    pub bytes: u32,
}

/// See the file's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    segments: Vec<Segment>,
    /// How many of them the device reads; it writes the others.
    readable: usize,
}

/// A table of descriptors.
#[derive(Clone, Copy)]
struct Table {
    at: u64,
    entries: u16,
    is_indirect: bool,
}

impl Chain {
    /// The chain that begins with descriptor `head` of the table at `table`, which has `entries` descriptors.
    pub fn read(memory: &GuestMemory, table: u64, entries: u16, head: u16) -> Result<Chain, Malformed> {
        let mut chain = Chain { segments: Vec::with_capacity(4), readable: 0 };
        let mut table = Table { at: table, entries, is_indirect: false };
        let mut index = head;
        let place = |index: u16| format!("descriptor {index} of the chain of {head}");
        // One more for the descriptor of an indirect table.
        for _ in 0..=MOST_PARTS {
            if index >= table.entries {
                return Err(Malformed::new(
                    place(index),
                    index.to_string(),
                    format!("below {}", table.entries),
                ));
            }
            let mut bytes = [0; DESCRIPTOR_BYTES as usize];
            memory.read(table.at.saturating_add(u64::from(index) * DESCRIPTOR_BYTES), &mut bytes)?;
            let (at, length) = (u64::from_le_bytes(field(&bytes, 0)), u32::from_le_bytes(field(&bytes, 8)));
            let (flags, next) =
                (u16::from_le_bytes(field(&bytes, 12)), u16::from_le_bytes(field(&bytes, 14)));
            if flags & INDIRECT != 0 {
                table = table.indirect(&place(index), at, length, flags)?;
                index = 0;
                continue;
            }
            chain.add(memory, &place(index), Segment { at, bytes: length }, flags & WRITE != 0)?;
            if flags & NEXT == 0 {
                return Ok(chain);
            }
            index = next;
        }
        Err(Malformed::new(place(index), "no end of the chain", format!("at most {MOST_PARTS} descriptors")))
    }

    fn add(
        &mut self,
        memory: &GuestMemory,
        place: &str,
        segment: Segment,
        writes: bool,
    ) -> Result<(), Malformed> {
        memory.check(place, segment.at, segment.bytes as usize)?;
        if !writes && self.readable < self.segments.len() {
            return Err(Malformed::new(place, "a part to read after one to write", "those to read first"));
        } else if self.segments.len() >= MOST_PARTS {
            return Err(Malformed::new(
                place,
                "no end of the chain",
                format!("at most {MOST_PARTS} descriptors"),
            ));
        }
        self.segments.push(segment);
        self.readable += usize::from(!writes);
        Ok(())
    }

    /// The parts that the device reads.
    pub fn readable(&self) -> &[Segment] {
        &self.segments[..self.readable]
    }

    /// The parts that the device writes.
    pub fn writable(&self) -> &[Segment] {
        &self.segments[self.readable..]
    }
}

impl Table {
    /// The table that a descriptor of this one refers to.
    fn indirect(self, place: &str, at: u64, bytes: u32, flags: u16) -> Result<Table, Malformed> {
        let entries = u64::from(bytes) / DESCRIPTOR_BYTES;
        let whole = u64::from(bytes) % DESCRIPTOR_BYTES == 0 && (1..=MOST_PARTS as u64).contains(&entries);
        if self.is_indirect {
            return Err(Malformed::new(place, "a table in a table", "a part of memory"));
        } else if flags & NEXT != 0 {
            return Err(Malformed::new(place, "a table and a next descriptor", "one of them"));
        } else if !whole {
            let expected = format!("1 to {MOST_PARTS} descriptors of {DESCRIPTOR_BYTES} bytes");
            return Err(Malformed::new(place, format!("a table of {bytes} bytes"), expected));
        }
        Ok(Table { at, entries: entries as u16, is_indirect: true })
    }
}

/// Bytes of a field.
pub fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

/// Bytes of all these parts.
pub fn bytes(parts: &[Segment]) -> u64 {
    parts.iter().map(|part| u64::from(part.bytes)).sum()
}

/// Calls `each` for the pieces that make up `length` bytes from byte `skip` of these parts on: their addresses, and
/// where they are in those bytes.
fn pieces(
    parts: &[Segment],
    skip: u64,
    length: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let (mut skip, mut done) = (skip, 0);
    for part in parts {
        let of_part = u64::from(part.bytes);
        if skip >= of_part {
            skip -= of_part;
            continue;
        }
        let here = (of_part - skip).min((length - done) as u64) as usize;
        each(part.at + skip, done..done + here)?;
        (skip, done) = (0, done + here);
        if done == length {
            break;
        }
    }
    if done == length {
        Ok(())
    } else {
        Err(Malformed::new("chain", format!("{done} bytes"), format!("{length}")))
    }
}

/// Copies from these parts of memory, from byte `skip` on.
pub fn gather(memory: &GuestMemory, parts: &[Segment], skip: u64, into: &mut [u8]) -> Result<(), Malformed> {
    pieces(parts, skip, into.len(), |at, range| memory.read(at, &mut into[range]))
}

/// Copies to these parts of memory, from byte `skip` on.
pub fn scatter(memory: &GuestMemory, parts: &[Segment], skip: u64, from: &[u8]) -> Result<(), Malformed> {
    pieces(parts, skip, from.len(), |at, range| memory.write(at, &from[range]))
}
