//! Reads a trace as a stream of [`Record`]s: one request each, with its process's name at that time.
//!
//! Invariants: times start at zero (the first record's) and never go back; a request traced on several devices of a
//! stack is returned once; the same files give the same records. Memory is bounded by the number of files, of processes
//! and of their names, not by the trace's length.
//!
//! Faults: a truncated trace is read to its end, with a warning; any other fault ends the stream with an error, after
//! the records before it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use seekless_core::{NameId, Names, Nanos, Origin, ProcessId, Record};

use crate::compressed;
use crate::error::TraceError;
use crate::format::{self, Event, EventKind, Format, Opened, TracedRequest};
use crate::latency::Completions;
use crate::layering::Layering;
use crate::merge::Merge;
use crate::options::ReadOptions;
use crate::paths::{expand, recordings};
use crate::request_events::RequestEvents;
use crate::volumes::Volumes;

/// Most volumes named in the error of an unknown one.
const MAX_LISTED: usize = 8;

/// A trace being read: an iterator over its records.
pub struct Reader {
    format: &'static Format,
    merge: Merge,
    request_events: RequestEvents,
    layering: Layering,
    names: Names,
    volumes: Volumes,
    /// The only volume to read: its name, and its number once that is known.
    only_volume: Option<(String, Option<u32>)>,
    /// Volumes skipped before it was found.
    others: BTreeSet<u32>,
    /// Current name of each process.
    current_names: FxHashMap<ProcessId, NameId>,
    /// The time of the first record, the origin of times.
    start: Option<Nanos>,
    /// Requests waiting for their completions, if latencies are needed.
    completions: Option<Completions>,
    sources: Vec<PathBuf>,
    warnings: Vec<String>,
    ended: bool,
    /// The error that ended it; returned after the records before it.
    failure: Option<TraceError>,
}

impl Reader {
    /// Opens a recording: one or several files, or the name of a recording (see [`expand`]), or `-` for standard input.
    /// Several files are parts of one recording, such as its CPUs: they share a clock and a format, and names in one
    /// apply to all.
    pub fn open(paths: &[impl AsRef<Path>], options: &ReadOptions) -> Result<Reader, TraceError> {
        Reader::open_with(paths, None, options)
    }

    /// As `open`; standard input, if it is one of the paths, has been copied into this file.
    pub(crate) fn open_with(
        paths: &[impl AsRef<Path>],
        kept: Option<&File>,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        let sources = expand(paths)?;
        let open = |file: &PathBuf| match kept {
            Some(kept) if file == Path::new(compressed::STDIN) => {
                let stream = compressed::reopen(kept);
                let stream = stream.map_err(|source| TraceError::Io { file: file.clone(), source })?;
                format::opened(file.clone(), stream)
            }
            _ => format::open(file),
        };
        let opened = sources.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut reader = Reader::of(sources, opened, options)?;
        let recordings = recordings(&reader.sources);
        if recordings.len() > 1 {
            let (number, names) = (recordings.len(), recordings.join(", "));
            reader.warnings.push(format!("files of {number} recordings ({names}) are read as one trace"));
        }
        Ok(reader)
    }

    /// Reads a stream, compressed or not; messages call it `name`.
    pub fn from_stream(
        name: &str,
        stream: impl Read + 'static,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        let file = PathBuf::from(name);
        let stream = compressed::decompress(stream);
        let stream = stream.map_err(|source| TraceError::Io { file: file.clone(), source })?;
        let opened = format::opened(file.clone(), stream)?;
        Reader::of(vec![file], vec![opened], options)
    }

    fn of(
        sources: Vec<PathBuf>,
        opened: Vec<Option<Opened>>,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        let mut files = Vec::new();
        let mut warnings = Vec::new();
        let mut common: Option<(&'static Format, Volumes)> = None;
        for (file, opened) in sources.iter().zip(opened) {
            let Some(opened) = opened else {
                // A CPU without events.
                warnings.push(format!("{}: the file is empty", file.display()));
                continue;
            };
            let format = opened.format(options)?;
            let (first, volumes) = common.get_or_insert_with(|| (format, Volumes::new(format.volumes)));
            if first.name != format.name {
                let found = format!("the format {}", format.name);
                let expected = format!("{}, which the files before it are in", first.name);
                return Err(TraceError::Malformed { file: file.clone(), offset: 0, found, expected });
            }
            format.check(options)?;
            files.push((file.clone(), opened.decoder(format, options, volumes)?));
        }
        let Some((format, volumes)) = common else {
            let file = sources.into_iter().next().unwrap_or_default();
            let (found, expected) = ("an empty file".into(), "a trace".into());
            return Err(TraceError::Malformed { file, offset: 0, found, expected });
        };
        Ok(Reader {
            format,
            merge: Merge::new(files),
            request_events: RequestEvents::default(),
            layering: Layering::default(),
            names: Names::default(),
            volumes,
            only_volume: options.volume.clone().map(|name| (name, None)),
            others: BTreeSet::new(),
            current_names: FxHashMap::default(),
            start: None,
            completions: options.latencies.then(Completions::default),
            sources,
            warnings,
            ended: false,
            failure: None,
        })
    }

    /// The format of the files.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The names that the records so far refer to.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The names of processes that events have given so far, and that hold for what follows: in a later file of the
    /// trace, too. Processes whose requests carry their names are not among them.
    pub fn named_processes(&self) -> impl Iterator<Item = (ProcessId, &str)> {
        self.current_names.iter().map(|(process, name)| (*process, self.names.get(*name)))
    }

    /// The names of the volumes, as far as they have been read.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Warnings about the trace, as far as it was read; complete at the end.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The time of the first record by the trace's clock; `None` before that was read.
    pub fn start(&self) -> Option<Nanos> {
        self.start
    }

    /// The files being read.
    pub fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// Records so far that were too late in their file to be put in their place, and count at the time of the one
    /// before.
    pub fn late(&self) -> u64 {
        self.merge.late()
    }

    /// The rest after all records have been read: names, volumes, warnings and sources.
    pub(crate) fn into_parts(self) -> (Names, Volumes, Vec<String>, Vec<PathBuf>) {
        (self.names, self.volumes, self.warnings, self.sources)
    }

    fn next_record(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.completions.as_mut().and_then(|completions| completions.next(false)) {
                return Some(record);
            }
            let held = self.request_events.next();
            let Some(event) = held.or_else(|| self.read()) else {
                if self.request_events.end() {
                    continue;
                }
                return self.completions.as_mut().and_then(|completions| completions.next(true));
            };
            if let Some(record) = self.apply(event.time, event.kind) {
                return Some(record);
            }
        }
    }

