//! Feeds a run the inputs of a file, and checks that it submits the jobs that were recorded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::task::Waker;

use seekless_core::device::ExtentState;
use seekless_core::{Extent, Nanos, checksum};

use super::handles::Handles;
use super::record::{Completion, Record, next_frame, read_header};
use crate::reactor::{Job, Kind, Op};

/// Latest time of a run in nanoseconds: 292 years.
const LATEST: u64 = u64::MAX / 2;

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Turns of the reactor.
    pub turns: u64,
    /// Jobs submitted as recorded.
    pub jobs: u64,
    /// Of them, those of components: files and remote servers, but not sockets of clients.
    pub component_jobs: u64,
    /// Virtual time at the end.
    pub time: Nanos,
    /// A digest of the jobs.
    pub digest: u64,
    /// The hash of all events of the run, if it reached its end.
    pub ended: Option<u64>,
    /// Where it first diverged from the file, or where the file is damaged.
    pub diverged: Option<String>,
}

/// The next step of a turn.
pub enum Step {
    /// A job completed.
    Completed {
        /// Its slot.
        key: usize,
        /// The recorded completion.
        completion: Completion,
        /// Its result.
        result: io::Result<usize>,
    },
    /// The turn is over.
    Turned(Nanos),
    /// The recording ends.
    Over(Nanos),
}

/// See the file's header.
pub struct Replayer {
    file: Box<dyn Read>,
    frame: Vec<u8>,
    at: usize,
    next: Option<Record>,
    kind: Kind,
    handles: Handles,
    /// Slots of jobs in flight, by number.
    keys: BTreeMap<u64, usize>,
    outcome: Replayed,
    pub(in crate::reactor) ended: bool,
    pub(in crate::reactor) waker: Option<Waker>,
}

