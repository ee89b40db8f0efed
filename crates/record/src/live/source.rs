//! Where block events and names come from: the `blk` tracer with names from an instance, or everything from an
//! instance.

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

/// What the kernel calls its first process namespace: only there are numbers in `/proc` those of traces.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// Names are few: a small buffer per CPU holds thousands.
const NAMES_BUFFER_BYTES: u64 = 1 << 20;

/// The sources of one recording.
pub struct Source {
    /// Dropped first: its pipe holds the tracer.
    tracer: Option<Tracer>,
    instance: Instance,
    /// What the threads were called that ran before.
    first: Vec<(u32, [u8; NAME_BYTES])>,
}

impl Source {
    /// Switches on what `request` asks for; a warning if it is not what would be best.
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
                // After the events of names and before those of blocks: what changes meanwhile is in the pipes, and
                // comes into force before the first request.
                let (first, warning) = first_names();
                let tracer = Tracer::start(tracefs, device, request.buffer_bytes, undo)?;
                Ok((Source { tracer: Some(tracer), instance, first }, warning))
            }
        }
    }

    /// How the summary calls it.
    pub fn name(&self) -> &'static str {
        if self.tracer.is_some() { "blk" } else { "events" }
    }

    /// Tells `names` what the threads were called when it was switched on.
    pub fn tell_names(&mut self, names: &mut Names) {
        for (pid, name) in self.first.drain(..) {
            names.rename(pid, name);
        }
    }

    /// Lets nothing new come in.
    pub fn switch_off(&mut self) -> Result<(), RecordError> {
        if let Some(tracer) = &mut self.tracer {
            tracer.switch_off()?;
        }
        self.instance.switch_off()
    }

    /// Takes all there is.
    pub fn drain(&mut self, order: &mut Order) -> Result<(), RecordError> {
        if let Some(tracer) = &mut self.tracer {
            tracer.drain(order)?;
        }
        // Names last: those that the requests just read need are there by now.
        self.instance.drain(order)
    }

    /// How many block events the kernel had no room for.
    pub fn lost(&self) -> u64 {
        self.tracer.as_ref().map_or_else(|| self.instance.lost(), Tracer::lost)
    }

    /// What else is to be said at the end.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(tracer) = &self.tracer {
            if tracer.skipped() > 0 {
                warnings.push(format!(
                    "{} bytes in the tracer's pipe were no records, and were left out: somebody else wrote there",
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

/// What the threads are called that run, or why that cannot be told.
fn first_names() -> (Vec<(u32, [u8; NAME_BYTES])>, Option<String>) {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace == Path::new(FIRST_NAMESPACE) {
        return (threads(), None);
    }
    let warning =
        "this is not the machine's first process namespace: processes that run already have no names";
    (Vec::new(), Some(warning.to_owned()))
}

/// The threads that run, and what `/proc` calls them.
fn threads() -> Vec<(u32, [u8; NAME_BYTES])> {
    let numbers = |path: &Path| -> Vec<u32> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut found = Vec::new();
    for process in numbers(Path::new("/proc")) {
        let tasks = Path::new("/proc").join(process.to_string()).join("task");
        for thread in numbers(&tasks) {
            // One that ended meanwhile has no name any more, and needs none.
            if let Ok(comm) = fs::read(tasks.join(thread.to_string()).join("comm")) {
                found.push((thread, names::from_proc(&comm)));
            }
        }
    }
    found
}
