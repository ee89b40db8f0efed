//! Which events count as requests: those queued (Q); where a trace has none, those issued to the drive (D); where it has
//! neither, those completed (C). `blktrace -a issue` records such traces.
//!
//! Events are held until the first queue event decides, which is nearly always among the first ones. After
//! `MAX_HELD` without one, or at the end, the others do.

use std::collections::VecDeque;

use seekless_core::ProcessId;

use crate::format::{Event, EventKind, TracedRequest};

/// More than a device has in flight, and than a tracer notes of processes before the first request.
const MAX_HELD: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queued,
    Issued,
    Completed,
}

/// Turns the events that count into queue events, and leaves out those that repeat them.
#[derive(Default)]
pub(crate) struct RequestEvents {
    kind: Option<Kind>,
    held: VecDeque<Event>,
    /// Queue events after it was decided that there are none.
    late: u64,
}

impl RequestEvents {
    /// Takes an event, and returns it if that counts and none is held before it.
    #[inline]
    pub fn take(&mut self, event: Event) -> Option<Event> {
        if self.kind == Some(Kind::Queued) && self.held.is_empty() {
            // As it is: this is the path of nearly all events.
            return (!matches!(event.kind, EventKind::Issued(_))).then_some(event);
        }
        self.take_rare(event)
    }

    fn take_rare(&mut self, event: Event) -> Option<Event> {
        if self.kind.is_some() && self.held.is_empty() {
            return self.translated(event);
        }
        let decides = matches!(event.kind, EventKind::Queued(_));
        if self.kind.is_none() && decides {
            self.kind = Some(Kind::Queued);
        }
        self.held.push_back(event);
        if self.held.len() == MAX_HELD {
            self.decide();
        }
        None
    }

    /// The next event that was held.
    pub fn next(&mut self) -> Option<Event> {
        self.kind?;
        while let Some(event) = self.held.pop_front() {
            if let Some(event) = self.translated(event) {
                return Some(event);
            }
        }
        None
    }

    /// Decides at the end of the trace; returns whether events were held for that.
    pub fn end(&mut self) -> bool {
        self.decide();
        !self.held.is_empty()
    }

    fn decide(&mut self) {
        let issued = |event: &Event| matches!(event.kind, EventKind::Issued(_));
        let other = || if self.held.iter().any(issued) { Kind::Issued } else { Kind::Completed };
        self.kind = Some(self.kind.unwrap_or_else(other));
    }

    fn translated(&mut self, event: Event) -> Option<Event> {
        let kind = match (event.kind, self.kind?) {
            (EventKind::Queued(_), Kind::Issued | Kind::Completed) => {
                self.late += 1;
                return None;
            }
            (EventKind::Issued(request), Kind::Issued) => EventKind::Queued(request),
            (EventKind::Issued(_), _) => return None,
            // Its process is the one that happened to run.
            (EventKind::Completed(request), Kind::Completed) => {
                EventKind::Queued(TracedRequest { process: ProcessId::default(), ..request })
            }
            (kind, _) => kind,
        };
        Some(Event { kind, ..event })
    }

    /// Warnings, if queue events are not what counts; `any`: whether there were requests.
    pub fn warnings(&self, any: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        match self.kind {
            Some(Kind::Issued) if any => warnings.push(
                "no request was queued (Q): those issued to the drive (D) count, without their time in the queue".into(),
            ),
            Some(Kind::Completed) if any => warnings.push(
                "no request was queued (Q) or issued (D): those completed (C) count, at their completion".into(),
            ),
            _ => {}
        }
        if self.late > 0 {
            warnings.push(format!(
                "{} requests were queued (Q) long after the others; they were left out",
                self.late
            ));
        }
        warnings
    }
}
