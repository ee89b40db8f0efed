//! Which events count as requests: of each device those queued (Q); where it has none, those issued to the drive (D);
//! where it has neither, those completed (C). `blktrace -a issue` records such traces.
//!
//! Events are held until the first queue event of their device decides, which is nearly always among the first ones.
//! After `MAX_HELD` without one, or at the end, the others do. Beside a device with queue events, one that has had few
//! others by then is taken for a quiet one whose first requests were under way; and where requests of another device
//! are remapped to one without, they were queued there. What else is left out is reported.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use seekless_core::ProcessId;

use crate::format::{Event, EventKind, TracedRequest};

/// More than a device has in flight, and than a tracer notes of processes before the first request.
const MAX_HELD: usize = 1 << 16;
/// Requests that may be under way when a tracer begins, so that their queue events are missing.
const UNDER_WAY: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queued,
    Issued,
    Completed,
}

/// Events of a device.
struct Device {
    number: u32,
    /// Those that count, once that is decided.
    kind: Option<Kind>,
    queued: u64,
    issued: u64,
    completed: u64,
}

impl Device {
    /// What counts if none was queued.
    fn others(&self) -> Kind {
        if self.issued > 0 { Kind::Issued } else { Kind::Completed }
    }

    /// Number of the events that do not count, and would if there were no others.
    fn left_out(&self) -> Option<String> {
        let Device { queued, issued, completed, .. } = *self;
        match self.kind? {
            Kind::Queued if queued == 0 => Some(format!(
                "no request was queued (Q), {issued} issued (D) and {completed} completed (C) were left out"
            )),
            Kind::Queued if issued > 2 * queued + UNDER_WAY => Some(format!(
                "{issued} requests were issued (D) and {queued} queued (Q): only those queued count"
            )),
            Kind::Issued | Kind::Completed if queued > 0 => {
                Some(format!("{queued} requests were queued (Q) long after the others; they were left out"))
            }
            Kind::Completed if issued > 0 => {
                Some(format!("{issued} requests were issued (D) long after the others; they were left out"))
            }
            _ => None,
        }
    }
}

/// Turns the events that count into queue events, and leaves out those that repeat them.
#[derive(Default)]
pub(crate) struct RequestEvents {
    devices: Vec<Device>,
    /// Places in `devices`, by number.
    places: FxHashMap<u32, usize>,
    /// Place of the device of the event before.
    last: usize,
    /// Devices that requests of others are remapped to.
    below: BTreeSet<u32>,
    held: VecDeque<Event>,
}

fn device_of(event: &Event) -> Option<u32> {
    match &event.kind {
        EventKind::Queued(request) | EventKind::Issued(request) | EventKind::Completed(request) => {
            Some(request.device)
        }
        EventKind::Named(..) | EventKind::Remapped(_) => None,
    }
}

impl RequestEvents {
    /// Takes an event, and returns it if that counts and none is held before it.
    #[inline]
    pub fn take(&mut self, event: Event) -> Option<Event> {
        if let EventKind::Queued(request) = &event.kind
            && self.held.is_empty()
            && let Some(device) = self.devices.get_mut(self.last)
            && device.number == request.device
            && device.kind == Some(Kind::Queued)
        {
            // As it is: this is the path of nearly all events.
            device.queued += 1;
            return Some(event);
        }
        self.take_rare(event)
    }

    fn take_rare(&mut self, event: Event) -> Option<Event> {
        if let Some(number) = device_of(&event) {
            let device = self.device(number);
            match event.kind {
                EventKind::Queued(_) => {
                    device.queued += 1;
                    device.kind = device.kind.or(Some(Kind::Queued));
                }
                EventKind::Issued(_) => device.issued += 1,
                _ => device.completed += 1,
            }
        }
        if let EventKind::Remapped(remap) = &event.kind {
            self.below.insert(remap.device);
        }
        if self.held.is_empty() && self.is_decided(&event) {
            return self.translated(event);
        }
        self.held.push_back(event);
        if self.held.len() == MAX_HELD {
            self.decide(false);
        }
        None
    }

    fn device(&mut self, number: u32) -> &mut Device {
        if self.devices.get(self.last).is_none_or(|last| last.number != number) {
            self.last = *self.places.entry(number).or_insert_with(|| {
                self.devices.push(Device { number, kind: None, queued: 0, issued: 0, completed: 0 });
                self.devices.len() - 1
            });
        }
        &mut self.devices[self.last]
    }

    /// What counts of the device of an event; `None` as long as that is not decided.
    fn kind(&self, event: &Event) -> Option<Kind> {
        let place = self.places.get(&device_of(event)?)?;
        self.devices[*place].kind
    }

    fn is_decided(&self, event: &Event) -> bool {
        device_of(event).is_none() || self.kind(event).is_some()
    }

    /// The next event that was held.
    pub fn next(&mut self) -> Option<Event> {
        while self.held.front().is_some_and(|event| self.is_decided(event)) {
            let event = self.held.pop_front()?;
            if let Some(event) = self.translated(event) {
                return Some(event);
            }
        }
        None
    }

    /// Decides at the end of the trace; returns whether events were held for that.
    pub fn end(&mut self) -> bool {
        self.decide(true);
        !self.held.is_empty()
    }

    fn decide(&mut self, at_end: bool) {
        let any_queued = self.devices.iter().any(|device| device.kind == Some(Kind::Queued));
        for device in self.devices.iter_mut().filter(|device| device.kind.is_none()) {
            let is_quiet = !at_end && device.issued + device.completed < UNDER_WAY;
            let is_queued = any_queued && (is_quiet || self.below.contains(&device.number));
            device.kind = Some(if is_queued { Kind::Queued } else { device.others() });
        }
    }

    fn translated(&self, event: Event) -> Option<Event> {
        let counts = self.kind(&event);
        let kind = match (event.kind, counts) {
            (EventKind::Issued(request), Some(Kind::Issued)) => EventKind::Queued(request),
            (EventKind::Queued(_), Some(Kind::Issued | Kind::Completed)) | (EventKind::Issued(_), _) => {
                return None;
            }
            // Its process is the one that happened to run.
            (EventKind::Completed(request), Some(Kind::Completed)) => {
                EventKind::Queued(TracedRequest { process: ProcessId::default(), ..request })
            }
            (kind, _) => kind,
        };
        Some(Event { kind, ..event })
    }

    /// Warnings, if queue events are not what counts, or events were left out; `name` gives the name of a device.
    pub fn warnings(&self, name: impl Fn(u32) -> String) -> Vec<String> {
        let mut warnings = Vec::new();
        let issued =
            "no request was queued (Q): those issued to the drive (D) count, without their time in the queue";
        let completed =
            "no request was queued (Q) or issued (D): those completed (C) count, at their completion";
        for (kind, why) in [(Kind::Issued, issued), (Kind::Completed, completed)] {
            let of: Vec<&Device> = self.devices.iter().filter(|device| device.kind == Some(kind)).collect();
            if of.len() == self.devices.len() && !of.is_empty() {
                warnings.push(why.to_owned());
            } else {
                warnings.extend(of.iter().map(|device| format!("{}: {why}", name(device.number))));
            }
        }
        for device in self.devices.iter().filter(|device| !self.below.contains(&device.number)) {
            let left_out = device.left_out().map(|why| format!("{}: {why}", name(device.number)));
            warnings.extend(left_out);
        }
        warnings
    }
}