impl Replayer {
    /// Opens a file; `text` parses its text and returns the kind of reactor that was recorded.
    pub fn open<T>(
        path: &Path,
        text: impl FnOnce(&str) -> Result<(T, Kind), String>,
    ) -> Result<(Replayer, T), String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        Replayer::from_reader(BufReader::new(file), text)
    }

    /// As `open`, for a reader.
    pub fn from_reader<T>(
        mut file: impl Read + 'static,
        text: impl FnOnce(&str) -> Result<(T, Kind), String>,
    ) -> Result<(Replayer, T), String> {
        let (run, kind) = text(&read_header(&mut file)?)?;
        let mut replayer = Replayer {
            file: Box::new(file),
            frame: Vec::new(),
            at: 0,
            next: None,
            kind,
            handles: Handles::default(),
            keys: BTreeMap::new(),
            outcome: Replayed::default(),
            ended: false,
            waker: None,
        };
        replayer.read();
        Ok((replayer, run))
    }

    /// The kind of reactor that was recorded.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The result so far.
    pub fn outcome(&self) -> Replayed {
        self.outcome.clone()
    }

    /// Moves on to the next record.
    fn read(&mut self) {
        self.next = None;
        while self.at == self.frame.len() {
            match next_frame(&mut self.file) {
                Ok(Some(frame)) => (self.frame, self.at) = (frame, 0),
                Ok(None) => return,
                Err(why) => return self.diverge(&why),
            }
        }
        let mut rest = &self.frame[self.at..];
        self.next = Record::take(&mut rest);
        self.at = self.frame.len() - rest.len();
        if self.next.is_none() {
            self.diverge("found no record where one should begin");
        }
    }

    fn diverge(&mut self, why: &str) {
        let (turn, job) = (self.outcome.turns, self.outcome.jobs);
        self.outcome.diverged.get_or_insert_with(|| format!("turn {turn}, job {job}: {why}"));
        self.ended = true;
    }

    /// Job `number` is submitted; its result, if it completed immediately.
    pub fn start(&mut self, key: usize, number: u64, job: &mut Job) -> Option<io::Result<usize>> {
        let handle = self.handles.of(job.to.as_raw_fd());
        let submitted = Record::submitted(job, handle);
        if self.ended {
            return None;
        }
        match self.next.take() {
            Some(recorded) if recorded == submitted => {}
            // The recording is cut short here.
            None => {
                self.ended = true;
                return None;
            }
            Some(recorded) => {
                self.diverge(&format!("found {}, expected {}", submitted.describe(), recorded.describe()));
                return None;
            }
        }
        self.outcome.jobs += 1;
        self.outcome.component_jobs += u64::from(!job.op.is_of_socket());
        let mut bytes = Vec::new();
        submitted.put(&mut bytes);
        self.outcome.digest = u64::from(checksum::crc32c(&bytes)) ^ self.outcome.digest.rotate_left(23);
        self.outcome.digest = self.outcome.digest.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.read();
        if matches!(self.next, Some(Record::Immediate(_))) {
            let Some(Record::Immediate(completion)) = self.next.take() else { return None };
            self.read();
            let result = self.result(&completion, job.op, job.memory.part().len());
            if self.ended {
                return None;
            }
            self.fill(&completion, job);
            return Some(result);
        }
        self.keys.insert(number, key);
        None
    }

    /// Puts recorded data into a job's memory.
    pub fn fill(&mut self, completion: &Completion, job: &mut Job) {
        job.memory.part_mut()[..completion.data.len()].copy_from_slice(&completion.data);
    }

    /// Result of a job with `len` bytes of memory; an impossible one counts as divergence.
    fn result(&mut self, completion: &Completion, op: Op, len: usize) -> io::Result<usize> {
        let result = completion.result();
        let moved = *result.as_ref().unwrap_or(&0);
        let (most, data) = match op {
            Op::Read(_) | Op::Receive => (len, moved),
            Op::Write(_) | Op::WriteThrough(_) | Op::Send => (len, 0),
            Op::Sync | Op::Punch { .. } | Op::Zero { .. } | Op::Accept | Op::Ready => (usize::MAX, 0),
        };
        if moved > most || completion.data.len() != data {
            let found = completion.data.len();
            self.diverge(&format!("found {moved} bytes transferred of {len}, and {found} bytes of data"));
            return Err(io::ErrorKind::InvalidData.into());
        }
        if op != Op::Accept || result.is_err() {
            return result;
        }
        // The caller will own the descriptor: so it has to be an open one of its own.
        let number = placeholder()?.into_raw_fd();
        self.handles.new_of(number);
        Ok(number as usize)
    }

    /// Notes a new descriptor.
    pub fn new_descriptor(&mut self, descriptor: RawFd) {
        self.handles.new_of(descriptor);
    }

    /// The recorded extents of a file.
    pub fn extents(&mut self, at: Extent) -> Vec<ExtentState> {
        match self.next.take() {
            Some(Record::Extents { at: recorded, states }) if recorded == at && covers(&states, at) => {
                self.read();
                states
            }
            None => {
                self.ended = true;
                Vec::new()
            }
            Some(recorded) => {
                self.diverge(&format!(
                    "found a query for the extents of {at}, expected {}",
                    recorded.describe()
                ));
                Vec::new()
            }
        }
    }

    /// The recorded observation; empty if the run diverges.
    pub fn observed(&mut self) -> Vec<u8> {
        match self.next.take() {
            Some(Record::Observed(observed)) => {
                self.read();
                observed
            }
            None => {
                self.ended = true;
                Vec::new()
            }
            Some(recorded) => {
                self.diverge(&format!(
                    "found an observation of the system, expected {}",
                    recorded.describe()
                ));
                Vec::new()
            }
        }
    }

    /// The next step of a turn; `op` gives the operation of the job in a slot, and the length of its memory.
    pub fn step(&mut self, op: impl FnOnce(usize) -> Option<(Op, usize)>) -> Step {
        if self.ended {
            return Step::Over(self.outcome.time);
        }
        match self.next.take() {
            Some(Record::Completed { job, completion }) => {
                self.read();
                let key = self.keys.remove(&job);
                let Some((key, (op, len))) = key.and_then(|key| Some((key, op(key)?))) else {
                    self.diverge(&format!("found no job {job} in flight, expected one"));
                    return Step::Over(self.outcome.time);
                };
                let result = self.result(&completion, op, len);
                if self.ended {
                    return Step::Over(self.outcome.time);
                }
                Step::Completed { key, completion, result }
            }
            Some(Record::Turn(time)) => {
                self.read();
                self.outcome.turns += 1;
                if Nanos(time) < self.outcome.time || time > LATEST {
                    self.diverge(&format!("found the time {time} ns, which cannot come next"));
                    return Step::Over(self.outcome.time);
                }
                self.outcome.time = Nanos(time);
                Step::Turned(self.outcome.time)
            }
            None => {
                self.ended = true;
                Step::Over(self.outcome.time)
            }
            Some(recorded) => {
                self.diverge(&format!("found nothing more to do, expected {}", recorded.describe()));
                Step::Over(self.outcome.time)
            }
        }
    }

    /// Checks the end of the run, with the hash of its events.
    pub fn end(&mut self, hash: u64) {
        match self.next.take() {
            _ if self.ended => {}
            Some(Record::End(recorded)) if recorded == hash => self.outcome.ended = Some(hash),
            Some(Record::End(recorded)) => {
                self.diverge(&format!("found events with the hash {hash:016x}, expected {recorded:016x}"));
            }
            Some(recorded) => {
                self.diverge(&format!("found the end of the run, expected {}", recorded.describe()));
            }
            None => {}
        }
    }
}

/// Whether consecutive states cover an extent.
fn covers(states: &[ExtentState], at: Extent) -> bool {
    let end = states.iter().try_fold(at.start.0, |next, state| {
        let fits = state.extent.start.0 == next && state.extent.sectors > 0;
        fits.then(|| next.checked_add(state.extent.sectors)).flatten()
    });
    end == at.start.0.checked_add(at.sectors)
}

/// A descriptor that stands for a file or socket in a replay.
pub fn placeholder() -> io::Result<OwnedFd> {
    File::open("/dev/null").map(Into::into)
}
