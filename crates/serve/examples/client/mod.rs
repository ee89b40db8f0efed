//! A client for the examples that measure a server: it negotiates and composes requests.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use seekless_serve::nbd::Command;
use seekless_serve::nbd::client::{
    ExportInfo, OptionReply, ask, choose, flags, option_reply, parse_option_reply, structured,
};

/// Negotiates as current clients do: `GO` with the block sizes, and structured replies if `chunks`.
pub fn agree(socket: &mut UnixStream, export: &str, chunks: bool) -> Result<(), Box<dyn Error>> {
    socket.read_exact(&mut [0; 18])?;
    socket.write_all(&flags())?;
    if chunks {
        answered(socket, &structured())?;
    }
    answered(socket, &choose(export))
}

/// Sends an option, and reads its replies.
fn answered(socket: &mut UnixStream, option: &[u8]) -> Result<(), Box<dyn Error>> {
    socket.write_all(option)?;
    let mut message = ExportInfo::default();
    loop {
        let mut header = [0; 20];
        socket.read_exact(&mut header)?;
        let (kind, length) = option_reply(&header).ok_or("no answer to an option")?;
        let mut data = vec![0; length];
        socket.read_exact(&mut data)?;
        match parse_option_reply(kind, &data, &mut message) {
            OptionReply::Info => {}
            OptionReply::Ready => return Ok(()),
            OptionReply::Refused(why) => return Err(why.into()),
        }
    }
}

/// Appends a request of `data`'s length to `out`: a write of it, or a read.
pub fn request(out: &mut Vec<u8>, command: Command, cookie: u64, offset: u64, data: &[u8]) {
    ask(out, command, 0, cookie, offset, data.len() as u32);
    if command == Command::Write {
        out.extend(data);
    }
}
