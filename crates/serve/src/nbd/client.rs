//! The client's half of the codec: fixed newstyle, structured replies where the server has them, one context of block
//! status, `GO`, and compact requests.

use serde::{Deserialize, Serialize};

use super::constants as c;
use super::{Command, Context, u16_at, u32_at, u64_at};

/// An export as the server describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportInfo {
    /// Size in bytes.
    pub bytes: u64,
    /// `NBD_FLAG_*`.
    pub flags: u16,
    /// Smallest, preferred and largest request in bytes, if the server sent them.
    pub blocks: Option<[u32; 3]>,
    /// Whether replies are structured.
    #[serde(default)]
    pub structured: bool,
    /// Number of the context `base:allocation`, if block status is available.
    #[serde(default)]
    pub allocation: Option<u32>,
}

impl ExportInfo {
    /// Whether the export is read-only.
    pub fn is_read_only(&self) -> bool {
        self.flags & c::FLAG_READ_ONLY != 0
    }

    /// Whether requests that were right for `before` are right for this export too: it has the same size, the same
    /// durability, and at least its commands and its range of request sizes.
    pub fn can_replace(&self, before: &ExportInfo) -> bool {
        const SAME: u16 = c::FLAG_READ_ONLY | c::FLAG_SEND_FLUSH;
        const COMMANDS: u16 = c::FLAG_SEND_FUA
            | c::FLAG_SEND_TRIM
            | c::FLAG_SEND_WRITE_ZEROES
            | c::FLAG_SEND_CACHE
            | c::FLAG_SEND_FAST_ZERO;
        let takes = match (self.blocks, before.blocks) {
            (Some([least, _, most]), Some([least_before, _, most_before])) => {
                least <= least_before && most >= most_before
            }
            (now, before) => now == before,
        };
        takes
            && self.bytes == before.bytes
            && (self.flags ^ before.flags) & SAME == 0
            && before.flags & COMMANDS & !self.flags == 0
            && self.structured == before.structured
            && self.allocation.is_some() >= before.allocation.is_some()
    }
}

/// A server's reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionReply {
    /// Information; more replies follow.
    Info,
    /// The option is accepted.
    Ready,
    /// The option is refused, for this reason.
    Refused(String),
}

/// Whether 18 bytes are the greeting of a server with fixed newstyle.
pub fn is_greeting(bytes: &[u8]) -> bool {
    let magic = (u64_at(bytes, 0), u64_at(bytes, 8)) == (Some(c::NBDMAGIC), Some(c::IHAVEOPT));
    magic && u16_at(bytes, 16).is_some_and(|flags| flags & c::FLAG_FIXED_NEWSTYLE != 0)
}

