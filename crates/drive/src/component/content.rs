//! Content of a simulated drive: the real bytes written to it.

use std::collections::BTreeMap;

use seekless_core::{Buffer, Extent, Op, SECTOR_BYTES};

/// Sectors that hold real bytes; all others read as zeroes.
#[derive(Debug, Default)]
pub struct Content(BTreeMap<u64, [u8; SECTOR_BYTES as usize]>);

impl Content {
    /// Applies a request to the bytes.
    pub fn apply(&mut self, op: Op, at: Extent, buffer: &Buffer) {
        match op {
            Op::Read => self.load(at, buffer),
            Op::Write => self.store(at, buffer),
            Op::WriteZeroes => self.forget(at),
            Op::Flush | Op::Discard => {}
        }
    }

    /// Reads `at`; a hollow buffer if none of it holds bytes.
    pub fn read(&self, at: Extent) -> Buffer {
        let mut held = self.0.range(at.start.0..at.end().0);
        if held.next().is_none() {
            return Buffer::hollow_sectors(at.sectors);
        }
        let into = Buffer::zeroed(at.bytes());
        self.load(at, &into);
        into
    }

    fn load(&self, at: Extent, into: &Buffer) {
        if into.is_hollow() {
            return;
        }
        for sector in at.start.0..at.end().0 {
            let bytes = self.0.get(&sector).unwrap_or(&[0; SECTOR_BYTES as usize]);
            into.put(((sector - at.start.0) * SECTOR_BYTES) as usize, bytes);
        }
    }

    fn store(&mut self, at: Extent, from: &Buffer) {
        if from.is_hollow() {
            return self.forget(at);
        }
        for (part, piece) in from.split(at, 1) {
            if piece.is_hollow() {
                self.0.remove(&part.start.0);
            } else {
                let held = self.0.entry(part.start.0).or_insert([0; SECTOR_BYTES as usize]);
                piece.look(|bytes| held.copy_from_slice(bytes));
            }
        }
    }

    /// These sectors read as zeroes from now on.
    fn forget(&mut self, at: Extent) {
        while let Some((&sector, _)) = self.0.range(at.start.0..at.end().0).next() {
            self.0.remove(&sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_of_each_sector_is_read() {
        let mut content = Content::default();
        let real = |sectors: u64, byte| Buffer::from_vec(vec![byte; (sectors * SECTOR_BYTES) as usize]);
        let mixed = Buffer::join([Buffer::hollow_sectors(1), real(1, 3)]);
        content.apply(Op::Write, Extent::new(10, 6), &real(6, 1));
        content.apply(Op::Write, Extent::new(11, 1), &Buffer::hollow_sectors(1));
        content.apply(Op::Write, Extent::new(12, 2), &mixed);
        content.apply(Op::WriteZeroes, Extent::new(15, 2), &Buffer::hollow_sectors(2));
        let read = content.read(Extent::new(9, 8)).to_vec();
        let sectors: Vec<u8> = read.chunks(SECTOR_BYTES as usize).map(|sector| sector[0]).collect();
        assert_eq!(sectors, [0, 1, 0, 0, 3, 1, 0, 0]);
        assert!(content.read(Extent::new(15, 5)).is_hollow() && content.0.len() == 3);
    }
}
