//! The default output of `blkparse`: `major,minor cpu sequence time pid action RWBS`, then by action.
//!
//! Units: time in seconds with nanoseconds; addresses and sizes in sectors of 512 bytes. As in the binary format a
//! queue event (Q) is a request, a completion (C) gives its latency, a remap (A) shows how devices are layered, issues
//! (D) count where nothing was queued, and other events are ignored. A process's name may contain blanks and slashes:
//! it extends from the first bracket to the last. The summary of a text is left out; another text may follow.
//!
//! A remap does not give the partition that it goes to; the next remap, from there, does. Faults: any text.

use seekless_core::{Extent, Nanos, Op, ProcessId, record::Flags};

use super::fields::{self, Flaw, SECOND, device_of, number, sectors};
use super::text::{EventQueue, LineFormat, Text, plain, whole_lines};
use super::{EventKind, Format, Naming, OpenUnits, Remapped, Sample, TracedRequest};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "blkparse",
    summary: "what blkparse prints by default (text)",
    sample: Sample::Real,
    volumes: Naming::Linux,
    open_units: OpenUnits::NONE,
    detect,
    open: |content| Ok(Text::open(content, Blkparse::default())),
};

const EXPECTED: &str = "major,minor cpu sequence time pid action RWBS";

fn detect(head: &[u8]) -> bool {
    let first = whole_lines(head).find(|line| !line.trim_ascii().is_empty());
    first.and_then(|line| std::str::from_utf8(line).ok()).is_some_and(|line| Line::parse(line).is_ok())
}

/// The common fields of a line.
struct Line<'a> {
    device: u32,
    time: Nanos,
    process: ProcessId,
    action: &'a str,
    rwbs: &'a str,
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Result<Line<'a>, Flaw> {
        let mut rest = line.trim_ascii();
        let mut words = [""; 7];
        for word in &mut words {
            let end = rest.bytes().position(|byte| byte.is_ascii_whitespace()).unwrap_or(rest.len());
            let (first, others) = rest.split_at(end);
            *word = first;
            rest = others.trim_ascii_start();
        }
        let [device, cpu, sequence, time, pid, action, rwbs] = words;
        if rwbs.is_empty() {
            return Err(Flaw::text(line, EXPECTED));
        }
        number::<u32>(cpu, "the number of a CPU")?;
        number::<u64>(sequence, "the number of an event")?;
        Ok(Line {
            device: device_pair(device)?,
            time: fields::time(time, SECOND, "a time in seconds")?,
            process: ProcessId(number(pid, "the number of a process")?),
            action,
            rwbs,
            rest,
        })
    }

    /// The extent of the request and the process in the brackets after it (a name may contain brackets); `None` for a
    /// command passed through to the device, whose number is not an address.
    fn place(&self) -> Result<Option<(Extent, &str)>, Flaw> {
        let expected = "sector + sectors [process]";
        let named = self.rest.strip_suffix(']').and_then(|rest| rest.split_once('['));
        let (place, name) = named.ok_or_else(|| Flaw::text(self.rest, expected))?;
        let mut words = place.split_ascii_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None, ..) => Ok(Some((Extent::default(), name))),
            (Some(start), Some("+"), Some(count)) => {
                let extent = sectors(number(start, expected)?, number(count, expected)?)?;
                Ok(Some((extent, name)))
            }
            _ => Ok(None),
        }
    }

    fn request(&self, extent: Extent) -> RequestLine<'a> {
        let Line { time, device, process, rwbs, .. } = *self;
        RequestLine { time, device, process, rwbs, extent }
    }

    fn remapped(&self) -> Result<Remapped, Flaw> {
        let flaw = || Flaw::text(self.rest, "sector + sectors <- (major,minor) sector");
        let (place, from) = self.rest.split_once("<-").ok_or_else(flaw)?;
        let (start, count) = place.split_once('+').ok_or_else(flaw)?;
        let (from_device, from_start) =
            from.trim().strip_prefix('(').and_then(|from| from.split_once(')')).ok_or_else(flaw)?;
        Ok(Remapped {
            device: self.device,
            to_device: self.device,
            extent: sectors(number(start, "a sector")?, number(count, "a number of sectors")?)?,
            from_device: device_pair(from_device)?,
            from_start: number(from_start, "a sector")?,
        })
    }
}

/// A request as given by a line.
pub(super) struct RequestLine<'a> {
    /// Time.
    pub time: Nanos,
    /// Device.
    pub device: u32,
    /// The issuing process, or the one that happened to run.
    pub process: ProcessId,
    /// Operation and flags.
    pub rwbs: &'a str,
    /// Extent; empty for a flush.
    pub extent: Extent,
}