/// The client's flags, sent first.
pub fn flags() -> Vec<u8> {
    (c::FLAG_C_FIXED_NEWSTYLE | c::FLAG_C_NO_ZEROES).to_be_bytes().to_vec()
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = c::IHAVEOPT.to_be_bytes().to_vec();
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

fn named(export: &str) -> Vec<u8> {
    [&(export.len() as u32).to_be_bytes(), export.as_bytes()].concat()
}

/// The option `STARTTLS`.
pub fn start_tls() -> Vec<u8> {
    option(c::OPT_STARTTLS, &[])
}

/// The option `STRUCTURED_REPLY`.
pub fn structured() -> Vec<u8> {
    option(c::OPT_STRUCTURED_REPLY, &[])
}

/// The option `SET_META_CONTEXT`, for `base:allocation` of this export.
pub fn contexts(export: &str) -> Vec<u8> {
    let count = 1_u32.to_be_bytes();
    option(
        c::OPT_SET_META_CONTEXT,
        &[&named(export)[..], &count, &named(Context::Allocation.name())].concat(),
    )
}

/// The option `GO` for this export, with its block sizes.
pub fn choose(export: &str) -> Vec<u8> {
    let wishes = [1_u16.to_be_bytes(), c::INFO_BLOCK_SIZE.to_be_bytes()].concat();
    option(c::OPT_GO, &[named(export), wishes].concat())
}

/// Everything that a client sends for this export and simple replies.
pub fn go(export: &str) -> Vec<u8> {
    [flags(), choose(export)].concat()
}

/// Type of an option reply and length of its data, from its header of 20 bytes.
pub fn option_reply(header: &[u8]) -> Option<(u32, usize)> {
    let kind = u32_at(header, 12)?;
    (u64_at(header, 0)? == c::OPTION_REPLY_MAGIC).then_some((kind, u32_at(header, 16)? as usize))
}

/// Parses an option reply, noting what it says in `info`.
pub fn parse_option_reply(kind: u32, data: &[u8], info: &mut ExportInfo) -> OptionReply {
    match kind {
        c::REP_ACK => OptionReply::Ready,
        c::REP_INFO => {
            match u16_at(data, 0) {
                Some(c::INFO_EXPORT) => {
                    info.bytes = u64_at(data, 2).unwrap_or(0);
                    info.flags = u16_at(data, 10).unwrap_or(0);
                }
                Some(c::INFO_BLOCK_SIZE) => {
                    let sizes = [2, 6, 10].map(|at| u32_at(data, at).unwrap_or(0));
                    info.blocks = Some(sizes).filter(|sizes| !sizes.contains(&0));
                }
                _ => {}
            }
            OptionReply::Info
        }
        c::REP_META_CONTEXT => {
            if data.get(4..) == Some(Context::Allocation.name().as_bytes()) {
                info.allocation = u32_at(data, 0);
            }
            OptionReply::Info
        }
        _ => OptionReply::Refused(String::from_utf8_lossy(data).into_owned()),
    }
}

/// Appends a request without its payload to `out`.
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

/// Cookie and error of a simple reply of 16 bytes; `None` if it is another kind.
pub fn simple_reply(bytes: &[u8]) -> Option<(u64, u32)> {
    let reply = (u64_at(bytes, 8)?, u32_at(bytes, 4)?);
    (u32_at(bytes, 0)? == c::SIMPLE_REPLY_MAGIC).then_some(reply)
}

/// The header of a chunk of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Cookie of the request.
    pub cookie: u64,
    /// `NBD_REPLY_TYPE_*`.
    pub kind: u16,
    /// Whether this is the last chunk of the request.
    pub last: bool,
    /// Bytes of its payload.
    pub length: u32,
}

/// Bytes of a chunk's header: four more than of a simple reply.
pub const CHUNK: usize = 20;

/// Parses the header of a chunk; `None` if it is not one.
pub fn chunk(bytes: &[u8]) -> Option<Chunk> {
    let (flags, kind) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
    let (cookie, length) = (u64_at(bytes, 8)?, u32_at(bytes, 16)?);
    let known = u32_at(bytes, 0)? == c::STRUCTURED_REPLY_MAGIC;
    known.then_some(Chunk { cookie, kind, last: flags & c::REPLY_FLAG_DONE != 0, length })
}

/// A chunk without data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// No content: the request is done.
    Done,
    /// This many bytes from this offset on are zeroes: offset, length.
    Hole(u64, u32),
    /// Lengths and states of consecutive extents, in the context of this number.
    Status(u32, Vec<(u32, u32)>),
    /// The request failed: error and reason.
    Failed(u32, String),
}

