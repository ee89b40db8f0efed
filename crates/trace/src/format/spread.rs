//! Spreads the requests of a second over it: some formats have whole seconds, and requests that all arrive at once
//! would look like a burst.
//!
//! Evenly, in file order, so that the same file gives the same times. Bound: of more than [`MOST`] in one second the
//! rest gets the second's end.

use std::collections::VecDeque;

use seekless_core::Nanos;

use super::fields::SECOND;
use super::{Decoder, Event};
use crate::error::TraceError;

/// 4 MiB of events.
const MOST: usize = 1 << 16;

/// A decoder that refines another one's whole seconds.
pub(super) struct Spread {
    coarse: Box<dyn Decoder>,
    /// Events of one second with their refined times.
    ready: VecDeque<Event>,
    /// The first event after those.
    next: Option<Event>,
    /// The second in which there were too many.
    full: Option<Nanos>,
    /// The result that ended the decoder, returned after the events before it.
    end: Option<Result<(), TraceError>>,
}

impl Spread {
    /// Spreads the events of `coarse`.
    pub fn over(coarse: Box<dyn Decoder>) -> Box<dyn Decoder> {
        Box::new(Spread { coarse, ready: VecDeque::new(), next: None, full: None, end: None })
    }

    fn read(&mut self) -> Option<Event> {
        if self.end.is_some() {
            return None;
        }
        match self.coarse.next_event() {
            Ok(Some(event)) => return Some(event),
            Ok(None) => self.end = Some(Ok(())),
            Err(error) => self.end = Some(Err(error)),
        }
        None
    }

    fn gather(&mut self) {
        let Some(first) = self.next.take().or_else(|| self.read()) else { return };
        let second = first.time;
        self.ready.push_back(first);
        if self.full == Some(second) {
            self.ready[0].time = Nanos(second.0.saturating_add(SECOND - 1));
            return;
        }
        while self.ready.len() < MOST {
            match self.read() {
                Some(event) if event.time == second => self.ready.push_back(event),
                other => {
                    self.next = other;
                    break;
                }
            }
        }
        self.full = (self.ready.len() == MOST).then_some(second);
        let count = self.ready.len() as u64;
        for (number, event) in self.ready.iter_mut().enumerate() {
            event.time = Nanos(second.0.saturating_add(number as u64 * SECOND / count));
        }
    }
}

impl Decoder for Spread {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        if self.ready.is_empty() {
            self.gather();
        }
        match self.ready.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.end.take().unwrap_or(Ok(())).map(|()| None),
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = self.coarse.warnings();
        warnings.push("times are whole seconds; requests of one second are spread over it evenly".into());
        warnings
    }

    fn skipped(&self) -> u64 {
        self.coarse.skipped()
    }

    fn clamps(&self) -> bool {
        self.coarse.clamps()
    }
}
