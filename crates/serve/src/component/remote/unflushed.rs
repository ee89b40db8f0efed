//! Writes that are not flushed yet: whose they are, and, where they are sent again, what they wrote.
//!
//! Invariants of what is kept: pieces do not overlap, and a later write replaces what it covers of earlier ones, so
//! that pieces can be sent again in any order. A write with FUA is durable: what it covers is not kept.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::{Buffer, Extent, StreamId};

/// Memory of a kept piece beside its data, about.
const PIECE_BYTES: u64 = 128;
/// Sectors of a piece, at most: what is left of one is copied when part of it is written again.
const PIECE_SECTORS: u64 = 128;

/// Writes that are not flushed yet.
#[derive(Default)]
pub struct Unflushed {
    /// Clients, and the number of the last write of each.
    by: BTreeMap<StreamId, u64>,
    writes: u64,
    /// Clients whose writes may be lost and that have not been informed.
    lost: BTreeSet<StreamId>,
    /// Whether no client has got the error of a loss yet.
    unreported: bool,
    /// What was written, where it is sent again.
    pub kept: Kept,
}

impl Unflushed {
    /// The number of another change.
    pub fn number(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    /// The number of another write, whose client is informed if it is lost.
    pub fn wrote(&mut self, stream: StreamId) -> u64 {
        let number = self.number();
        self.by.insert(stream, number);
        number
    }

    /// The number of the last change.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// The server came back and may have lost unflushed writes.
    pub fn lose(&mut self) {
        self.unreported |= !self.by.is_empty();
        self.lost.extend(std::mem::take(&mut self.by).into_keys());
        self.kept = Kept::default();
    }

    /// All up to this write is durable.
    pub fn flushed(&mut self, writes: u64) {
        self.by.retain(|_, last| *last > writes);
        self.kept.flushed(writes);
    }

    /// Whether to report to this client that writes may be lost; once.
    pub fn takes_loss(&mut self, stream: StreamId) -> bool {
        let unreported = std::mem::take(&mut self.unreported);
        self.lost.remove(&stream) || unreported
    }
}

/// What a request left in its sectors.
#[derive(Clone, Debug)]
pub enum Written {
    /// Data.
    Data(Buffer),
    /// Zeroes, by a request with these flags.
    Zeroes(u16),
    /// Nothing that counts: they were discarded.
    Discarded,
}

impl Written {
    /// That of `sectors` sectors from the `first`: a copy, which keeps no other memory.
    fn part(&self, first: u64, sectors: u64) -> Written {
        match self {
            Written::Data(data) => Written::Data(Buffer::from_vec(data.cut_sectors(first, sectors).to_vec())),
            other => other.clone(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Written::Data(data) => PIECE_BYTES + data.len() as u64,
            Written::Zeroes(_) | Written::Discarded => PIECE_BYTES,
        }
    }
}

/// What unflushed requests wrote.
#[derive(Debug, Default)]
pub struct Kept {
    /// By the first sector.
    pieces: BTreeMap<u64, Piece>,
    bytes: u64,
    /// The last write that failed for another reason than a server that is gone: it may have taken effect or not.
    doubtful: Option<u64>,
}

#[derive(Debug)]
struct Piece {
    /// Number of the write.
    number: u64,
    sectors: u64,
    written: Written,
}

impl Kept {
    /// Memory that it takes, about, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps what the write with this number left; of data a copy, since the client may use its memory again.
    pub fn put(&mut self, at: Extent, number: u64, written: &Written) {
        self.remove(at);
        let most = if matches!(written, Written::Data(_)) { PIECE_SECTORS } else { at.sectors.max(1) };
        for part in at.split(most) {
            let written = written.part(part.start.0 - at.start.0, part.sectors);
            self.insert(part.start.0, Piece { number, sectors: part.sectors, written });
        }
    }