    /// Reads events up to one that counts, or that ends what is held.
    fn read(&mut self) -> Option<Event> {
        while self.failure.is_none() {
            match self.merge.next() {
                Ok(Some(event)) => {
                    if let Some(event) =
                        self.request_events.take(event).or_else(|| self.request_events.next())
                    {
                        return Some(event);
                    }
                }
                Ok(None) => break,
                Err(error) => self.failure = Some(error),
            }
        }
        None
    }

    /// Applies an event; returns its record, if that does not have to wait for a completion.
    fn apply(&mut self, time: Nanos, kind: EventKind) -> Option<Record> {
        match kind {
            EventKind::Named(process, name) => {
                let name = self.names.intern(&name);
                self.current_names.insert(process, name);
            }
            EventKind::Remapped(remap) => self.layering.remapped(time, &remap),
            EventKind::Queued(request) => {
                if !self.layering.repeats(time, &request) && self.is_wanted(request.device) {
                    let record = self.record(time, &request);
                    let Some(completions) = &mut self.completions else { return Some(record) };
                    completions.arrived(time, record);
                }
            }
            EventKind::Completed(done) => {
                if let Some(completions) = self.completions.as_mut().filter(|_| done.extent.sectors > 0) {
                    completions.completed(time, &done);
                }
            }
            EventKind::Issued(_) => {}
        }
        None
    }

    fn is_wanted(&mut self, device: u32) -> bool {
        let Some((name, number)) = &mut self.only_volume else { return true };
        if number.is_none() && self.volumes.name(device) == *name {
            *number = Some(device);
        }
        if number.is_none() && self.others.len() <= MAX_LISTED {
            self.others.insert(device);
        }
        *number == Some(device)
    }

    fn record(&mut self, time: Nanos, request: &TracedRequest) -> Record {
        let start = *self.start.get_or_insert(time);
        let process = request.process;
        let name = self.current_names.get(&process).copied().unwrap_or_default();
        Record {
            time: time.since(start),
            device: request.device,
            op: request.op,
            extent: request.extent,
            flags: request.flags,
            origin: Origin { process, name, stream: request.stream },
            latency: request.latency,
        }
    }

    fn end(&mut self) {
        self.ended = true;
        let (warnings, skipped) = self.merge.warnings();
        self.warnings.extend(warnings);
        if skipped > 0 {
            self.warnings.push(format!("{skipped} malformed records were skipped"));
        }
        self.warnings.extend(self.request_events.warnings(|device| self.volumes.name(device)));
        let repeated = self.layering.repeated();
        if repeated > 0 {
            self.warnings.push(format!(
                "{repeated} requests were traced on several devices of a stack; each counts once, on the topmost"
            ));
        }
        if let (None, Some((name, None))) = (&self.failure, &self.only_volume) {
            let names = self.others.iter().map(|&device| self.volumes.name(device));
            let mut names: Vec<String> = names.take(MAX_LISTED).collect();
            if self.others.len() > MAX_LISTED {
                names.push("...".into());
            }
            let expected = match names.len() {
                0 => "a trace with requests".into(),
                1 => names.join(", "),
                _ => format!("one of {}", names.join(", ")),
            };
            self.failure =
                Some(TraceError::Setting { setting: "the volume", found: format!("{name:?}"), expected });
        } else if self.failure.is_none() && self.start.is_none() {
            let file = self.sources.first().cloned().unwrap_or_default();
            // A file that was cut says so.
            let why = self.warnings.first().map(|warning| format!(" ({warning})")).unwrap_or_default();
            let found = format!("no request{why}");
            let (format, clean) = (self.format.name, why.is_empty());
            self.failure = Some(TraceError::NoRequests { file, found, format, clean });
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if let Some(record) = self.next_record() {
            return Some(Ok(record));
        }
        self.end();
        self.failure.take().map(Err)
    }
}
