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
            Op::WriteZeroes => self.0.retain(|sector, _| !(at.start.0..at.end().0).contains(sector)),
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
        if self.0.is_empty() && from.is_hollow() {
            return;
        }
        for (index, sector) in (at.start.0..at.end().0).enumerate() {
            let part = from.cut(index * SECTOR_BYTES as usize, SECTOR_BYTES as usize);
            let mut bytes = [0; SECTOR_BYTES as usize];
            bytes.copy_from_slice(&part.to_vec());
            if part.is_hollow() {
                self.0.remove(&sector);
            } else {
                self.0.insert(sector, bytes);
            }
        }
    }
}
