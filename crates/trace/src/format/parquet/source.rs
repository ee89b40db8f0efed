//! A Parquet file with random access: the file itself, or a copy of a stream.
//!
//! Invariant: reads are checked against the length, so that a damaged length allocates nothing.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::MAGIC;

/// The bytes of a file.
pub struct Source {
    file: File,
    length: u64,
}

impl Source {
    /// The file at `path`, if it is one; for a stream, or a compressed file, a temporary copy of `content`.
    pub fn open(path: Option<&Path>, content: &mut dyn Read) -> io::Result<Source> {
        if let Some(path) = path {
            let mut file = File::open(path)?;
            let metadata = file.metadata()?;
            let mut magic = [0; MAGIC.len()];
            if metadata.is_file() && file.read_exact(&mut magic).is_ok() && magic == *MAGIC {
                return Ok(Source { file, length: metadata.len() });
            }
        }
        let mut file = tempfile::tempfile()?;
        let length = io::copy(content, &mut file)?;
        Ok(Source { file, length })
    }

    fn from(&self, start: u64, length: u64) -> Result<File> {
        if start.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes at byte {start} of {}", self.length)));
        }
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Source {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<BufReader<File>> {
        self.from(start, 0).map(BufReader::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut file = self.from(start, length as u64)?;
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}
