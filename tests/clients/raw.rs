//! A client of our own, for behaviour that no correct client has: it sends any bytes, and waits for given ones.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const FUA: u16 = 1;

/// A connection.
pub struct Raw<S = UnixStream> {
    pub socket: S,
}

impl Raw {
    /// Connects, and takes the greeting.
    pub fn connect(folder: &Path) -> Raw {
        let socket = UnixStream::connect(folder.join("socket")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Raw::over(socket)
    }

    /// As above, and goes on to the requests of an export, by the old negotiation: with simple replies.
    pub fn open(folder: &Path, export: &str) -> Raw {
        let mut raw = Raw::connect(folder);
        raw.send(&3_u32.to_be_bytes()).unwrap();
        raw.option(1, export.as_bytes()).unwrap();
        raw.take(10).unwrap();
        raw
    }

    /// As before, with the newer negotiation, and with block sizes.
    pub fn with_block_sizes(folder: &Path, export: &str) -> Raw {
        let mut raw = Raw::connect(folder);
        raw.begin(export).unwrap();
        raw
    }
}

impl<S: Read + Write> Raw<S> {
    /// Over a stream, of which it takes the greeting.
    pub fn over(socket: S) -> Raw<S> {
        let mut raw = Raw { socket };
        assert_eq!(&raw.take(18).unwrap()[..16], b"NBDMAGICIHAVEOPT");
        raw
    }

    /// Goes on to the requests of an export, and gets the block sizes; or the code of the refusal.
    pub fn begin(&mut self, export: &str) -> std::result::Result<(), String> {
        self.send(&3_u32.to_be_bytes()).unwrap();
        let name = [&(export.len() as u32).to_be_bytes(), export.as_bytes()].concat();
        self.option(7, &[&name[..], &[0, 1, 0, 3]].concat()).unwrap();
        loop {
            match self.option_reply().unwrap() {
                (1, _) => return Ok(()),
                (kind, why) if kind >> 31 == 1 => return Err(String::from_utf8_lossy(&why).into_owned()),
                _ => {}
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes)
    }

    pub fn take(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn option(&mut self, option: u32, data: &[u8]) -> Result<()> {
        let header = [b"IHAVEOPT", &option.to_be_bytes()[..], &(data.len() as u32).to_be_bytes()].concat();
        self.send(&[&header, data].concat())
    }

    /// The answer to an option: its kind, and its data.
    pub fn option_reply(&mut self) -> Result<(u32, Vec<u8>)> {
        let header = self.take(20)?;
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        Ok((number(12), self.take(number(16) as usize)?))
    }

    pub fn ask(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Result<()> {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.send(&bytes)
    }

    /// A simple reply's cookie and error.
    pub fn reply(&mut self) -> Result<(u64, u32)> {
        let bytes = self.take(16)?;
        assert_eq!(bytes[..4], 0x6744_6698_u32.to_be_bytes(), "a reply begins here");
        let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(bytes[8..16].try_into().unwrap()), error))
    }

    pub fn write(&mut self, flags: u16, offset: u64, bytes: &[u8]) -> Result<u32> {
        self.ask(WRITE, flags, 1, offset, bytes.len() as u32)?;
        self.send(bytes)?;
        Ok(self.reply()?.1)
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>> {
        self.ask(READ, 0, 2, offset, length)?;
        match self.reply()? {
            (_, 0) => self.take(length as usize),
            (_, error) => panic!("a read fails with {error}"),
        }
    }

    pub fn flush(&mut self) -> Result<u32> {
        self.ask(FLUSH, 0, 3, 0, 0)?;
        Ok(self.reply()?.1)
    }
}
