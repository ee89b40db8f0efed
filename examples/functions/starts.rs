//! Fetches what a program reads when it starts: the launch prefetcher of the IOLab paper (section 6.2) as a module, with
//! one trigger for each program.
//!
//! The reads between two quiet seconds are a start. It is remembered by its first three reads, the trigger; when these
//! follow each other again, the rest is fetched in the order of addresses. `parameter` is the least number of reads of a
//! start that is remembered (32 if it is 0). The layer `launch` does more: it merges starts, and finds triggers in their
//! midst.

#[path = "abi.rs"]
#[macro_use]
mod abi;

use abi::{Actions, Function, Request, BACKGROUND, PAGE_SECTORS};

/// Time without a read that ends a start, in nanoseconds.
const QUIET: u64 = 2_000_000_000;
/// Starts that are remembered; the oldest one makes room.
const STARTS: usize = 32;
/// Pages of a start, at most.
const PAGES: usize = 16_384;
/// Reads of a trigger.
const TRIGGER: usize = 3;

/// A start: the pages that its reads began with, and all of its pages in the order of addresses.
struct Start {
    trigger: [u64; TRIGGER],
    pages: Vec<u64>,
}

struct Starts {
    least: usize,
    known: Vec<Start>,
    /// The next to make room.
    next: usize,
    /// First pages of the last reads, and all pages of this start.
    firsts: Vec<u64>,
    pages: Vec<u64>,
    reads: usize,
    last_ns: u64,
}

impl Starts {
    /// Remembers the start that has ended, in place of an earlier one with its trigger.
    fn learn(&mut self) {
        let trigger = match self.firsts.get(..TRIGGER) {
            Some(&[one, two, three]) if self.reads >= self.least => [one, two, three],
            _ => return,
        };
        self.pages.sort_unstable();
        self.pages.dedup();
        let start = Start { trigger, pages: core::mem::take(&mut self.pages) };
        if let Some(known) = self.known.iter_mut().find(|known| known.trigger == trigger) {
            *known = start;
        } else if self.known.len() < STARTS {
            self.known.push(start);
        } else if let Some(oldest) = self.known.get_mut(self.next) {
            *oldest = start;
            self.next = (self.next + 1) % STARTS;
        }
    }

    /// Fetches what the start with this trigger reads, in runs of pages.
    fn fetch(&self, actions: &mut Actions) {
        let Some(known) = self.known.iter().find(|known| known.trigger[..] == self.firsts[..]) else {
            return;
        };
        let (mut first, mut count) = (0, 0);
        for &page in &known.pages {
            if count > 0 && page == first + count {
                count += 1;
                continue;
            }
            actions.fetch(first * PAGE_SECTORS, count * PAGE_SECTORS, BACKGROUND);
            (first, count) = (page, 1);
        }
        actions.fetch(first * PAGE_SECTORS, count * PAGE_SECTORS, BACKGROUND);
    }
}

impl Function for Starts {
    fn start(_sectors: u64, _pages: u64, parameter: u64) -> Starts {
        let least = if parameter > 0 { parameter as usize } else { 32 };
        let (known, firsts, pages) = (Vec::new(), Vec::new(), Vec::new());
        Starts { least, known, next: 0, firsts, pages, reads: 0, last_ns: 0 }
    }

    fn seen(&mut self, request: &Request, actions: &mut Actions) {
        if !request.is_read() {
            return;
        }
        if request.at_ns - self.last_ns >= QUIET {
            self.learn();
            self.firsts.clear();
            self.pages.clear();
            self.reads = 0;
        }
        self.last_ns = request.at_ns;
        self.reads += 1;
        // Whole pages only: the last one of a volume may be cut short.
        for page in request.start / PAGE_SECTORS..request.end() / PAGE_SECTORS {
            if self.pages.len() < PAGES {
                self.pages.push(page);
            }
        }
        if self.firsts.len() < TRIGGER {
            self.firsts.push(request.start / PAGE_SECTORS);
            if self.firsts.len() == TRIGGER {
                self.fetch(actions);
            }
        }
    }
}

export!(Starts);
