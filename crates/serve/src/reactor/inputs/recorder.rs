//! Writes the inputs of a run to a file as it goes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use seekless_core::device::ExtentState;
use seekless_core::{Extent, Nanos};

use super::handles::Handles;
use super::record::{Completion, FRAME, Record, frame, write_header};
use crate::reactor::{Job, Op};

/// Records older than this are written at the end of the next turn, however few.
const AGE: Nanos = Nanos::from_millis(1_000);

/// See the file's header.
pub struct Recorder {
    file: File,
    handles: Handles,
    pending: Vec<u8>,
    written_at: Nanos,
    /// Why recording stopped.
    failed: Option<io::Error>,
    /// Called once with that.
    report: Box<dyn Fn(&str)>,
}

impl Recorder {
    /// Creates the file at `path`, readable by its owner only, with the text that describes the run; `report` is called
    /// if recording has to stop.
    pub fn create(path: &Path, text: &str, report: impl Fn(&str) + 'static) -> io::Result<Recorder> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        write_header(&mut file, text)?;
        let (handles, written_at) = (Handles::default(), Nanos::ZERO);
        Ok(Recorder {
            file,
            handles,
            pending: Vec::new(),
            written_at,
            failed: None,
            report: Box::new(report),
        })
    }

    fn note(&mut self, record: &Record) {
        if self.failed.is_none() {
            record.put(&mut self.pending);
        }
    }

    /// Notes a submitted job.
    pub fn submitted(&mut self, job: &Job) {
        let handle = self.handles.of(job.to.as_raw_fd());
        self.note(&Record::submitted(job, handle));
    }

    /// Notes that the last job completed immediately.
    pub fn immediate(&mut self, result: &io::Result<usize>, job: &Job) {
        self.note_accepted(result, job);
        self.note(&Record::Immediate(Completion::of(result, job)));
    }

    /// Notes a completion.
    pub fn completed(&mut self, number: u64, result: &io::Result<usize>, job: &Job) {
        self.note_accepted(result, job);
        self.note(&Record::Completed { job: number, completion: Completion::of(result, job) });
    }

    fn note_accepted(&mut self, result: &io::Result<usize>, job: &Job) {
        if let (Op::Accept, Ok(number)) = (job.op, result) {
            self.handles.new_of(RawFd::try_from(*number).unwrap_or_default());
        }
    }

    /// Notes a new descriptor.
    pub fn new_descriptor(&mut self, descriptor: RawFd) {
        self.handles.new_of(descriptor);
    }

    /// Notes an extent query.
    pub fn extents(&mut self, at: Extent, states: &[ExtentState]) {
        self.note(&Record::Extents { at, states: states.to_vec() });
    }

    /// Notes an observation.
    pub fn observed(&mut self, observed: &[u8]) {
        self.note(&Record::Observed(observed.to_vec()));
    }

    /// Notes the end of a turn.
    pub fn turn(&mut self, time: Nanos) {
        self.note(&Record::Turn(time.0));
        if self.pending.len() >= FRAME || time.since(self.written_at) > AGE {
            self.written_at = time;
            self.write();
        }
    }

    /// Notes the end of the run, with the hash of its events.
    pub fn end(&mut self, hash: u64) {
        self.note(&Record::End(hash));
        self.write();
    }

    fn write(&mut self) {
        if self.failed.is_some() || self.pending.is_empty() {
            return;
        }
        // In one write, so that a server that is killed leaves whole frames.
        let mut whole = Vec::with_capacity(self.pending.len() + 8);
        let framed = frame(&mut whole, &self.pending);
        if let Err(error) = framed.and_then(|()| self.file.write_all(&whole)) {
            (self.report)(&format!("inputs are no longer recorded: {error}"));
            self.failed = Some(error);
        }
        self.pending.clear();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.write();
    }
}
