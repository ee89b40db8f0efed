//! What the layer did and gained: its latest reconfigurations with what was predicted, progress of the present one, and
//! hits and gain over the last hour, day and week.
//!
//! All of it is in memory, of bounded size, and begins anew when the layer is opened.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use seekless_core::history::{Checked, Gain, Past, Predicted, Progress, Span};
use seekless_core::{IoError, Nanos, Reconfigured, runtime};

/// Reconfigurations that are kept.
const MOST: usize = 50;
/// Length of a part of the time for which hits and gain are kept.
const PART: Nanos = Nanos::from_millis(600_000);
/// The spans that are reported, in parts: an hour, a day, a week.
const SPANS: [u64; 3] = [6, 144, 1008];

/// Pages that clients read and wrote so far, and those that copies served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub all: u64,
    pub hits: u64,
}

/// Hits and gain in a part of the time.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Its number.
    number: u64,
    /// Pages in it.
    pages: Pages,
    gain: Gain,
}

/// See the file's header.
pub(super) struct History {
    opened: Nanos,
    past: RefCell<VecDeque<Past>>,
    number: Cell<u64>,
    progress: Cell<Option<Progress>>,
    /// Pages of the present round of a mover, and those of them that are done as far as can be told.
    round: Cell<(u64, u64)>,
    /// Parts before the present one, without those of more than a week ago.
    parts: RefCell<VecDeque<Part>>,
    /// The present part, and pages before it.
    now: Cell<(Part, Pages)>,
}

/// What was decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub what: String,
    pub predicted: Option<Predicted>,
    pub model: Option<Checked>,
}

impl History {
    /// Begins now.
    pub fn new() -> History {
        let (past, number, progress, round, parts) = Default::default();
        let opened = runtime::now();
        let part = Part { number: opened.0 / PART.0, ..Part::default() };
        History { opened, past, number, progress, round, parts, now: Cell::new((part, Pages::default())) }
    }

    /// Moves on to the part of the time that it is; `pages` gives the pages so far.
    pub fn roll(&self, now: Nanos, pages: impl FnOnce() -> Pages) {
        let (mut part, before) = self.now.get();
        let number = now.0 / PART.0;
        if number == part.number {
            return;
        }
        let pages = pages();
        part.pages = since(pages, before);
        let parts = &mut *self.parts.borrow_mut();
        parts.push_back(part);
        while parts.front().is_some_and(|part| part.number + SPANS[2] <= number) {
            parts.pop_front();
        }
        self.now.set((Part { number, ..Part::default() }, pages));
    }

    /// Adds a measured gain.
    pub fn gained(&self, gain: &Gain) {
        let (mut part, before) = self.now.get();
        part.gain.add(gain);
        self.now.set((part, before));
        if let Some(last) = self.past.borrow_mut().back_mut() {
            last.gain.add(gain);
        }
    }

    /// A reconfiguration begins a stage that moves nothing.
    pub fn stage(&self, stage: &'static str) {
        let now = runtime::now();
        self.progress.set(Some(Progress { stage, moved: 0, of: 0, moving_since: now }));
    }

    /// The present reconfiguration begins a stage that moves pages, with `left` pages to move in it and in later ones.
    /// Trials, which are no reconfigurations, do not count them: that takes long.
    pub fn moves(&self, stage: &'static str, left: impl FnOnce() -> u64) {
        let Some(mut progress) = self.progress.get() else { return };
        let now = runtime::now();
        if progress.of == 0 {
            progress.moving_since = now;
        }
        self.progress.set(Some(Progress { stage, of: progress.moved + left(), ..progress }));
    }

    /// A mover begins a round of this many pages; 0 if it has ended.
    pub fn round(&self, pages: usize) {
        self.round.set((pages as u64, 0));
    }

    /// Some pages of the present round are done, but do not count before all of it is.
    pub fn moved_some(&self, pages: u64) {
        let (all, done) = self.round.get();
        self.round.set((all, all.min(done + pages)));
    }

    /// Pages of the present round that are done.
    pub fn in_round(&self) -> u64 {
        self.round.get().1
    }

    /// A mover has moved these pages, all of its round; they count for the present reconfiguration, if there is one.
    pub fn moved(&self, pages: usize) {
        self.round.take();
        if let Some(progress) = self.progress.get() {
            let moved = progress.moved + pages as u64;
            self.progress.set(Some(Progress { moved, ..progress }));
        }
    }

    /// A reconfiguration has ended, with an error if it failed.
    pub fn ended(&self, why: String, decided: Decided, report: &Reconfigured, error: Option<&IoError>) {
        self.progress.take();
        self.number.set(self.number.get() + 1);
        let past = &mut *self.past.borrow_mut();
        if past.len() == MOST {
            past.pop_front();
        }
        past.push_back(Past {
            number: self.number.get(),
            why,
            decided: decided.what,
            report: report.clone(),
            took: runtime::now().since(report.start),
            predicted: decided.predicted,
            model: decided.model,
            gain: Gain::default(),
            error: error.map(IoError::to_string),
        });
    }

