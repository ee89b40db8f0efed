//! The segment summary: the first block of each record, i.e. of what is written to a segment with one request.
//!
//! It lists the blocks that follow, with checksums, the blocks that were moved or deleted before, and where the log
//! continues. A segment filled without a flush has one summary, in its first block; each flush of a partial segment
//! starts another record.
//!
//! On disk: magic, CRC-32C over the block with this field zero, format version, identity of the volume, epoch,
//! sequence, the sequence that was durable before, its own place, the next segment, and the numbers of entries,
//! deletions and moves; then the entries, eight bytes each (block, checksum), the deletions, eight bytes each (first
//! block, count), and the moves, twelve bytes each (block, slot, checksum). The first version had no moves, and zero
//! for their number. Since the third one the last sector is the parity of the whole record (see
//! [`crate::durable::parity`]), and the checksum covers what precedes it.
//!
//! Invariant: a summary is used only if it is whole, is the expected one, and all its numbers are valid.

use seekless_core::{PAGE_BYTES, mutant};

use super::layout::{Block, Layout, NONE, Slot};
use crate::bytes::{put, sum_but, u32_at, u64_at, u128_at};
use crate::durable::parity;

const PAGE: usize = PAGE_BYTES as usize;
pub const MAGIC: [u8; 8] = *b"SKLLLDSU";
/// Version with a checkpoint of the first format; with the present one it is the next.
const VERSION: u32 = 2;
const SUM: usize = 8;
const HEAD: usize = 80;
const ENTRY: usize = 8;
const MOVE: usize = 12;
/// Bytes for deletions and moves, beside the entries of the largest segment.
const BESIDE: usize = PAGE - HEAD - ENTRY * super::layout::LARGEST_SEGMENT as usize;

/// Whether this many deletions and moves fit, in a volume of this layout.
pub fn fit(layout: &Layout, deletions: usize, moves: usize) -> bool {
    let room = if layout.sealed { BESIDE - (PAGE - parity::AT) } else { BESIDE };
    deletions.saturating_mul(ENTRY).saturating_add(moves.saturating_mul(MOVE)) <= room
}

/// Identity of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Identity of the volume.
    pub identity: u128,
    /// Epoch: number of sessions that wrote to the volume.
    pub epoch: u64,
    /// Sequence; never reused in an epoch.
    pub sequence: u64,
    /// Segment.
    pub segment: u32,
    /// Block in the segment.
    pub offset: u32,
}

/// A block that was written elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its number.
    pub block: Block,
    /// Its new slot.
    pub slot: Slot,
    /// Checksum of its data.
    pub sum: u32,
}

/// A summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its identity.
    pub key: Key,
    /// The sequence up to which everything was durable before it was written.
    pub durable_before: u64,
    /// The segment in which the log continues when this one is full; `NONE` if a checkpoint will say.
    pub next: u32,
    /// Blocks that a cleaner wrote to other segments before: slots and checksums.
    pub moved: Vec<Moved>,
    /// Blocks deleted before those that follow were written: first, and count.
    pub deleted: Vec<(Block, u32)>,
    /// The blocks that follow, `NONE` for a dead one, and their checksums.
    pub entries: Vec<(Block, u32)>,
}

impl Summary {
    /// Blocks of its write, itself included.
    pub fn blocks(&self) -> u32 {
        1 + self.entries.len() as u32
    }

    /// Encodes a block. The parity is added by the caller.
    pub fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 12, &(VERSION + u32::from(layout.sealed)).to_le_bytes());
        put(&mut bytes, 16, &self.key.identity.to_le_bytes());
        for (number, at) in
            [self.key.epoch, self.key.sequence, self.durable_before].iter().zip((32..).step_by(8))
        {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        let [entries, deleted, moved] = [self.entries.len(), self.deleted.len(), self.moved.len()];
        let words =
            [self.key.segment, self.key.offset, self.next, entries as u32, deleted as u32, moved as u32];
        for (word, at) in words.iter().zip((56..).step_by(4)) {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        for ((one, other), at) in self.entries.iter().chain(&self.deleted).zip((HEAD..).step_by(ENTRY)) {
            put(&mut bytes, at, &one.to_le_bytes());
            put(&mut bytes, at + 4, &other.to_le_bytes());
        }
        for (moved, at) in self.moved.iter().zip((HEAD + ENTRY * (entries + deleted)..).step_by(MOVE)) {
            for (word, at) in [moved.block, moved.slot, moved.sum].iter().zip((at..).step_by(4)) {
                put(&mut bytes, at, &word.to_le_bytes());
            }
        }
        let sum = sum_but(summed(&bytes), SUM);
        put(&mut bytes, SUM, &sum.to_le_bytes());
        bytes
    }

    /// The valid summaries of this volume in these blocks of a segment, the first of which is at `place`.
    pub fn all_in<'a>(
        bytes: &'a [u8],
        identity: u128,
        place: (u32, u32),
        layout: &'a Layout,
    ) -> impl Iterator<Item = Summary> + use<'a> {
        let (segment, first) = place;
        (first..).zip(bytes.chunks_exact(PAGE)).filter_map(move |(offset, bytes)| {
            let (epoch, sequence) = (u64_at(bytes, 32), u64_at(bytes, 40));
            Summary::decode(bytes, &Key { identity, epoch, sequence, segment, offset }, layout)
        })
    }

    /// Decodes a block, if it is this summary.
    pub fn decode(bytes: &[u8], key: &Key, layout: &Layout) -> Option<Summary> {
        let word = |index: usize| u32_at(bytes, 56 + 4 * index);
        let found = Key {
            identity: u128_at(bytes, 16),
            epoch: u64_at(bytes, 32),
            sequence: u64_at(bytes, 40),
            segment: word(0),
            offset: word(1),
        };
        let known = if layout.sealed { VERSION + 1..=VERSION + 1 } else { 1..=VERSION };
        let known = known.contains(&u32_at(bytes, 12));
        let ours = bytes.len() == PAGE && bytes[..8] == MAGIC && known && found == *key;
        if !ours || u32_at(bytes, SUM) != sum_but(summed(bytes), SUM) {
            return None;
        }
        let (next, [entries, deleted, moved]) = (word(2), [3, 4, 5].map(|index| word(index) as usize));
        let fits = fit(layout, deleted, moved) && (layout.segment - key.offset) as usize > entries;
        if !fits || (next != NONE && next >= layout.segments) {
            return None;
        }
        let pair =
            |index: usize| (u32_at(bytes, HEAD + ENTRY * index), u32_at(bytes, HEAD + ENTRY * index + 4));
        let summary = Summary {
            key: found,
            durable_before: u64_at(bytes, 48),
            next,
            entries: (0..entries).map(pair).collect(),
            deleted: (entries..entries + deleted).map(pair).collect(),
            moved: (0..moved)
                .map(|index| HEAD + ENTRY * (entries + deleted) + MOVE * index)
                .map(|at| Moved {
                    block: u32_at(bytes, at),
                    slot: u32_at(bytes, at + 4),
                    sum: u32_at(bytes, at + 8),
                })
                .collect(),
        };
        let there = |block: Block| block == NONE || block < layout.blocks;
        let within = |&(first, blocks): &(Block, u32)| {
            first.checked_add(blocks).is_some_and(|end| end <= layout.blocks)
        };
        let sensible = summary.entries.iter().all(|(block, _)| there(*block))
            && summary.deleted.iter().all(within)
            && summary.moved.iter().all(|moved| moved.block < layout.blocks && moved.slot < layout.slots())
            && summary.durable_before < key.sequence;
        sensible.then_some(summary)
    }
}

