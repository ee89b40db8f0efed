//! Merges the events of several files (one per CPU) into one order in time, with bounded memory.
//!
//! Order: time; at the same time names before requests, so that a name applies to all events of its instant, whichever
//! CPU recorded it; then the order of the files; then the place in the file. The same files give the same order.
//!
//! Fault: a file that goes back in time. Real traces have a few such records (a request recorded inside an interrupt
//! while another was being recorded; notes of running processes when tracing began): a record is put back in its place
//! if it is at most [`WINDOW_EVENTS`] events late. A later one is an error, with two exceptions: a name takes effect
//! late; and in formats that [clamp](Decoder::clamps) it counts at the time of the one before it, with a warning.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::PathBuf;

use seekless_core::Nanos;

use crate::error::TraceError;
use crate::format::{Decoder, Event, EventKind};

/// Real traces need four; this many are 100 KiB per file.
pub const WINDOW_EVENTS: usize = 1024;

/// Sort key of an event: its time, names first, then its file (or its place in one file).
type Key = (Nanos, bool, u64);

fn key(event: &Event, tie_break: u64) -> Key {
    (event.time, !matches!(event.kind, EventKind::Named(..)), tie_break)
}

/// An event in a heap, compared by its key alone.
struct Slot {
    key: Key,
    event: Event,
}

impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        self.key == other.key
    }
}

impl Eq for Slot {}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Slot) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Slot) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// One file's events, sorted within a window.
struct Source {
    decoder: Box<dyn Decoder>,
    file: PathBuf,
    /// Sorted. Most events arrive in order, so the place of one is searched from the back.
    window: VecDeque<Event>,
    /// The time of the last event returned: nothing earlier can be placed any more.
    released: Nanos,
    /// Events later than the window, which count later than they happened.
    clamped: u64,
    ended: bool,
    /// The error that ended it; returned after the events before it.
    failure: Option<TraceError>,
}

impl Source {
    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        while !self.ended && self.window.len() <= WINDOW_EVENTS {
            match self.decoder.next_event().and_then(|event| self.place(event)) {
                Ok(()) => {}
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(error);
                }
            }
        }
        match self.window.pop_front() {
            Some(event) => {
                self.released = event.time;
                Ok(Some(event))
            }
            None => self.failure.take().map_or(Ok(None), Err),
        }
    }

    fn place(&mut self, event: Option<Event>) -> Result<(), TraceError> {
        let Some(mut event) = event else {
            self.ended = true;
            return Ok(());
        };
        if event.time < self.released {
            if !matches!(event.kind, EventKind::Named(..)) {
                if !self.decoder.clamps() {
                    return Err(self.too_late(&event));
                }
                self.clamped += 1;
            }
            event.time = self.released;
        }
        let mut place = self.window.len();
        while place > 0 && key(&self.window[place - 1], 0) > key(&event, 0) {
            place -= 1;
        }
        self.window.insert(place, event);
        Ok(())
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = self.decoder.warnings();
        if self.clamped > 0 {
            let (file, clamped) = (self.file.display(), self.clamped);
            warnings.push(format!(
                "{file}: {clamped} records are more than {WINDOW_EVENTS} records late; they count at the time of the one before them"
            ));
        }
        warnings
    }

    fn too_late(&self, event: &Event) -> TraceError {
        let (found, released) = (event.time.0, self.released.0);
        TraceError::Malformed {
            file: self.file.clone(),
            offset: event.offset,
            found: format!("time {found} ns"),
            expected: format!(
                "{released} ns or later (a record may be {WINDOW_EVENTS} events late, no more)"
            ),
        }
    }
}

/// The events of all files, in one order.
pub struct Merge {
    sources: Vec<Source>,
    /// The next event of each file that has one, keyed by the file's number.
    heads: BinaryHeap<Reverse<Slot>>,
    started: bool,
    /// Whether the only file has ended, and its warnings are known.
    ended: bool,
    /// The error that ended it; returned after the event before it.
    failure: Option<TraceError>,
    warnings: Vec<String>,
    skipped: u64,
}

impl Merge {
    /// Merges these files; their order here breaks ties.
    pub fn new(files: Vec<(PathBuf, Box<dyn Decoder>)>) -> Merge {
        let source = |(file, decoder)| Source {
            decoder,
            file,
            window: VecDeque::new(),
            released: Nanos::ZERO,
            clamped: 0,
            ended: false,
            failure: None,
        };
        let sources = files.into_iter().map(source).collect();
        Merge {
            sources,
            heads: BinaryHeap::new(),
            started: false,
            ended: false,
            failure: None,
            warnings: Vec::new(),
            skipped: 0,
        }
    }

    /// The next event in time; after an error, nothing more.
    pub fn next(&mut self) -> Result<Option<Event>, TraceError> {
        if !self.started {
            self.started = true;
            // A single file needs no comparison.
            let compared = if self.sources.len() == 1 { 0 } else { self.sources.len() };
            for number in 0..compared {
                self.advance(number);
            }
        }
        if let Some(error) = self.failure.take() {
            self.heads.clear();
            return Err(error);
        }
        if let [_] = &self.sources[..] {
            return self.only();
        }
        let Some(Reverse(slot)) = self.heads.pop() else { return Ok(None) };
        self.advance(slot.key.2 as usize);
        Ok(Some(slot.event))
    }

    /// The next event of the only file.
    fn only(&mut self) -> Result<Option<Event>, TraceError> {
        let source = &mut self.sources[0];
        let next = source.next();
        if matches!(next, Ok(None)) && !std::mem::replace(&mut self.ended, true) {
            self.skipped += source.decoder.skipped();
            self.warnings.extend(source.warnings());
        }
        next
    }

    /// Warnings of the files that have ended, and their number of malformed records.
    pub fn warnings(&mut self) -> (Vec<String>, u64) {
        (std::mem::take(&mut self.warnings), self.skipped)
    }

    /// Records that were too late to be put in their place, so far.
    pub fn late(&self) -> u64 {
        self.sources.iter().map(|source| source.clamped).sum()
    }

    fn advance(&mut self, number: usize) {
        let source = &mut self.sources[number];
        match source.next() {
            Ok(Some(event)) => self.heads.push(Reverse(Slot { key: key(&event, number as u64), event })),
            Ok(None) => {
                self.skipped += source.decoder.skipped();
                self.warnings.extend(source.warnings());
            }
            Err(error) => self.failure = Some(error),
        }
    }
}
