//! The write buffer of a flash drive: what came into it and is not in its cells.

use std::collections::BTreeMap;

use seekless_core::Nanos;

/// What waits for its page to be full, and what is on its way to its cells.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    open: Written,
    in_sequence: bool,
    /// By when it is in its cells; the number tells those of one time apart.
    under_way: BTreeMap<(Nanos, u64), Written>,
    closed: u64,
    sectors: u64,
    /// Which page of the drive's own holds a page of the address space last: its number.
    holders: BTreeMap<u64, u64>,
}

/// What came for a page of the drive's own.
#[derive(Clone, Debug, Default)]
struct Written {
    sectors: u64,
    /// Pages of the address space.
    pages: Vec<u64>,
}

impl Buffer {
    /// What it holds.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// What waits for a full page.
    pub fn open(&self) -> u64 {
        self.open.sectors
    }

    /// Whether that came in sequence.
    pub fn in_sequence(&self) -> bool {
        self.in_sequence
    }

    /// Whether it has some of this page of the address space.
    pub fn holds(&self, page: u64) -> bool {
        self.holders.contains_key(&page)
    }

    /// Sectors of a page of the address space come.
    pub fn take(&mut self, page: u64, sectors: u64, in_sequence: bool) {
        self.in_sequence = in_sequence && (self.open.sectors == 0 || self.in_sequence);
        self.open.sectors += sectors;
        self.open.pages.push(page);
        self.sectors += sectors;
        self.holders.insert(page, self.closed);
    }

    /// What waited goes to its cells, and is there at `done`.
    pub fn close(&mut self, done: Nanos) {
        self.under_way.insert((done, self.closed), std::mem::take(&mut self.open));
        self.closed += 1;
    }

    /// When something is in its cells next.
    pub fn first_done(&self) -> Option<Nanos> {
        self.under_way.first_key_value().map(|(&(done, _), _)| done)
    }

    /// When all that is under way is in its cells.
    pub fn last_done(&self) -> Option<Nanos> {
        self.under_way.last_key_value().map(|(&(done, _), _)| done)
    }

    /// Forgets what is in its cells by `now`.
    pub fn drain(&mut self, now: Nanos) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, number), written) = entry.remove_entry();
            self.sectors -= written.sectors;
            for page in written.pages {
                if self.holders.get(&page) == Some(&number) {
                    self.holders.remove(&page);
                }
            }
        }
    }
}