    /// All of it; `pages` are those so far.
    pub fn all(&self, pages: Pages) -> seekless_core::History {
        let now = runtime::now();
        self.roll(now, || pages);
        let (mut last, before) = self.now.get();
        last.pages = since(pages, before);
        let parts = self.parts.borrow();
        let span = |length: u64| {
            let mut span =
                Span { length: Nanos(length * PART.0).min(now.since(self.opened)), ..Span::default() };
            let later = |part: &&Part| part.number + length > last.number;
            for part in parts.iter().chain([&last]).filter(later) {
                span.pages += part.pages.all;
                span.hits += part.pages.hits;
                span.gain.add(&part.gain);
            }
            span
        };
        seekless_core::History {
            past: self.past.borrow().iter().cloned().collect(),
            progress: self.progress.get().map(|progress| {
                let moved = progress.moved + self.in_round();
                Progress { moved: moved.min(progress.of.max(progress.moved)), ..progress }
            }),
            spans: SPANS.map(span).into(),
        }
    }
}

/// Pages since an earlier time. Counters of a layer may begin anew.
fn since(now: Pages, before: Pages) -> Pages {
    Pages { all: now.all.saturating_sub(before.all), hits: now.hits.saturating_sub(before.hits) }
}

#[cfg(test)]
mod tests {
    use seekless_core::runtime::{Runtime, sleep};

    use super::*;

    #[test]
    fn spans_have_what_was_in_them() {
        let run = async {
            let history = History::new();
            let mut pages = Pages::default();
            // A request of ten pages each minute for eight days, hits in the second half of them.
            let minutes = 8 * 24 * 60;
            for minute in 0..minutes {
                history.roll(runtime::now(), || pages);
                pages.all += 10;
                pages.hits += if minute >= minutes / 2 { 4 } else { 0 };
                let mut gain = Gain::default();
                gain.origin.add_interval(1, Nanos::from_millis(9));
                history.gained(&gain);
                sleep(Nanos::from_millis(60_000)).await;
            }
            let all = history.all(pages);
            let found: Vec<_> =
                all.spans.iter().map(|span| (span.pages, span.hits, span.gain.origin.reads)).collect();
            // The last part is the one that has just begun.
            let expected = [50, 1_430, 10_070].map(|minutes| (10 * minutes, 4 * minutes.min(5_760), minutes));
            assert_eq!(found, expected);
            let hours: Vec<u64> = all.spans.iter().map(|span| span.length.0 / 3_600_000_000_000).collect();
            assert_eq!(hours, [1, 24, 168]);
            assert!(history.parts.borrow().len() <= 1_008);
        };
        Runtime::new(1).run(run).unwrap();
    }

    #[test]
    fn a_long_pause_empties_the_shorter_spans() {
        let run = async {
            let history = History::new();
            history.roll(runtime::now(), Pages::default);
            sleep(Nanos::from_millis(3 * 3_600_000)).await;
            let pages = Pages { all: 9, hits: 3 };
            let spans = history.all(pages).spans;
            assert_eq!(spans.iter().map(|span| span.pages).collect::<Vec<_>>(), [0, 9, 9]);
            assert_eq!(spans[1].length, Nanos::from_millis(3 * 3_600_000), "opened three hours ago");
        };
        Runtime::new(1).run(run).unwrap();
    }

    #[test]
    fn pages_of_a_round_show_before_its_end() {
        let run = async {
            let history = History::new();
            let moved = |history: &History| history.all(Pages::default()).progress.unwrap().moved;
            history.stage("analyse");
            history.moves("incoming", || 9);
            history.round(6);
            for (some, expected) in [(2, 2), (3, 5), (3, 6)] {
                history.moved_some(some);
                assert_eq!((moved(&history), history.in_round()), (expected, expected));
            }
            history.moved(6);
            assert_eq!((moved(&history), history.in_round()), (6, 0));
            history.round(3);
            history.moved_some(2);
            history.round(0);
            assert_eq!(moved(&history), 6, "a round that failed moves nothing");
        };
        Runtime::new(1).run(run).unwrap();
    }

    #[test]
    fn a_gain_belongs_to_the_reconfiguration_before_it() {
        let run = async {
            let history = History::new();
            let mut gain = Gain::default();
            gain.copies.add_interval(2, Nanos::from_millis(4));
            history.gained(&gain);
            for number in 0..60_u64 {
                history.stage("analyse");
                history.moves("incoming", || 9);
                history.moved(3);
                let progress = history.all(Pages::default()).progress.unwrap();
                assert_eq!((progress.stage, progress.moved, progress.of), ("incoming", 3, 9));
                history.ended(format!("{number}"), Decided::default(), &Reconfigured::default(), None);
                history.moved(3);
                history.gained(&gain);
            }
            let all = history.all(Pages::default());
            assert_eq!((all.past.len(), all.progress), (MOST, None));
            assert_eq!((all.past[0].number, all.past[0].why.as_str()), (11, "10"));
            assert!(all.past.iter().all(|past| past.gain.copies.reads == 2));
            assert_eq!(all.spans[0].gain.copies.reads, 122);
        };
        Runtime::new(1).run(run).unwrap();
    }
}
