//! Gives a run the inputs of a file, and looks whether it asks for what was asked for then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::task::Waker;

use seekless_core::device::ExtentState;
use seekless_core::{Extent, Nanos};

use super::handles::Handles;
use super::record::{Record, Told, beginning, next_frame};
use crate::reactor::{Job, Kind, What};

/// No run lasts longer, in nanoseconds: 292 years.
const LATEST: u64 = u64::MAX / 2;

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Turns of the reactor.
    pub turns: u64,
    /// Jobs that were asked for as they were then.
    pub jobs: u64,
    /// Of them, those of components: files and other servers are all but sockets that clients came by.
    pub of_files: u64,
    /// Virtual time at the end.
    pub time: Nanos,
    /// A digest of the jobs.
    pub digest: u64,
    /// The hash of all events of the run, if it came to its end.
    pub ended: Option<u64>,
    /// Where it first departed from the file, or where that is damaged.
    pub departed: Option<String>,
}

/// What comes next in a turn.
pub enum Step {
    /// A job is answered.
    Answered {
        /// In which slot.
        key: usize,
        /// What it read.
        told: Told,
        /// What became of it.
        result: io::Result<usize>,
    },
    /// The turn is over.
    Turned(Nanos),
    /// There is no more.
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
    /// The slots of the jobs that were not answered, by their numbers.
    keys: BTreeMap<u64, usize>,
    found: Replayed,
    pub(in crate::reactor) over: bool,
    pub(in crate::reactor) waker: Option<Waker>,
}

