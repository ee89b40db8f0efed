//! The client's half of the codec: fixed newstyle, `GO`, compact requests and simple replies.

use serde::{Deserialize, Serialize};

use super::constants as c;
use super::{Command, u16_at, u32_at, u64_at};

/// What a server told of the export that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Its size.
    pub bytes: u64,
    /// `NBD_FLAG_*`.
    pub flags: u16,
    /// The smallest, the preferred and the largest request, if the server said so.
    pub blocks: Option<[u32; 3]>,
}

/// What a server says to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Something of the export; there is more.
    Told,
    /// Requests may begin.
    Ready,
    /// It refuses, for this reason.
    Refused(String),
}

/// Whether 18 bytes are the greeting of a server that can be talked to.
pub fn greets(bytes: &[u8]) -> bool {
    let magic = (u64_at(bytes, 0), u64_at(bytes, 8)) == (Some(c::NBDMAGIC), Some(c::IHAVEOPT));
    magic && u16_at(bytes, 16).is_some_and(|flags| flags & c::FLAG_FIXED_NEWSTYLE != 0)
}

/// What a client says first: that it wants this export, and to be told of its blocks.
pub fn go(export: &str) -> Vec<u8> {
    let mut out = (c::FLAG_C_FIXED_NEWSTYLE | c::FLAG_C_NO_ZEROES).to_be_bytes().to_vec();
    out.extend(c::IHAVEOPT.to_be_bytes());
    out.extend(c::OPT_GO.to_be_bytes());
    out.extend((export.len() as u32 + 8).to_be_bytes());
    out.extend((export.len() as u32).to_be_bytes());
    out.extend(export.as_bytes());
    out.extend(1_u16.to_be_bytes());
    out.extend(c::INFO_BLOCK_SIZE.to_be_bytes());
    out
}

/// The kind of a reply to an option and the length of its data, from its header of 20 bytes.
pub fn option_reply(header: &[u8]) -> Option<(u32, usize)> {
    let kind = u32_at(header, 12)?;
    (u64_at(header, 0)? == c::OPTION_REPLY_MAGIC).then_some((kind, u32_at(header, 16)? as usize))
}

/// What a reply to `GO` says, noted in `told`.
pub fn said(kind: u32, data: &[u8], told: &mut Told) -> Said {
    match kind {
        c::REP_ACK => Said::Ready,
        c::REP_INFO => {
            match u16_at(data, 0) {
                Some(c::INFO_EXPORT) => {
                    told.bytes = u64_at(data, 2).unwrap_or(0);
                    told.flags = u16_at(data, 10).unwrap_or(0);
                }
                Some(c::INFO_BLOCK_SIZE) => {
                    let sizes = [2, 6, 10].map(|at| u32_at(data, at).unwrap_or(0));
                    told.blocks = Some(sizes).filter(|sizes| !sizes.contains(&0));
                }
                _ => {}
            }
            Said::Told
        }
        _ => Said::Refused(String::from_utf8_lossy(data).into_owned()),
    }
}

/// Puts a request without its payload behind `out`.
pub fn ask(out: &mut Vec<u8>, command: Command, flags: u16, cookie: u64, offset: u64, length: u32) {
    let number = match command {
        Command::Read => c::CMD_READ,
        Command::Write => c::CMD_WRITE,
        Command::Disconnect => c::CMD_DISC,
        Command::Flush => c::CMD_FLUSH,
        Command::Trim => c::CMD_TRIM,
        Command::Cache => c::CMD_CACHE,
        Command::WriteZeroes => c::CMD_WRITE_ZEROES,
        Command::BlockStatus => c::CMD_BLOCK_STATUS,
        Command::Unknown(number) => number,
    };
    out.extend(c::REQUEST_MAGIC.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(number.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(length.to_be_bytes());
}

/// The cookie and the error of a simple reply of 16 bytes; `None` if it is none.
pub fn simple_reply(bytes: &[u8]) -> Option<(u64, u32)> {
    let reply = (u64_at(bytes, 8)?, u32_at(bytes, 4)?);
    (u32_at(bytes, 0)? == c::SIMPLE_REPLY_MAGIC).then_some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::{Encryption, Export, GREETING, Handshake, Replies, Step, Style, request};

    #[test]
    fn client_and_server_understand_each_other() {
        let export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            bytes: 1 << 30,
            flags: 5,
            smallest: 512,
            preferred: 4096,
            largest: 1 << 25,
            contexts: Vec::new(),
        };
        assert!(greets(&GREETING));
        let exports = [export];
        for (name, found) in [("disk", true), ("", true), ("other", false)] {
            let mut out = Vec::new();
            let (_, step) = Handshake::new(&exports, Encryption::None).feed(&go(name), &mut out);
            assert_eq!(matches!(step, Step::Serve(_)), found);
            let (mut told, mut at, mut last) = (Told::default(), 0, Said::Told);
            while at < out.len() {
                let (kind, length) = option_reply(&out[at..]).unwrap();
                last = said(kind, &out[at + 20..at + 20 + length], &mut told);
                at += 20 + length;
            }
            let all = Told { bytes: 1 << 30, flags: 5, blocks: Some([512, 4096, 1 << 25]) };
            assert_eq!((last == Said::Ready, told), (found, if found { all } else { Told::default() }));
        }
        let mut out = Vec::new();
        ask(&mut out, Command::Read, 0, 7, 4096, 512);
        let (read, header) = request(&out, false).unwrap().unwrap();
        assert_eq!(
            (read.command, read.cookie, read.offset, read.length, header),
            (Command::Read, 7, 4096, 512, 28)
        );
        let mut out = Vec::new();
        Replies(Style::Simple).done(&mut out, 7);
        assert_eq!(simple_reply(&out), Some((7, 0)));
    }
}