    /// Drops what is kept of these sectors.
    pub fn remove(&mut self, at: Extent) {
        let (start, end) = (at.start.0, at.end().0);
        // One piece may begin before.
        let before = self.pieces.range(..start).next_back();
        let first =
            before.filter(|(from, piece)| *from + piece.sectors > start).map_or(start, |(from, _)| *from);
        let covered: Vec<u64> = self.pieces.range(first..end).map(|(from, _)| *from).collect();
        for from in covered {
            let Some(piece) = self.pieces.remove(&from) else { continue };
            self.bytes -= piece.written.bytes();
            let to = from + piece.sectors;
            for (from_kept, to_kept) in [(from, start), (end, to)] {
                if from_kept < to_kept {
                    let sectors = to_kept - from_kept;
                    let written = piece.written.part(from_kept - from, sectors);
                    self.insert(from_kept, Piece { number: piece.number, sectors, written });
                }
            }
        }
    }

    fn insert(&mut self, from: u64, piece: Piece) {
        self.bytes += piece.written.bytes();
        self.pieces.insert(from, piece);
    }

    /// A write failed that the server may have carried out, after the write with this number.
    pub fn doubt(&mut self, number: u64) {
        self.doubtful = Some(number);
    }

    /// Whether a write failed that the server may have carried out: then what is kept may be older than what was read.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful.is_some()
    }

    /// All up to this write is durable.
    fn flushed(&mut self, number: u64) {
        self.pieces.retain(|_, piece| piece.number > number);
        self.bytes = self.pieces.values().map(|piece| piece.written.bytes()).sum();
        self.doubtful = self.doubtful.filter(|doubtful| *doubtful > number);
    }

    /// All that is kept, by address.
    pub fn pieces(&self) -> Vec<(Extent, Written)> {
        let pieces = self.pieces.iter();
        pieces.map(|(from, piece)| (Extent::new(*from, piece.sectors), piece.written.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_core::SECTOR_BYTES;

    use super::*;

    const SECTORS: u64 = 40;

    fn data(at: Extent, value: u8) -> Written {
        Written::Data(Buffer::from_vec(vec![value; at.bytes() as usize]))
    }

    proptest! {
        /// After any writes and flushes the last write of each sector is kept, unless it is durable.
        #[test]
        fn the_last_write_of_each_sector_is_kept(
            steps in prop::collection::vec((0..SECTORS, 1..12_u64, 0..6_u8), 1..60)
        ) {
            let mut kept = Kept::default();
            let mut model: Vec<Option<(u64, u8)>> = vec![None; SECTORS as usize];
            for (number, (start, sectors, kind)) in (1..).zip(steps) {
                let at = Extent::new(start, sectors.min(SECTORS - start));
                let range = start as usize..at.end().0 as usize;
                match kind {
                    0 => {
                        // Flushed but for the last three writes.
                        let durable = number - 3.min(number);
                        kept.flushed(durable);
                        for sector in &mut model {
                            *sector = sector.filter(|(of, _)| *of > durable);
                        }
                    }
                    1 => {
                        kept.remove(at);
                        model[range].fill(None);
                    }
                    2 => {
                        kept.put(at, number, &Written::Zeroes(2));
                        model[range].fill(Some((number, 255)));
                    }
                    _ => {
                        kept.put(at, number, &data(at, number as u8));
                        model[range].fill(Some((number, number as u8)));
                    }
                }
            }
            let mut found = vec![None; SECTORS as usize];
            let mut bytes = 0;
            for (at, written) in kept.pieces() {
                bytes += written.bytes();
                for sector in at.start.0..at.end().0 {
                    let value = match &written {
                        Written::Data(data) => data.look(|all| all[((sector - at.start.0) * SECTOR_BYTES) as usize]),
                        _ => 255,
                    };
                    prop_assert!(found[sector as usize].replace(value).is_none(), "sector {sector} twice");
                }
            }
            prop_assert_eq!(found, model.iter().map(|sector| sector.map(|(_, value)| value)).collect::<Vec<_>>());
            prop_assert_eq!(bytes, kept.bytes());
        }
    }
}
