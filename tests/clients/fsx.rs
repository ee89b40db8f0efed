//! A file load like that of fsx: reads and writes, also by mapping the file, truncations, holes, zeroes, ranges that
//! are collapsed and inserted, all at random places from a seed, each read compared with a copy in memory. So the
//! effect of a single wrong, late answer of a volume on a file system becomes visible.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::server::skipped;

/// Largest file.
const LONGEST: u64 = 1 << 20;
/// Largest operation.
const MOST: u64 = 64 << 10;
/// Largest read of a mapped file.
const MAPPED: u64 = 8 << 10;
/// Unit in which file systems collapse and insert ranges.
const BLOCK: u64 = 4096;

/// A file, and its expected contents.
pub struct Load {
    path: PathBuf,
    file: File,
    content: Vec<u8>,
    state: u64,
    turn: u64,
}

impl Load {
    /// A new and empty file; the load follows from the seed.
    pub fn new(path: &Path, seed: u64) -> Result<Load> {
        let file = open(path, true)?;
        let state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Ok(Load { path: path.to_owned(), file, content: Vec::new(), state, turn: 0 })
    }

    /// Closes the file; its contents that have to be there from now on.
    pub fn end(self) -> Expected {
        Expected { path: self.path, content: self.content }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below.max(1)
    }

    /// A range of the file, or of its possible size.
    fn part(&mut self, end: u64) -> (u64, u64) {
        let start = self.random(end);
        (start, (1 + self.random(MOST)).min(end - start))
    }

    /// The next operation.
    ///
    /// # Errors
    /// An error of the system, as of a device that is gone.
    ///
    /// # Panics
    /// If a read returns wrong data.
    pub fn step(&mut self) -> Result<()> {
        self.turn += 1;
        let len = self.content.len() as u64;
        match self.random(17) {
            0..=4 => self.write()?,
            5..=8 if len > 0 => self.read()?,
            9 => {
                let len = self.random(LONGEST);
                self.file.set_len(len)?;
                self.content.resize(len as usize, 0);
            }
            10 | 11 if len > 0 => self.zero(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)?,
            12 if len > 0 => self.zero(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE)?,
            13 if len > 2 * BLOCK => self.cut_or_put()?,
            14 if self.turn % 3 == 0 => self.sync()?,
            // The next read comes from the device.
            15 => {
                self.sync()?;
                self.file = open(&self.path, false)?;
                fadvise(&self.file, 0, None, Advice::DontNeed)?;
            }
            16 if len > 0 => self.mapped()?,
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let (start, len) = self.part(LONGEST);
        let value = self.random(u64::MAX).to_le_bytes();
        let bytes: Vec<u8> = (0..len as usize).map(|at| value[at % 8] ^ (at / 8) as u8).collect();
        self.file.write_all_at(&bytes, start)?;
        let end = (start + len) as usize;
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[start as usize..end].copy_from_slice(&bytes);
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let (start, len) = self.part(self.content.len() as u64);
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        let expected = &self.content[start as usize..(start + len) as usize];
        let wrong = bytes.iter().zip(expected).position(|(found, expected)| found != expected);
        let (path, turn) = (self.path.display(), self.turn);
        assert_eq!(wrong.map(|at| start + at as u64), None, "{path}: turn {turn} reads what was not written");
        Ok(())
    }

    /// Writes a range by mapping the file, and reads it and its surroundings so; by `xfs_io`, which needs no xfs.
    fn mapped(&mut self) -> Result<()> {
        static MISSING: Once = Once::new();
        let (start, len) = self.part(self.content.len() as u64);
        let value = self.random(256) as u8;
        let from = start.saturating_sub(100);
        let end = (start + len + 100).min(self.content.len() as u64).min(from + MAPPED);
        let mut command = Command::new("xfs_io");
        for line in [
            format!("mmap -rw 0 {}", self.content.len()),
            format!("mwrite -S {value} {start} {len}"),
            format!("mread -v {from} {}", end - from),
            "msync -s".to_owned(),
        ] {
            command.args(["-c", &line]);
        }
        let output = match command.arg(&self.path).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                MISSING.call_once(|| skipped("xfs_io", "it is not installed: no file is mapped"));
                return Ok(());
            }
            output => output?,
        };
        // A device that is gone ends it by a signal, or with a message.
        if !output.status.success() || !output.stderr.is_empty() {
            return Err(std::io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        self.content[start as usize..(start + len) as usize].fill(value);
        let report = String::from_utf8_lossy(&output.stdout);
        // Rows of an address, bytes in hexadecimal digits, two spaces, and letters.
        let rows = report.lines().filter_map(|line| line.split_once(":  ")?.1.split("  ").next());
        let bytes = rows.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let found: Vec<u8> = bytes.collect();
        let (path, turn) = (self.path.display(), self.turn);
        let expected = &self.content[from as usize..end as usize];
        assert!(found == expected, "{path}: turn {turn} maps what was not written");
        Ok(())
    }

    fn zero(&mut self, how: FallocateFlags) -> Result<()> {
        let (start, len) = self.part(self.content.len() as u64);
        if knows(fallocate(&self.file, how, start, len))? {
            self.content[start as usize..(start + len) as usize].fill(0);
        }
        Ok(())
    }

    /// Collapses blocks of the file, or inserts zeroes.
    fn cut_or_put(&mut self) -> Result<()> {
        let blocks = self.content.len() as u64 / BLOCK;
        let start = self.random(blocks - 1);
        let len = (1 + self.random(8)).min(blocks - start - 1);
        let (from, bytes) = ((start * BLOCK) as usize, (len * BLOCK) as usize);
        if bytes == 0 {
            return Ok(());
        }
        let (start, len) = (start * BLOCK, len * BLOCK);
        if self.random(2) == 0 {
            if knows(fallocate(&self.file, FallocateFlags::COLLAPSE_RANGE, start, len))? {
                self.content.drain(from..from + bytes);
            }
        } else if self.content.len() + bytes <= LONGEST as usize
            && knows(fallocate(&self.file, FallocateFlags::INSERT_RANGE, start, len))?
        {
            self.content.splice(from..from, std::iter::repeat_n(0, bytes));
        }
        Ok(())
    }

    /// Syncs it.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all()
    }
}

/// The expected contents of a file.
pub struct Expected {
    path: PathBuf,
    content: Vec<u8>,
}

impl Expected {
    /// Checks that they are there.
    ///
    /// # Panics
    /// If they are not.
    pub fn is_there(&self) {
        let path = self.path.display();
        let found = std::fs::read(&self.path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(found.len(), self.content.len(), "{path} has another length");
        let wrong = found.iter().zip(&self.content).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "{path} has something else there");
    }
}

fn open(path: &Path, new: bool) -> Result<File> {
    OpenOptions::new().read(true).write(true).create(new).truncate(new).open(path)
}

/// Whether the file system supports that.
fn knows(done: rustix::io::Result<()>) -> Result<bool> {
    match done.map_err(std::io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(error),
    }
}
