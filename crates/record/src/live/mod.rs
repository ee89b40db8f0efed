//! A recording from start to end, on a running Linux.
//!
//! Invariants: the pipes are read every [`TICK_MS`]; the file is in order of time, so an event waits for [`LATE_NS`]
//! before it is written, for earlier ones that are read later; the sources are dropped before what they switched on is
//! undone. Faults: an error or a second signal ends the recording, what was written stays, and everything is switched
//! off.

mod device;
mod instance;
mod output;
mod source;
mod stop;
mod tracefs;
mod tracer;
mod undo;

use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};
use seekless_core::Nanos;

use crate::disk::Disk;
use crate::error::RecordError;
use crate::order::Order;
use crate::{End, Message, Request, Summary, Tally};
use device::Device;
use output::Output;
use source::Source;
use stop::Stop;
use undo::Undo;

/// Interval between two reads of the pipes.
const TICK_MS: u64 = 50;
/// The longest delay of an event before it is in the pipe: a CPU of a virtual machine may be stopped between the two.
const LATE_NS: u64 = 50_000_000;
/// Ticks between two checks for losses, with a progress report.
const TICKS_A_TALLY: u64 = 4;
/// At the end the pipes are read until they are empty, but at most this often.
const LAST_LOOKS: usize = 1000;

/// The machine's monotonic clock, which traces use.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The timeout of a poll.
fn limit(milliseconds: u64) -> Option<Timespec> {
    Duration::from_millis(milliseconds).try_into().ok()
}

/// Sleeps, where there is nothing to wait for.
fn pause(milliseconds: u64) {
    // An interruption may end the sleep.
    let _ = rustix::event::poll(&mut [], limit(milliseconds).as_ref());
}

fn warn(report: &mut dyn FnMut(Message), warnings: impl IntoIterator<Item = String>) {
    for warning in warnings {
        report(Message::Warning(warning));
    }
}

/// See [`crate::record`].
pub fn record(request: &Request, report: &mut dyn FnMut(Message)) -> Result<Summary, RecordError> {
    let device = Device::find(&request.device)?;
    output::expect_possible(&request.output, request.force)?;
    let tracefs = tracefs::find(request.tracefs.as_deref())?;
    let mut stop = Stop::listen().map_err(|error| RecordError::io("signals".as_ref(), "listening", error))?;
    warn(report, undo::recover(&tracefs));
    if device.holds(&request.output) {
        report(Message::Warning(format!(
            "{} lies on {}, which is recorded: writing the recording will be in it; better write to another disk",
            request.output.display(),
            device.name
        )));
    }
    let (mut undo, warning) = Undo::new();
    warn(report, warning);
    let (disk, wall) = (Disk::of(&device.folder), clock_gettime(ClockId::Realtime));
    let (source, warning) = Source::start(&tracefs, &device, request, &mut undo)?;
    warn(report, warning);
    let name = source.name();
    let limit = request.max_bytes.unwrap_or(u64::MAX);
    let output = Output::create(&request.output, request.force, device.number, limit)?;
    let mut run =
        Run { source, output, order: Order::default(), began_ns: now_ns(), lost: 0, ended_ns: None };
    report(Message::Began(&device.name, name));
    let end = run.until_the_end(request.duration, &mut stop, report);
    // Not before `run` is dropped: its pipes hold the tracer.
    let finished = end.and_then(|end| run.finish(end, &mut stop));
    let (tally, warnings) = (run.tally(), run.source.warnings());
    drop(run);
    warn(report, warnings.into_iter().chain(undo.undo()));
    let end = finished?;
    let (number, file) = (device.number_text(), request.output.clone());
    let began_unix_s = wall.tv_sec as f64 + wall.tv_nsec as f64 / 1e9;
    Ok(Summary { device: device.name, number, file, source: name, end, began_unix_s, disk, tally })
}

/// A recording in progress.
struct Run {
    source: Source,
    output: Output,
    order: Order,
    began_ns: u64,
    lost: u64,
    /// When it was asked to end.
    ended_ns: Option<u64>,
}

impl Run {
    /// Reads and writes until the recording ends.
    fn until_the_end(
        &mut self,
        duration: Option<Nanos>,
        stop: &mut Stop,
        report: &mut dyn FnMut(Message),
    ) -> Result<End, RecordError> {
        let wall = clock_gettime(ClockId::Realtime);
        self.output.wall_clock(self.began_ns, wall.tv_sec as u32, wall.tv_nsec as u32)?;
        self.source.pass_names(self.output.names());
        let end_ns = duration.map(|duration| self.began_ns.saturating_add(duration.0));
        for tick in 0_u64.. {
            let now = now_ns();
            if stop.signals() > 0 {
                return Ok(End::Signal);
            }
            if end_ns.is_some_and(|end| now >= end) {
                return Ok(End::Time);
            }
            self.source.drain(&mut self.order)?;
            self.write_until(now.saturating_sub(LATE_NS))?;
            if self.output.full {
                return Ok(End::Size);
            }
            if tick % TICKS_A_TALLY == 0 {
                self.lost = self.source.lost();
                self.output.flush()?;
                report(Message::Tally(&self.tally()));
            }
            let left_ms = end_ns.map_or(u64::MAX, |end| end.saturating_sub(now) / 1_000_000 + 1);
            stop.wait(TICK_MS.min(left_ms));
        }
        Ok(End::Signal)
    }

    fn write_until(&mut self, horizon_ns: u64) -> Result<(), RecordError> {
        self.order.release(horizon_ns).try_for_each(|item| self.output.happened(item))
    }

    /// Switches off, and writes what has arrived until then.
    fn finish(&mut self, end: End, stop: &mut Stop) -> Result<End, RecordError> {
        self.ended_ns = Some(now_ns());
        self.source.switch_off()?;
        for _ in 0..LAST_LOOKS {
            if stop.signals() > 1 {
                return Err(RecordError::Aborted);
            }
            let before = self.order.len();
            self.source.drain(&mut self.order)?;
            if self.order.len() == before {
                break;
            }
        }
        self.write_until(u64::MAX)?;
        self.lost = self.source.lost();
        self.output.finish()?;
        Ok(end)
    }

    fn tally(&self) -> Tally {
        Tally {
            seconds: Nanos(self.ended_ns.unwrap_or_else(now_ns).saturating_sub(self.began_ns)).seconds(),
            events: self.output.events,
            requests: self.output.requests,
            names: self.output.noted,
            bytes: self.output.bytes,
            lost: self.lost,
        }
    }
}
