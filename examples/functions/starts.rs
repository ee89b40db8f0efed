//! Fetches what a program reads when it starts: the launch prefetcher of the IOLab paper (section 6.2) as a module.
//!
//! The reads between two quiet times are a start. Three reads of a process, one after the other, are a trigger; a start
//! is remembered by its triggers, except those that it shares with another one. When two of them are seen again, all of
//! the start is fetched in the order of addresses, and what is read this time is remembered in its place. `parameter`
//! is the least number of reads of a start that is remembered (32 if it is 0). The layer `launch` does more: it merges
//! starts, and fetches what several programs have in common.

#[path = "abi.rs"]
#[macro_use]
mod abi;

use abi::{Actions, Function, Request, BACKGROUND, PAGE_SECTORS};

/// Time without a read that ends a start, in nanoseconds.
const QUIET: u64 = 2_000_000_000;
/// Starts that are remembered; the oldest one makes room.
const STARTS: usize = 64;
/// Pages and triggers of a start, at most.
const MOST: usize = 16_384;
/// Pages between two that are fetched, up to this number, are fetched with them.
const GAP: u64 = 4;
/// Triggers that name the same start, from which on it is fetched.
const VOTES: u32 = 2;
/// Places for triggers, and for processes: of two that hash alike the later one stays.
const TRIGGERS: usize = 1 << 16;
const PROCESSES: usize = 64;
/// Instead of a start: several have this trigger.
const SHARED: u32 = u32::MAX;

/// A start: its number, and its pages in the order of addresses, of a volume of up to 16 TiB.
#[derive(Default)]
struct Start {
    number: u32,
    pages: Vec<u32>,
    /// Its triggers seen since the last quiet time.
    votes: u32,
}

#[derive(Clone, Copy, Default)]
struct Trigger {
    hash: u64,
    /// The start that has it; 0 if none.
    start: u32,
}

/// The last reads of a process, by their first pages.
#[derive(Clone, Copy, Default)]
struct Process {
    process: u32,
    reads: u32,
    last: [u64; 3],
}

struct Starts {
    least: usize,
    known: Vec<Start>,
    triggers: Vec<Trigger>,
    processes: [Process; PROCESSES],
    /// Number of the last start that was learned.
    learned: u32,
    /// Of the start that is going on: its triggers, its pages, its reads, and the known start that it is.
    seen: Vec<u64>,
    pages: Vec<u32>,
    reads: usize,
    is: Option<u32>,
    last_ns: u64,
}

impl Starts {
    /// Remembers the start that has ended.
    fn learn(&mut self) {
        if self.reads < self.least {
            return;
        }
        sort(&mut self.pages);
        self.pages.dedup();
        let number = self.is.unwrap_or(self.learned + 1);
        self.learned = self.learned.max(number);
        let pages = core::mem::take(&mut self.pages);
        let start = Start { number, pages, votes: 0 };
        // Numbers of earlier starts are smaller.
        let same = self.known.iter().position(|known| known.number == number);
        let oldest = (0..self.known.len()).min_by_key(|&at| self.known[at].number);
        match same.or(oldest.filter(|_| self.known.len() == STARTS)) {
            Some(at) => self.known[at] = start,
            None => self.known.push(start),
        }
        for &hash in &self.seen {
            let place = &mut self.triggers[hash as usize % TRIGGERS];
            let other = place.hash == hash && place.start != 0 && place.start != number;
            *place = Trigger { hash, start: if other { SHARED } else { number } };
        }
    }

    fn end(&mut self) {
        self.learn();
        self.known.iter_mut().for_each(|known| known.votes = 0);
        self.processes = [Process::default(); PROCESSES];
        self.seen.clear();
        self.pages.clear();
        (self.reads, self.is) = (0, None);
    }

    /// The trigger that a read completes.
    fn trigger(&mut self, request: &Request) -> Option<u64> {
        let process = &mut self.processes[request.process as usize % PROCESSES];
        if process.process != request.process {
            *process = Process { process: request.process, ..Process::default() };
        }
        process.last = [process.last[1], process.last[2], request.start / PAGE_SECTORS];
        process.reads += 1;
        let mix = |hash: u64, page: &u64| (hash ^ page).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (process.reads >= 3).then(|| process.last.iter().fold(0, mix))
    }

    /// Fetches what a start reads, in runs of pages.
    fn fetch(start: &Start, actions: &mut Actions) {
        let (mut first, mut end) = (0, 0);
        for &page in &start.pages {
            let page = u64::from(page);
            if page > end + GAP || end == 0 {
                actions.fetch(first * PAGE_SECTORS, (end - first) * PAGE_SECTORS, BACKGROUND);
                first = page;
            }
            end = page + 1;
        }
        actions.fetch(first * PAGE_SECTORS, (end - first) * PAGE_SECTORS, BACKGROUND);
    }
}

/// Sorts by Shell's method: the standard library's takes less time, and four times as many bytes.
fn sort(pages: &mut [u32]) {
    for gap in [9_841, 3_280, 1_093, 364, 121, 40, 13, 4, 1] {
        for next in gap..pages.len() {
            let (page, mut at) = (pages[next], next);
            while at >= gap && pages[at - gap] > page {
                pages[at] = pages[at - gap];
                at -= gap;
            }
            pages[at] = page;
        }
    }
}

impl Function for Starts {
    fn start(_sectors: u64, _pages: u64, parameter: u64) -> Starts {
        Starts {
            least: if parameter > 0 { parameter as usize } else { 32 },
            known: Vec::new(),
            triggers: vec![Trigger::default(); TRIGGERS],
            processes: [Process::default(); PROCESSES],
            learned: 0,
            seen: Vec::new(),
            pages: Vec::new(),
            reads: 0,
            is: None,
            last_ns: 0,
        }
    }

    fn seen(&mut self, request: &Request, actions: &mut Actions) {
        if !request.is_read() {
            return;
        }
        if request.at_ns - self.last_ns >= QUIET {
            self.end();
        }
        self.last_ns = request.at_ns;
        self.reads += 1;
        // Whole pages only: the last one of a volume may be cut short.
        for page in request.start / PAGE_SECTORS..request.end() / PAGE_SECTORS {
            if self.pages.len() < MOST {
                self.pages.push(page as u32);
            }
        }
        let Some(hash) = self.trigger(request) else { return };
        if self.seen.len() < MOST {
            self.seen.push(hash);
        }
        let found = self.triggers[hash as usize % TRIGGERS];
        if found.hash != hash || found.start == 0 || self.is.is_some() {
            return;
        }
        let Some(known) = self.known.iter_mut().find(|known| known.number == found.start) else { return };
        known.votes += 1;
        if known.votes == VOTES {
            self.is = Some(known.number);
            Starts::fetch(known, actions);
        }
    }
}

export!(Starts);