/// The bytes covered by the checksum: all except the parity, or fewer for a mutant.
fn summed(bytes: &[u8]) -> &[u8] {
    if mutant::is("lld: a checksum without its last entry") {
        let entries = [3, 4].map(|index| u32_at(bytes, 56 + 4 * index) as usize).iter().sum::<usize>();
        let end = HEAD + ENTRY * entries.saturating_sub(1);
        return &bytes[..end.min(bytes.len())];
    }
    let end = if u32_at(bytes, 12) > VERSION { parity::AT } else { PAGE };
    bytes.get(..end).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_core::PAGE_SECTORS;

    use super::*;

    fn layout() -> Layout {
        Layout::new(10_000 * PAGE_SECTORS, 128, 2, Some(9_000)).unwrap()
    }

    fn key(sequence: u64, segment: u32, offset: u32) -> Key {
        Key { identity: 77, epoch: 3, sequence, segment, offset }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A written summary is read again; one that is damaged, or not the one that is due, is not followed.
        #[test]
        fn a_summary_is_read_as_written_or_not_at_all(
            sequence in 1..1_u64 << 60,
            (offset, entries) in (0..126_u32).prop_flat_map(|offset| (Just(offset), 0..=127 - offset)),
            deleted in proptest::collection::vec((0..8_000_u32, 0..1_000_u32), 0..100_usize),
            moved in proptest::collection::vec((0..9_000_u32, 0..9_000_u32, any::<u32>()), 0..139_usize),
            damage in proptest::option::of((0..PAGE, 1..=255_u8)),
        ) {
            let key = key(sequence, 5, offset);
            let entries = (0..entries).map(|entry| (if entry % 9 == 4 { NONE } else { entry * 7 }, entry)).collect();
            let moved = moved.into_iter().map(|(block, slot, sum)| Moved { block, slot, sum }).collect();
            let summary = Summary { key, durable_before: sequence / 2, next: 9, moved, deleted, entries };
            let mut bytes = summary.encode(&layout());
            if let Some((at, change)) = damage {
                bytes[at] ^= change;
            }
            let read = Summary::decode(&bytes, &key, &layout());
            let harmless = damage.is_none_or(|(at, _)| at >= parity::AT);
            prop_assert_eq!(read, harmless.then_some(summary));
            for other in [Key { sequence: sequence + 1, ..key }, Key { epoch: 4, ..key }, Key { segment: 6, ..key }] {
                prop_assert_eq!(Summary::decode(&bytes, &other, &layout()), None);
            }
        }

        /// Made-up bytes are no summary, whatever they hold.
        #[test]
        fn made_up_bytes_are_not_followed(noise in proptest::collection::vec(any::<u8>(), PAGE), words in any::<[u32; 6]>()) {
            let (key, mut bytes) = (key(9, words[0] % 70, words[1] % 128), noise);
            let none = Summary { key, durable_before: 0, next: NONE, moved: vec![], deleted: vec![], entries: vec![] };
            put(&mut bytes, 0, &none.encode(&layout())[..64]);
            for (word, at) in words[2..].iter().zip((64..).step_by(4)) {
                put(&mut bytes, at, &(word % 200).to_le_bytes());
            }
            let sum = sum_but(&bytes[..parity::AT], SUM);
            put(&mut bytes, SUM, &sum.to_le_bytes());
            if let Some(summary) = Summary::decode(&bytes, &key, &layout()) {
                prop_assert!(summary.entries.iter().all(|(block, _)| *block < 9_000 || *block == NONE));
                prop_assert!(key.offset as usize + summary.entries.len() < 128);
                prop_assert!(summary.moved.iter().all(|moved| moved.block < 9_000 && moved.slot < layout().slots()));
            }
        }
    }
}