impl RequestLine<'_> {
    /// Adds its arrival, issued by the process called `name`.
    pub fn queued(&self, name: &str, events: &mut EventQueue) {
        let Some(request) = self.parsed() else {
            events.others += 1;
            return;
        };
        events.process(self.time, self.process, name);
        events.request(self.time, request);
    }

    /// Adds that it was issued to the drive.
    pub fn issued(&self, events: &mut EventQueue) {
        if let Some(request) = self.parsed() {
            events.event(self.time, EventKind::Issued(request));
        }
    }

    /// Adds its completion.
    pub fn completed(&self, events: &mut EventQueue) {
        if let Some(request) = self.parsed() {
            events.event(self.time, EventKind::Completed(request));
        }
    }

    fn parsed(&self) -> Option<TracedRequest> {
        let op = if self.extent.sectors == 0 { Some(Op::Flush) } else { operation(self.rwbs) }?;
        let (flags, process) = (flags(self.rwbs, op), self.process);
        Some(TracedRequest { flags, process, ..plain(self.device, op, self.extent) })
    }
}

/// The device `major,minor`.
pub(super) fn device_pair(text: &str) -> Result<u32, Flaw> {
    let expected = "a device (major,minor)";
    let (major, minor) = text.split_once(',').ok_or_else(|| Flaw::text(text, expected))?;
    device_of(number(major, expected)?, number(minor, expected)?)
}

/// The operation in RWBS: its first letter, or the second after an F for a preceding flush.
pub(super) fn operation(rwbs: &str) -> Option<Op> {
    match rwbs.strip_prefix('F').unwrap_or(rwbs).chars().next() {
        Some('R') => Some(Op::Read),
        Some('W') => Some(Op::Write),
        Some('D') => Some(Op::Discard),
        _ => None,
    }
}

/// The flags in RWBS of a request of operation `op`.
pub(super) fn flags(rwbs: &str, op: Op) -> Flags {
    let before = rwbs.starts_with('F') && op != Op::Flush;
    let after = rwbs.strip_prefix('F').unwrap_or(rwbs).get(1..).unwrap_or_default();
    let set = [
        // Kernels before 2.6.37 wrote a barrier as B.
        (before || after.contains('B'), Flags::PREFLUSH),
        (after.contains('F'), Flags::FUA),
        (after.contains('A'), Flags::AHEAD),
        (after.contains('S'), Flags::SYNC),
        (after.contains('M'), Flags::META),
    ];
    set.iter().filter(|(set, _)| *set).fold(Flags::default(), |all, (_, flag)| all.with(*flag))
}

#[derive(Default)]
struct Blkparse {
    started: bool,
    /// Whether the line before was of a summary.
    in_summary: bool,
    /// The latest remap, until the next event shows its destination.
    remap: Option<(Nanos, Remapped)>,
}

impl Blkparse {
    /// Adds the pending remap; if `next` continues it, that gives its destination.
    fn settle(&mut self, next: Option<&Remapped>, events: &mut EventQueue) {
        let Some((time, mut remap)) = self.remap.take() else { return };
        if let Some(next) = next {
            let continues = next.device == remap.device
                && next.from_start == remap.extent.start.0
                && next.extent.sectors == remap.extent.sectors;
            if continues {
                remap.to_device = next.from_device;
            }
        }
        events.event(time, EventKind::Remapped(remap));
    }
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let summary = ["CPU", "Total (", "Throughput", "Events ("];
        if self.started && summary.iter().any(|start| line.starts_with(start)) {
            self.in_summary = true;
            return Ok(());
        }
        // The files that it read, at the end unless it was quiet.
        if line.starts_with("Input file ") {
            return Ok(());
        }
        let event = match Line::parse(line) {
            // A line of the summary does not begin with a device.
            Err(_)
                if self.in_summary
                    && !line.trim_start().starts_with(|first: char| first.is_ascii_digit()) =>
            {
                return Ok(());
            }
            parsed => parsed?,
        };
        (self.started, self.in_summary) = (true, false);
        match event.action {
            "Q" => {
                self.settle(None, events);
                if let Some((extent, name)) = event.place()? {
                    event.request(extent).queued(name, events);
                }
                Ok(())
            }
            "D" | "C" => {
                self.settle(None, events);
                let place = event.place()?;
                events.others += u64::from(event.action == "D" && place.is_none());
                if let Some((extent, _)) = place {
                    let request = event.request(extent);
                    if event.action == "D" { request.issued(events) } else { request.completed(events) }
                }
                Ok(())
            }
            "A" => {
                let remap = event.remapped()?;
                self.settle(Some(&remap), events);
                self.remap = Some((event.time, remap));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