impl Replayer {
    /// Opens a file, and its text; the run had a reactor of the kind that `kind` finds there.
    pub fn open<T>(
        path: &Path,
        text: impl FnOnce(&str) -> Result<(T, Kind), String>,
    ) -> Result<(Replayer, T), String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        Replayer::over(BufReader::new(file), text)
    }

    /// The same for a file that is read by `file`.
    pub fn over<T>(
        mut file: impl Read + 'static,
        text: impl FnOnce(&str) -> Result<(T, Kind), String>,
    ) -> Result<(Replayer, T), String> {
        let (told, kind) = text(&beginning(&mut file)?)?;
        let mut replayer = Replayer {
            file: Box::new(file),
            frame: Vec::new(),
            at: 0,
            next: None,
            kind,
            handles: Handles::default(),
            keys: BTreeMap::new(),
            found: Replayed::default(),
            over: false,
            waker: None,
        };
        replayer.read();
        Ok((replayer, told))
    }

    /// How the jobs got to the kernel then.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was found so far.
    pub fn found(&self) -> Replayed {
        self.found.clone()
    }

    /// Goes to the next record.
    fn read(&mut self) {
        self.next = None;
        while self.at == self.frame.len() {
            match next_frame(&mut self.file) {
                Ok(Some(frame)) => (self.frame, self.at) = (frame, 0),
                Ok(None) => return,
                Err(why) => return self.depart(&why),
            }
        }
        let mut rest = &self.frame[self.at..];
        self.next = Record::take(&mut rest);
        self.at = self.frame.len() - rest.len();
        if self.next.is_none() {
            self.depart("found no record where one should begin");
        }
    }

    fn depart(&mut self, why: &str) {
        let (turn, job) = (self.found.turns, self.found.jobs);
        self.found.departed.get_or_insert_with(|| format!("turn {turn}, job {job}: {why}"));
        self.over = true;
    }

    /// A job is asked for, the `number`-th; what became of it, if that was known at once.
    pub fn start(&mut self, key: usize, number: u64, job: &mut Job) -> Option<io::Result<usize>> {
        let handle = self.handles.of(job.to.as_raw_fd());
        let asked = Record::asked(job, handle);
        if self.over {
            return None;
        }
        match self.next.take() {
            Some(then) if then == asked => {}
            // It was cut short here.
            None => {
                self.over = true;
                return None;
            }
            Some(then) => {
                self.depart(&format!("found {}, expected {}", asked.line(), then.line()));
                return None;
            }
        }
        self.found.jobs += 1;
        self.found.of_files += u64::from(!job.what.is_of_socket());
        let mut bytes = Vec::new();
        asked.put(&mut bytes);
        self.found.digest = u64::from(crc32c::crc32c(&bytes)) ^ self.found.digest.rotate_left(23);
        self.found.digest = self.found.digest.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.read();
        if matches!(self.next, Some(Record::AtOnce(_))) {
            let Some(Record::AtOnce(told)) = self.next.take() else { return None };
            self.read();
            let result = self.result(&told, job.what, job.memory.part().len());
            if self.over {
                return None;
            }
            self.fill(&told, job);
            return Some(result);
        }
        self.keys.insert(number, key);
        None
    }

    /// Puts what was read then into a job's memory.
    pub fn fill(&mut self, told: &Told, job: &mut Job) {
        job.memory.part_mut()[..told.data.len()].copy_from_slice(&told.data);
    }

    /// What became of a job with so many bytes of memory; it departs if that cannot be.
    fn result(&mut self, told: &Told, what: What, len: usize) -> io::Result<usize> {
        let result = told.result();
        let moved = *result.as_ref().unwrap_or(&0);
        let (most, data) = match what {
            What::Read(_) | What::Receive => (len, moved),
            What::Write(_) | What::WriteThrough(_) | What::Send => (len, 0),
            What::Sync | What::Punch { .. } | What::Zero { .. } | What::Accept => (usize::MAX, 0),
        };
        if moved > most || told.data.len() != data {
            let found = told.data.len();
            self.depart(&format!("found {moved} bytes done of {len}, and {found} bytes of data for it"));
            return Err(io::ErrorKind::InvalidData.into());
        }
        if what != What::Accept || result.is_err() {
            return result;
        }
        // Whoever gets it owns it: so it is one that is open and nobody else's.
        let number = stand_in()?.into_raw_fd();
        self.handles.new_of(number);
        Ok(number as usize)
    }

    /// A descriptor was not there before.
    pub fn is_new(&mut self, descriptor: RawFd) {
        self.handles.new_of(descriptor);
    }

    /// What a file held then.
    pub fn looked(&mut self, at: Extent) -> Vec<ExtentState> {
        match self.next.take() {
            Some(Record::Looked { at: then, found }) if then == at && covers(&found, at) => {
                self.read();
                found
            }
            None => {
                self.over = true;
                Vec::new()
            }
            Some(then) => {
                self.depart(&format!("found a look at what {at} holds, expected {}", then.line()));
                Vec::new()
            }
        }
    }

    /// What was found out then; nothing where the run departs.
    pub fn found_out(&mut self) -> Vec<u8> {
        match self.next.take() {
            Some(Record::Found(found)) => {
                self.read();
                found
            }
            None => {
                self.over = true;
                Vec::new()
            }
            Some(then) => {
                self.depart(&format!("found something asked of the world, expected {}", then.line()));
                Vec::new()
            }
        }
    }

    /// What comes next in a turn; `what` knows what the job in a slot is, and how many bytes of memory it has.
    pub fn step(&mut self, what: impl FnOnce(usize) -> Option<(What, usize)>) -> Step {
        if self.over {
            return Step::Over(self.found.time);
        }
        match self.next.take() {
            Some(Record::Answered { job, told }) => {
                self.read();
                let key = self.keys.remove(&job);
                let Some((key, (what, len))) = key.and_then(|key| Some((key, what(key)?))) else {
                    self.depart(&format!("found no job {job} under way, expected one"));
                    return Step::Over(self.found.time);
                };
                let result = self.result(&told, what, len);
                if self.over {
                    return Step::Over(self.found.time);
                }
                Step::Answered { key, told, result }
            }
            Some(Record::Turn(time)) => {
                self.read();
                self.found.turns += 1;
                if Nanos(time) < self.found.time || time > LATEST {
                    self.depart(&format!("found the time {time} ns, which cannot come next"));
                    return Step::Over(self.found.time);
                }
                self.found.time = Nanos(time);
                Step::Turned(self.found.time)
            }
            None => {
                self.over = true;
                Step::Over(self.found.time)
            }
            Some(then) => {
                self.depart(&format!("found nothing more to do, expected {}", then.line()));
                Step::Over(self.found.time)
            }
        }
    }

    /// The run is over; the hash of its events.
    pub fn end(&mut self, hash: u64) {
        match self.next.take() {
            _ if self.over => {}
            Some(Record::End(then)) if then == hash => self.found.ended = Some(hash),
            Some(Record::End(then)) => {
                self.depart(&format!("found events with the hash {hash:016x}, expected {then:016x}"));
            }
            Some(then) => self.depart(&format!("found the end of the run, expected {}", then.line())),
            None => {}
        }
    }
}

/// Whether these states are of all of an extent, one behind the other.
fn covers(found: &[ExtentState], at: Extent) -> bool {
    let end = found.iter().try_fold(at.start.0, |next, state| {
        let fits = state.extent.start.0 == next && state.extent.sectors > 0;
        fits.then(|| next.checked_add(state.extent.sectors)).flatten()
    });
    end == at.start.0.checked_add(at.sectors)
}

/// A descriptor of its own that nothing is behind: for files and sockets, which are not there in a replay.
pub fn stand_in() -> io::Result<OwnedFd> {
    File::open("/dev/null").map(Into::into)
}
