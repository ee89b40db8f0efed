//! The file of a recording.
//!
//! Invariants: it is created new, never followed through a link, and never grows past its limit; a record is in it
//! whole or not at all, except on a full disk. Records are numbered per CPU, as `blktrace` numbers them.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::encode::{category, process_note, set_sequence, timestamp_note, what};
use crate::error::RecordError;
use crate::names::Names;
use crate::order::{Item, Kind};

/// Bytes buffered before a write.
const BUFFER_BYTES: usize = 256 << 10;

/// The output file and its counts.
pub struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    device: u32,
    names: Names,
    sequences: FxHashMap<u32, u32>,
    limit: u64,
    /// Size.
    pub bytes: u64,
    /// Block events.
    pub events: u64,
    /// Queued requests.
    pub requests: u64,
    /// Names.
    pub noted: u64,
    /// Whether a record did not fit.
    pub full: bool,
}

/// Checks early whether the file can be created.
pub fn expect_possible(path: &Path, force: bool) -> Result<(), RecordError> {
    let wrong = |found: &str, expected| RecordError::Output {
        file: path.to_owned(),
        found: found.to_owned(),
        expected,
    };
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(wrong("something that is no file", "a new file, or a file with --force"))
        }
        Ok(_) if !force => Err(wrong("a file of that name", "none; --force overwrites it")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_none_or(Path::is_dir) {
                Ok(())
            } else {
                Err(wrong("no such folder", "a folder that is there"))
            }
        }
        Err(error) => Err(RecordError::io(path, "looking at it", error)),
    }
}

impl Output {
    /// Creates the file.
    pub fn create(path: &Path, force: bool, device: u32, limit: u64) -> Result<Output, RecordError> {
        expect_possible(path, force)?;
        if force {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(RecordError::io(path, "replacing it", error));
                }
                _ => {}
            }
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| RecordError::io(path, "making it", error))?;
        Ok(Output {
            path: path.to_owned(),
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            device,
            names: Names::default(),
            sequences: FxHashMap::default(),
            limit,
            bytes: 0,
            events: 0,
            requests: 0,
            noted: 0,
            full: false,
        })
    }

    /// Names of threads when the recording begins.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Writes a note of the wall clock.
    pub fn wall_clock(&mut self, time_ns: u64, seconds: u32, nanoseconds: u32) -> Result<(), RecordError> {
        let note = timestamp_note(self.device, time_ns, seconds, nanoseconds);
        self.put(&[&note])
    }

    /// Writes an event, after its process's name if the file does not have it yet.
    pub fn happened(&mut self, item: Item) -> Result<(), RecordError> {
        match item.kind {
            Kind::Named(pid, name) => self.names.rename(pid, name),
            Kind::Block { action, pid, cpu, mut record } if !self.full => {
                // The thread that runs at a completion is not its origin: only issuers are named.
                let asks = action & category::COMPLETE == 0;
                let name = if asks { self.names.to_note(pid) } else { None };
                let note = name.map(|name| process_note(self.device, item.time_ns, cpu, pid, name));
                let sequence = self.sequences.entry(cpu).or_insert(0);
                *sequence = sequence.wrapping_add(1);
                set_sequence(&mut record, *sequence);
                self.put(&[note.as_deref().unwrap_or_default(), &record])?;
                if !self.full {
                    self.noted += u64::from(note.is_some());
                    self.events += 1;
                    let queued = action & 0xff == what::QUEUED && action & category::NOTE == 0;
                    self.requests += u64::from(queued);
                }
            }
            Kind::Block { .. } => {}
        }
        Ok(())
    }

    /// Writes these together, or none of them if they do not fit.
    fn put(&mut self, pieces: &[&[u8]]) -> Result<(), RecordError> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if self.bytes + bytes > self.limit {
            self.full = true;
            return Ok(());
        }
        for piece in pieces {
            self.file.write_all(piece).map_err(|error| RecordError::io(&self.path, "writing", error))?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Writes the buffer out.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        self.file.flush().map_err(|error| RecordError::io(&self.path, "writing", error))
    }

    /// As `flush`, and makes the file durable.
    pub fn finish(&mut self) -> Result<(), RecordError> {
        self.flush()?;
        self.file
            .get_ref()
            .sync_all()
            .map_err(|error| RecordError::io(&self.path, "making it durable", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{self, HEADER_BYTES, NAME_BYTES, name};

    fn place(of: &str) -> PathBuf {
        std::env::temp_dir().join(format!("seekless-output-{}-{of}", std::process::id()))
    }

    fn queued(time_ns: u64, pid: u32) -> Item {
        let header = encode::Header { time_ns, action: what::QUEUED, pid, ..encode::Header::default() };
        let kind = Kind::Block { action: header.action, pid, cpu: 0, record: encode::record(&header, b"") };
        Item { time_ns, kind }
    }

    #[test]
    fn a_name_is_written_before_its_first_request_and_the_file_stays_in_its_limit() {
        let path = place("limit");
        let limit = 4 * HEADER_BYTES + NAME_BYTES;
        let mut output = Output::create(&path, false, 7, limit as u64).unwrap();
        output.names().rename(1, name(b"dd"));
        for time in 1..9 {
            output.happened(queued(time, 1)).unwrap();
        }
        output.finish().unwrap();
        assert_eq!((output.full, output.events, output.requests, output.noted), (true, 3, 3, 1));
        let written = fs::read(&path).unwrap();
        assert_eq!((written.len(), output.bytes), (limit, limit as u64));
        assert_eq!(written[..HEADER_BYTES + NAME_BYTES], *process_note(7, 1, 0, 1, name(b"dd")));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_by_force_and_a_link_never() {
        let path = place("there");
        fs::write(&path, "precious").unwrap();
        let refused = Output::create(&path, false, 7, 1).err().unwrap().to_string();
        assert!(refused.contains("--force"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        Output::create(&path, true, 7, 1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        let link = place("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Output::create(&link, true, 7, 1).is_err());
        assert!(expect_possible(Path::new("/nonexistent/trace"), false).is_err());
        fs::remove_file(link).unwrap();
        fs::remove_file(path).unwrap();
    }
}
