//! The source of block events and names: the `blk` tracer with names from an instance, or everything from an instance.

use std::fs;
use std::path::Path;

use super::device::Device;
use super::instance::Instance;
use super::tracer::{self, Tracer};
use super::undo::Undo;
use crate::encode::NAME_BYTES;
use crate::error::RecordError;
use crate::names::{self, Names};
use crate::order::Order;
use crate::{Choice, Request};

/// The kernel's name of its first process namespace: only there do numbers in `/proc` match those of traces.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// Names are few: a small buffer per CPU holds thousands.
const NAMES_BUFFER_BYTES: u64 = 1 << 20;

/// The sources of one recording.
pub struct Source {
    /// Dropped first: its pipe holds the tracer.
    tracer: Option<Tracer>,
    instance: Instance,
    /// Names of threads that ran before.
    first: Vec<(u32, [u8; NAME_BYTES])>,
}

impl Source {
    /// Switches on the source of `request`; a warning if it is not the best one.
    pub fn start(
        tracefs: &Path,
        device: &Device,
        request: &Request,
        undo: &mut Undo,
    ) -> Result<(Source, Option<String>), RecordError> {
        let busy = match request.source {
            Choice::Events => Some(String::new()),
            Choice::Auto | Choice::Blk => tracer::busy(tracefs, device)?,
        };
        match busy {
            Some(found) if request.source == Choice::Blk => Err(RecordError::Busy { found }),
            Some(found) => {
                let mut instance = Instance::new(tracefs, device, request.buffer_bytes, undo)?;
                instance.follow_device(device)?;
                let warning = (!found.is_empty()).then(|| {
                    format!(
                        "the blk tracer is not free (found {found}): recording block events, without plugging"
                    )
                });
                // Block events carry their own names.
                Ok((Source { tracer: None, instance, first: Vec::new() }, warning))
            }
            None => {
                let mut instance = Instance::new(tracefs, device, NAMES_BUFFER_BYTES, undo)?;
                instance.follow_names()?;
                // After the events of names and before those of blocks: changes meanwhile are in the pipes, and take
                // effect before the first request.
                let (first, warning) = first_names();
                let tracer = Tracer::start(tracefs, device, request.buffer_bytes, undo)?;
                Ok((Source { tracer: Some(tracer), instance, first }, warning))
            }
        }
    }

    /// Name in the summary.
    pub fn name(&self) -> &'static str {
        if self.tracer.is_some() { "blk" } else { "events" }
    }

    /// Passes the names of threads when it was switched on to `names`.
    pub fn pass_names(&mut self, names: &mut Names) {
        for (pid, name) in self.first.drain(..) {
            names.rename(pid, name);
        }
    }

    /// Switches off.
    pub fn switch_off(&mut self) -> Result<(), RecordError> {
        if let Some(tracer) = &mut self.tracer {
            tracer.switch_off()?;
        }
        self.instance.switch_off()
    }

    /// Takes everything available.
    pub fn drain(&mut self, order: &mut Order) -> Result<(), RecordError> {
        if let Some(tracer) = &mut self.tracer {
            tracer.drain(order)?;
        }
        // Names last: those of the requests just read have arrived by now.
        self.instance.drain(order)
    }

    /// Number of block events lost by the kernel.
    pub fn lost(&self) -> u64 {
        self.tracer.as_ref().map_or_else(|| self.instance.lost(), Tracer::lost)
    }

    /// Warnings at the end.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(tracer) = &self.tracer {
            if tracer.skipped() > 0 {
                warnings.push(format!(
                    "{} bytes in the tracer's pipe were not records and were skipped: another program wrote there",
                    tracer.skipped()
                ));
            }
            if self.instance.lost() > 0 {
                warnings
                    .push(format!("{} changes of names were lost: some names are old", self.instance.lost()));
            }
        }
        warnings
    }
}

/// Names of the running threads, or why they are unknown.
fn first_names() -> (Vec<(u32, [u8; NAME_BYTES])>, Option<String>) {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace == Path::new(FIRST_NAMESPACE) {
        return (threads(), None);
    }
    let warning =
        "this is not the machine's first process namespace: processes that run already have no names";
    (Vec::new(), Some(warning.to_owned()))
}

/// The running threads, and their names in `/proc`.
fn threads() -> Vec<(u32, [u8; NAME_BYTES])> {
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut found = Vec::new();
    for process in numbers(Path::new("/proc")) {
        let tasks = Path::new("/proc").join(process.to_string()).join("task");
        for thread in numbers(&tasks) {
            // A thread that ended meanwhile has no name any more, and needs none.
            if let Ok(comm) = fs::read(tasks.join(thread.to_string()).join("comm")) {
                found.push((thread, names::from_proc(&comm)));
            }
        }
    }
    found
}
