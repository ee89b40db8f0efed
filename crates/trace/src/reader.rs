//! Reads a trace as a stream of [`Record`]s: one request each, with the name its process had then.
//!
//! Always holds: times start at zero (the first record's) and never go back; a request that was
//! traced on several devices of a stack comes once; the same files give the same records. Memory is
//! bounded by the number of files, of processes and of their names, not by the trace's length.
//!
//! Faults: a trace cut short is read to where it ends, with a warning; anything else that is wrong
//! ends the stream with an error, after the records before it.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use seekless_core::{NameId, Names, Nanos, Origin, ProcessId, Record, StreamId};

use crate::error::TraceError;
use crate::format::{self, Event, EventKind, Format, Queued};
use crate::layering::Layering;
use crate::merge::Merge;
use crate::paths::expand;

/// A trace being read: an iterator over its records.
pub struct Reader {
    format: &'static Format,
    merge: Merge,
    layering: Layering,
    names: Names,
    /// What each process is called by now.
    called: FxHashMap<ProcessId, NameId>,
    /// The time of the first record, from which times count.
    start: Option<Nanos>,
    sources: Vec<PathBuf>,
    warnings: Vec<String>,
    ended: bool,
}

impl Reader {
    /// Opens a recording: one or several files, or the name of a recording (see [`expand`]). Several
    /// files are the CPUs of one recording: they share a clock and a format, and names noted in one count in all.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Reader, TraceError> {
        let sources = expand(paths)?;
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        let mut common: Option<&'static Format> = None;
        for file in &sources {
            let Some((format, decoder)) = format::open(file)? else {
                // A CPU on which nothing happened.
                warnings.push(format!("{}: the file is empty", file.display()));
                continue;
            };
            let first = *common.get_or_insert(format);
            if first.name != format.name {
                let found = format!("the format {}", format.name);
                let expected = format!("{}, which the files before it are in", first.name);
                return Err(TraceError::Malformed { file: file.clone(), offset: 0, found, expected });
            }
            files.push((file.clone(), decoder));
        }
        let Some(format) = common else {
            let file = sources.into_iter().next().unwrap_or_default();
            let (found, expected) = ("an empty file".into(), "a trace".into());
            return Err(TraceError::Malformed { file, offset: 0, found, expected });
        };
        Ok(Reader {
            format,
            merge: Merge::new(files),
            layering: Layering::default(),
            names: Names::default(),
            called: FxHashMap::default(),
            start: None,
            sources,
            warnings,
            ended: false,
        })
    }

    /// The format that the files are in.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The names that the records so far refer to.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What a person should know about the trace, as far as it was read; all of it at the end.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The files that are read.
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// What is left when all records have been read: names, warnings and sources.
    pub(crate) fn into_parts(self) -> (Names, Vec<String>, Vec<PathBuf>) {
        (self.names, self.warnings, self.sources)
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        while let Some(Event { time, kind, .. }) = self.merge.next()? {
            match kind {
                EventKind::Named(process, name) => {
                    let name = self.names.intern(&name);
                    self.called.insert(process, name);
                }
                EventKind::Remapped(remap) => self.layering.remapped(time, &remap),
                EventKind::Queued(request) => {
                    if !self.layering.repeats(time, &request) {
                        return Ok(Some(self.record(time, &request)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn record(&mut self, time: Nanos, request: &Queued) -> Record {
        let start = *self.start.get_or_insert(time);
        let process = request.process;
        let name = self.called.get(&process).copied().unwrap_or_default();
        Record {
            time: time.since(start),
            device: request.device,
            op: request.op,
            extent: request.extent,
            flags: request.flags,
            origin: Origin { process, name, stream: StreamId::default() },
            latency: request.latency,
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.warnings.extend(self.merge.warnings());
        let repeated = self.layering.repeated();
        if repeated > 0 {
            self.warnings.push(format!(
                "{repeated} requests were traced on several devices of a stack; each counts once, on the topmost"
            ));
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.end();
        }
        next
    }
}
