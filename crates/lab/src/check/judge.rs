//! Checking a history: event by event, to its end or to the first violation.

use std::io::BufRead;

use schemars::JsonSchema;
use seekless_core::Op;
use serde::Serialize;

use super::history::{Event, HistoryError, Reader};
use super::registers::Registers;
use super::violation::Violation;

/// Result of checking a history.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct Judged {
    /// Requests issued.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Discards and writes of zeroes among them.
    pub others: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests without an answer, at a crash or at the end.
    pub unanswered: u64,
    /// Sectors checked in reads, each time they were read.
    pub sectors_judged: u64,
    /// Power cuts.
    pub crashes: u64,
    /// The first violation, if any.
    pub violation: Option<LocatedViolation>,
}

/// A violation and its place.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LocatedViolation {
    /// Line of the history.
    pub line: u64,
    /// Description: place, what was found, what was expected.
    pub text: String,
    /// The violation itself.
    #[serde(flatten)]
    pub violation: Violation,
}

impl Registers {
    /// Checks the next event.
    ///
    /// # Panics
    /// Where [`Registers::issue`] and [`Registers::done`] do; not on events of a [`Reader`].
    pub fn event(&mut self, event: &Event) -> Result<(), Violation> {
        match event {
            Event::Issue { id, op, at, fua } => self.issue(*id, *op, *at, *fua),
            Event::Done { id } => return self.done(*id, true),
            Event::Failed { id } => return self.done(*id, false),
            Event::Read { id, found } => return self.read(*id, found.iter().copied()),
            Event::Crash => self.crash(),
            Event::End => return self.end(),
        }
        Ok(())
    }
}

/// Checks a history, up to the first violation.
pub fn judge<R: BufRead>(mut history: Reader<R>) -> Result<Judged, HistoryError> {
    let (mut registers, mut judged) = (Registers::new(), Judged::default());
    while let Some(event) = history.next().transpose()? {
        if event == Event::Crash {
            judged.unanswered += registers.in_flight() as u64;
        }
        judged.count(&event);
        if let Err(violation) = registers.event(&event) {
            judged.violation =
                Some(LocatedViolation { line: history.line(), text: violation.to_string(), violation });
            break;
        }
    }
    judged.unanswered += registers.in_flight() as u64;
    Ok(judged)
}

impl Judged {
    fn count(&mut self, event: &Event) {
        match event {
            Event::Issue { op, .. } => {
                self.requests += 1;
                *match op {
                    Op::Read => &mut self.reads,
                    Op::Write => &mut self.writes,
                    Op::Flush => &mut self.flushes,
                    Op::Discard | Op::WriteZeroes => &mut self.others,
                } += 1;
            }
            Event::Failed { .. } => self.failed += 1,
            Event::Read { found, .. } => self.sectors_judged += found.len() as u64,
            Event::Crash => self.crashes += 1,
            Event::Done { .. } | Event::End => {}
        }
    }
}
