//! Channels and dies, each busy until a time.

use seekless_core::{Extent, Nanos};

use super::link::Link;
use crate::disk::mechanics::nanos;
use crate::spec::CellSpec;

/// The cells of a flash drive and their channels.
#[derive(Clone, Debug)]
pub struct Cells {
    page_sectors: u64,
    read: u64,
    /// Time to program a page out of sequence, and in sequence: with what garbage collection moves and erases for it.
    program: [u64; 2],
    channels: Vec<Link>,
    /// By number: the channel is the number modulo the number of channels.
    dies: Vec<Nanos>,
    /// The die to be written next.
    next: usize,
    /// Total busy time of all dies since the last call of `serving`.
    serving: u64,
}

impl Cells {
    /// Idle cells.
    pub fn new(spec: &CellSpec) -> Cells {
        let [read, program, erase] = [spec.read_us, spec.program_us, spec.erase_us].map(nanos);
        let erase = erase / u64::from(spec.pages_per_block);
        // Each page beyond the first was moved: read and programmed on the same die.
        let moved = ((read + program + erase) as f64 * (spec.amplification - 1.0)).round() as u64;
        let channels = spec.channels as usize;
        Cells {
            page_sectors: u64::from(spec.page_sectors),
            read,
            program: [program + erase + moved, program + erase],
            channels: vec![Link::new(spec.channel_mb_s); channels],
            dies: vec![Nanos::ZERO; channels * spec.dies_per_channel as usize],
            next: 0,
            serving: 0,
        }
    }

    /// The pages of the address space that `at` touches, each with its number of sectors.
    pub fn pages(&self, at: Extent) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (each, start, end) = (self.page_sectors, at.start.0, at.end().0);
        let first = if start == end { 0 } else { start / each };
        let last = if start == end { 0 } else { end.div_ceil(each) };
        (first..last).map(move |page| (page, end.min((page + 1) * each) - start.max(page * each)))
    }

    fn carry(&mut self, die: usize, sectors: u64, now: Nanos, ready: Nanos) -> Nanos {
        let count = self.channels.len();
        self.channels[die % count].carry(sectors, now, ready)
    }

    /// Reads sectors of a page, from `ready` on; returns when they have passed the channel.
    pub fn read(&mut self, page: u64, sectors: u64, ready: Nanos) -> Nanos {
        let die = (page % self.dies.len() as u64) as usize;
        let there = self.dies[die].max(ready) + Nanos(self.read);
        let carried = self.carry(die, sectors, ready, there);
        // The register is in use until the page has left it.
        self.serving += carried.since(self.dies[die].max(ready)).0;
        self.dies[die] = carried;
        carried
    }

    /// Programs a page on the next die, from `ready` on; returns when it is done.
    pub fn program(&mut self, ready: Nanos, in_sequence: bool) -> Nanos {
        let die = self.next;
        self.next = (self.next + 1) % self.dies.len();
        let free = self.dies[die];
        let carried = self.carry(die, self.page_sectors, ready, free.max(ready));
        let took = self.program[usize::from(in_sequence)];
        self.serving += took;
        self.dies[die] = carried + Nanos(took);
        self.dies[die]
    }

    /// Mean busy time of the dies since the last call: half of them for a second are half a second.
    pub fn serving(&mut self) -> Nanos {
        Nanos(std::mem::take(&mut self.serving) / self.dies.len() as u64)
    }
}
