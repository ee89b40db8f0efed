//! The write buffer of a flash drive: data received and not yet programmed.

use std::collections::BTreeMap;

use seekless_core::Nanos;

/// The open page, and pages being programmed.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    open: Written,
    in_sequence: bool,
    /// By completion time; the number distinguishes pages of one time.
    under_way: BTreeMap<(Nanos, u64), Written>,
    closed: u64,
    sectors: u64,
    /// By page of the address space: the number of the drive's page that holds it last.
    holders: BTreeMap<u64, u64>,
}

/// The content of one of the drive's pages.
#[derive(Clone, Debug, Default)]
struct Written {
    sectors: u64,
    /// Pages of the address space.
    pages: Vec<u64>,
}

impl Buffer {
    /// Sectors in the buffer.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Sectors of the open page.
    pub fn open(&self) -> u64 {
        self.open.sectors
    }

    /// Whether the open page was written in sequence.
    pub fn in_sequence(&self) -> bool {
        self.in_sequence
    }

    /// Whether the buffer holds some of this page of the address space.
    pub fn holds(&self, page: u64) -> bool {
        self.holders.contains_key(&page)
    }

    /// Adds sectors of a page of the address space to the open page.
    pub fn take(&mut self, page: u64, sectors: u64, in_sequence: bool) {
        self.in_sequence = in_sequence && (self.open.sectors == 0 || self.in_sequence);
        self.open.sectors += sectors;
        self.open.pages.push(page);
        self.sectors += sectors;
        self.holders.insert(page, self.closed);
    }

    /// Closes the open page, which is programmed by `done`.
    pub fn close(&mut self, done: Nanos) {
        self.under_way.insert((done, self.closed), std::mem::take(&mut self.open));
        self.closed += 1;
    }

    /// When the next page will be programmed.
    pub fn first_done(&self) -> Option<Nanos> {
        self.under_way.first_key_value().map(|(&(done, _), _)| done)
    }

    /// When all pages in progress will be programmed.
    pub fn last_done(&self) -> Option<Nanos> {
        self.under_way.last_key_value().map(|(&(done, _), _)| done)
    }

    /// Forgets pages programmed by `now`.
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
