//! The kernel's `blk` tracer: one for the whole machine, which gives blktrace records directly.
//!
//! It has no instances. So it is used only where the top buffer is unused and no block device is traced otherwise:
//! while it is on, a `blktrace` of any other device would see nothing.
//!
//! Invariant: the pipe is closed before the tracer is changed back, which the kernel would refuse otherwise: this value
//! is dropped before the [`Undo`] that it used. Faults: bytes that are not a record are counted.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::device::Device;
use super::instance::CLOCK;
use super::tracefs;
use super::undo::Undo;
use crate::error::RecordError;
use crate::order::{Item, Kind, Order};
use crate::stream::Stream;

/// Bytes per read; the kernel gives a page or less.
const READ_BYTES: usize = 64 << 10;
/// Reads before other sources get a turn.
const READS_AT_ONCE: usize = 1 << 16;

/// The tracer, switched on for one device.
pub struct Tracer {
    tracefs: PathBuf,
    cpus: Vec<u32>,
    pipe: File,
    bytes: Vec<u8>,
    stream: Stream,
    device: u32,
    switch: PathBuf,
    /// Losses before it was switched on.
    lost_before: u64,
}

/// The current user of what the tracer would need, if any.
pub fn busy(tracefs: &Path, device: &Device) -> Result<Option<String>, RecordError> {
    let available = tracefs::text(&tracefs.join("available_tracers")).unwrap_or_default();
    if !available.split_whitespace().any(|tracer| tracer == "blk") {
        return Ok(Some("a kernel without it".to_owned()));
    }
    if !device.folder.join("trace/enable").exists() {
        return Ok(Some(format!("no {}", device.folder.join("trace/enable").display())));
    }
    let current = tracefs::read(&tracefs.join("current_tracer"))?;
    if current != "nop" {
        return Ok(Some(format!("the tracer {current} in use")));
    }
    if !tracefs::text(&tracefs.join("set_event")).unwrap_or_default().trim().is_empty() {
        return Ok(Some("events switched on in the top buffer".to_owned()));
    }
    if tracefs::read(&tracefs.join("tracing_on"))? != "1" {
        return Ok(Some("tracing switched off by another program".to_owned()));
    }
    if tracefs::holds_events(tracefs, &tracefs::cpus(tracefs)?) {
        return Ok(Some("unread events in the top buffer".to_owned()));
    }
    Ok(traced_device().map(|name| format!("{name} traced by another program (blktrace?)")))
}

/// A device that is traced already.
fn traced_device() -> Option<String> {
    let devices = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let on = |path: &Path| fs::read_to_string(path.join("trace/enable")).is_ok_and(|text| text.trim() == "1");
    let mut names = devices.filter(|device| on(&device.path())).map(|device| device.file_name());
    names.next().map(|name| name.to_string_lossy().into_owned())
}

impl Tracer {
    /// Switches it on.
    pub fn start(
        tracefs: &Path,
        device: &Device,
        buffer_bytes: u64,
        undo: &mut Undo,
    ) -> Result<Tracer, RecordError> {
        let at = |name: &str| tracefs.join(name);
        undo.set(&at("trace_clock"), CLOCK)?;
        let kib = buffer_bytes.div_ceil(1024).to_string();
        undo.set(&at("buffer_size_kb"), &kib)?;
        undo.set(&at("options/bin"), "1")?;
        undo.set(&at("options/context-info"), "0")?;
        // Markers that programs write into the top buffer would appear between the records.
        undo.set_if_there(&at("options/markers"), "0")?;
        undo.set(&at("current_tracer"), "blk")?;
        // These exist once the tracer does.
        for option in ["blk_classic", "blk_cgroup", "blk_cgname"] {
            undo.set_if_there(&at("options").join(option), "0")?;
        }
        let cpus = tracefs::cpus(tracefs)?;
        let lost_before = tracefs::lost(tracefs, &cpus);
        let pipe = tracefs::open_pipe(&at("trace_pipe"))?;
        let switch = device.folder.join("trace/enable");
        undo.set(&switch, "1")?;
        Ok(Tracer {
            tracefs: tracefs.to_owned(),
            cpus,
            pipe,
            bytes: vec![0; READ_BYTES],
            stream: Stream::default(),
            device: device.number,
            switch,
            lost_before,
        })
    }

    /// Switches off; what has arrived is still to be drained.
    pub fn switch_off(&mut self) -> Result<(), RecordError> {
        tracefs::write(&self.switch, "0")
    }

    /// Takes everything available.
    pub fn drain(&mut self, order: &mut Order) -> Result<(), RecordError> {
        for _ in 0..READS_AT_ONCE {
            match self.pipe.read(&mut self.bytes) {
                Ok(0) => break,
                Ok(read) => self.stream.feed(&self.bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(RecordError::io(&self.tracefs.join("trace_pipe"), "reading it", error));
                }
            }
            while let Some(found) = self.stream.next_record() {
                // Another process may trace another device meanwhile.
                if found.device == self.device {
                    let (action, pid, cpu, record) = (found.action, found.pid, found.cpu, found.record);
                    order.push(Item {
                        time_ns: found.time_ns,
                        kind: Kind::Block { action, pid, cpu, record },
                    });
                }
            }
        }
        Ok(())
    }

    /// Number of events lost by the kernel.
    pub fn lost(&self) -> u64 {
        tracefs::lost(&self.tracefs, &self.cpus).saturating_sub(self.lost_before)
    }

    /// Number of bytes that were not a record.
    pub fn skipped(&self) -> u64 {
        self.stream.skipped()
    }
}