/// Parses a chunk other than one of data from its payload; `None` if it is malformed.
pub fn part(kind: u16, payload: &[u8]) -> Option<Part> {
    match kind {
        c::REPLY_TYPE_NONE => payload.is_empty().then_some(Part::Done),
        c::REPLY_TYPE_OFFSET_HOLE => Some(Part::Hole(u64_at(payload, 0)?, u32_at(payload, 8)?)),
        c::REPLY_TYPE_BLOCK_STATUS => {
            let states = payload.get(4..)?.chunks(8);
            let states = states.map(|state| Some((u32_at(state, 0)?, u32_at(state, 4)?)));
            Some(Part::Status(u32_at(payload, 0)?, states.collect::<Option<_>>()?))
        }
        _ if kind & c::REPLY_TYPE_ERRORS != 0 => {
            let why = payload.get(6..6 + usize::from(u16_at(payload, 4)?))?;
            Some(Part::Failed(u32_at(payload, 0)?, String::from_utf8_lossy(why).into_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::{Encryption, Errno, Export, GREETING, Handshake, Replies, Step, Style, request};

    #[test]
    fn an_export_is_replaced_by_one_that_can_do_as_much() {
        let flags = c::FLAG_HAS_FLAGS | c::FLAG_SEND_FLUSH | c::FLAG_SEND_FUA;
        let before = ExportInfo {
            bytes: 1 << 20,
            flags,
            blocks: Some([512, 4096, 1 << 25]),
            structured: true,
            allocation: None,
        };
        let wider = ExportInfo {
            flags: flags | c::FLAG_SEND_TRIM | c::FLAG_ROTATIONAL,
            blocks: Some([1, 65536, 1 << 25]),
            allocation: Some(3),
            ..before
        };
        assert!(before.can_replace(&before) && wider.can_replace(&before));
        assert!(!before.can_replace(&wider), "it lacks a command");
        for other in [
            ExportInfo { bytes: 1 << 21, ..before },
            ExportInfo { flags: flags | c::FLAG_READ_ONLY, ..before },
            // Its writes would be taken for durable.
            ExportInfo { flags: flags & !c::FLAG_SEND_FLUSH, ..before },
            ExportInfo { blocks: Some([4096, 4096, 1 << 25]), ..before },
            ExportInfo { blocks: Some([512, 4096, 1 << 24]), ..before },
            ExportInfo { blocks: None, ..before },
            ExportInfo { structured: false, ..before },
        ] {
            assert!(!other.can_replace(&before), "{other:?}");
        }
    }

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
        assert!(is_greeting(&GREETING));
        let exports = [export];
        for (name, found) in [("disk", true), ("", true), ("other", false)] {
            let mut out = Vec::new();
            let (_, step) = Handshake::new(&exports, Encryption::None).feed(&go(name), &mut out);
            assert_eq!(matches!(step, Step::Serve(_)), found);
            let (mut info, mut at, mut last) = (ExportInfo::default(), 0, OptionReply::Info);
            while at < out.len() {
                let (kind, length) = option_reply(&out[at..]).unwrap();
                last = parse_option_reply(kind, &out[at + 20..at + 20 + length], &mut info);
                at += 20 + length;
            }
            let all = ExportInfo {
                bytes: 1 << 30,
                flags: 5,
                blocks: Some([512, 4096, 1 << 25]),
                ..ExportInfo::default()
            };
            assert_eq!(
                (last == OptionReply::Ready, info),
                (found, if found { all } else { ExportInfo::default() })
            );
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

    #[test]
    fn client_and_server_understand_each_other_in_chunks() {
        let mut out = Vec::new();
        let replies = Replies(Style::Structured);
        replies.done(&mut out, 1);
        replies.error(&mut out, 2, Errno::NoSpace, "it is full");
        replies.hole(&mut out, 3, 4096, 512, false);
        replies.status(&mut out, 4, 0, 1, &[(4096, 0), (512, 3)], true);
        let mut found = Vec::new();
        let mut rest = &out[..];
        while !rest.is_empty() {
            let head = chunk(rest).unwrap();
            let (payload, more) = rest[CHUNK..].split_at(head.length as usize);
            found.push((head.cookie, head.last, part(head.kind, payload).unwrap()));
            for shorter in 1..payload.len() {
                let _ = part(head.kind, &payload[..shorter]);
            }
            rest = more;
        }
        let failed = Part::Failed(28, "it is full".to_owned());
        let status = Part::Status(1, vec![(4096, 0), (512, 3)]);
        let all =
            [(1, true, Part::Done), (2, true, failed), (3, false, Part::Hole(4096, 512)), (4, true, status)];
        assert_eq!(found, all);
        out.clear();
        replies.data(&mut out, 5, 4096, 512);
        let data = Chunk { cookie: 5, kind: c::REPLY_TYPE_OFFSET_DATA, last: true, length: 520 };
        assert_eq!(chunk(&out), Some(data));
        assert_eq!(chunk(&[0; CHUNK]), None);
    }

    #[test]
    fn a_server_is_asked_for_chunks_and_for_what_is_allocated() {
        let export = Export {
            name: "disk".to_owned(),
            description: String::new(),
            bytes: 1 << 30,
            flags: 5,
            smallest: 512,
            preferred: 4096,
            largest: 1 << 25,
            contexts: vec![Context::Allocation],
        };
        let (exports, mut info) = ([export], ExportInfo::default());
        let mut handshake = Handshake::new(&exports, Encryption::None);
        for wish in [flags(), structured(), contexts("disk"), choose("disk")] {
            let mut out = Vec::new();
            handshake.feed(&wish, &mut out);
            let mut rest = &out[..];
            while !rest.is_empty() {
                let (kind, length) = option_reply(rest).unwrap();
                assert_ne!(
                    parse_option_reply(kind, &rest[20..20 + length], &mut info),
                    OptionReply::Refused(String::new())
                );
                rest = &rest[20 + length..];
            }
        }
        assert_eq!((info.allocation, info.bytes), (Some(Context::Allocation as u32), 1 << 30));
    }
}
