//! The handshake as a state machine: bytes in, bytes and a decision out.
//!
//! Invariants: what it holds is bounded by one option's length; every option is answered, in order. Fault model: the
//! client is not known yet, and may send anything.

use super::constants as c;
use super::{Style, u16_at, u32_at, u64_at};

/// What a server sends first: its magic, and that it knows fixed newstyle.
pub const GREETING: [u8; 18] = {
    let (magic, option) = (c::NBDMAGIC.to_be_bytes(), c::IHAVEOPT.to_be_bytes());
    let flags = (c::FLAG_FIXED_NEWSTYLE | c::FLAG_NO_ZEROES).to_be_bytes();
    let mut all = [0; 18];
    let mut at = 0;
    while at < 8 {
        all[at] = magic[at];
        all[8 + at] = option[at];
        at += 1;
    }
    all[16] = flags[0];
    all[17] = flags[1];
    all
};

/// Bytes of an option, at most: a name of 4 KiB, and a few queries.
const LONGEST_OPTION: u32 = 64 << 10;
/// The header of an option.
const OPTION_HEADER: usize = 16;

/// An export as described to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name that clients request it by.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// `NBD_FLAG_*`, for a client that negotiated every option.
    pub flags: u16,
    /// Bytes that requests have to be a multiple of.
    pub smallest: u32,
    /// Bytes that requests should be a multiple of.
    pub preferred: u32,
    /// Bytes of the largest request.
    pub largest: u32,
    /// Contexts that block status knows.
    pub contexts: Vec<Context>,
}

/// A context of block status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// `base:allocation`: holes and zeroes.
    Allocation = 1,
    /// `seekless:place`: location below the layers.
    Place = 2,
    /// `seekless:heat`: how often the bytes were accessed.
    Heat = 3,
    /// `seekless:unreadable`: whether a scrub could not read the bytes.
    Unreadable = 4,
}

impl Context {
    /// Name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Context::Allocation => "base:allocation",
            Context::Place => "seekless:place",
            Context::Heat => "seekless:heat",
            Context::Unreadable => "seekless:unreadable",
        }
    }
}

/// What the handshake negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Index of the export.
    pub export: usize,
    /// Style of requests and replies.
    pub style: Style,
    /// Contexts of block status.
    pub contexts: Vec<Context>,
    /// Whether the client was sent the block sizes, which it then keeps to. Otherwise its requests may be unaligned.
    pub knows_blocks: bool,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Never encrypted.
    None,
    /// Encryption is required: until then no other option is answered.
    Demanded,
    /// Encrypted.
    On,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more bytes.
    More,
    /// Send the output; the next byte is TLS's, and the decrypted bytes are fed here again.
    Encrypt,
    /// The transmission phase begins with the next byte.
    Serve(Agreed),
    /// Send the output, and end the connection.
    End,
}

/// A handshake in flight.
#[derive(Debug)]
pub struct Handshake<'a> {
    exports: &'a [Export],
    encryption: Encryption,
    /// The client's flags, which come first.
    flags: Option<u32>,
    style: Style,
    /// The export for which contexts were negotiated, and those contexts.
    contexts: Option<(usize, Vec<Context>)>,
    /// The export whose block sizes were sent last.
    sizes_sent_for: Option<usize>,
    /// Bytes of an oversized option still to be skipped.
    skip: u64,
    /// Why no slot is free for the client, if so.
    full: Option<String>,
    /// Whether it was refused for that since the last query.
    refused: bool,
}

impl<'a> Handshake<'a> {
    /// A handshake for these exports; [`GREETING`] is sent before it.
    pub fn new(exports: &'a [Export], encryption: Encryption) -> Handshake<'a> {
        Handshake {
            exports,
            encryption,
            flags: None,
            style: Style::Simple,
            contexts: None,
            sizes_sent_for: None,
            skip: 0,
            full: None,
            refused: false,
        }
    }

    /// Sets why no slot is free for the client now, if so: then it cannot start the transmission phase. Other options
    /// are answered.
    pub fn set_full(&mut self, why: Option<String>) {
        self.full = why;
    }

    /// Why the client was refused a slot, if it was since the last call.
    pub fn take_refusal(&mut self) -> Option<&str> {
        if std::mem::take(&mut self.refused) { self.full.as_deref() } else { None }
    }

    /// Consumes what it can of `input`: returns the number of bytes, and the next step. Output is appended to `out`.
    /// More input is needed only if nothing was consumed.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let (took, step) = self.next(rest, out);
            used += took;
            match step {
                Some(step) => return (used, step),
                // Small options may have long replies: send those before parsing more.
                None if took == 0 || out.len() > LONGEST_OPTION as usize => return (used, Step::More),
                None => {}
            }
        }
    }

    /// Consumes one item: the flags, or an option.
    fn next(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Option<Step>) {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len() as u64);
            self.skip -= skipped;
            return (skipped as usize, None);
        }
        if self.flags.is_none() {
            let Some(flags) = u32_at(input, 0) else { return (0, None) };
            self.flags = Some(flags);
            let known = c::FLAG_C_FIXED_NEWSTYLE | c::FLAG_C_NO_ZEROES;
            return (4, (flags & !known != 0).then_some(Step::End));
        }
        let header = || Some((u64_at(input, 0)?, u32_at(input, 8)?, u32_at(input, 12)?));
        let Some((magic, option, length)) = header() else { return (0, None) };
        if magic != c::IHAVEOPT {
            return (0, Some(Step::End));
        }
        if length > LONGEST_OPTION {
            self.skip = length.into();
            if option == c::OPT_EXPORT_NAME {
                return (OPTION_HEADER, Some(Step::End));
            }
            refuse(
                out,
                option,
                c::REP_ERR_TOO_BIG,
                &format!("expected an option of at most {LONGEST_OPTION} bytes"),
            );
            return (OPTION_HEADER, None);
        }
        let end = OPTION_HEADER + length as usize;
        match input.get(OPTION_HEADER..end) {
            Some(data) => (end, self.option(option, data, out)),
            None => (0, None),
        }
    }

    fn option(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        if self.encryption == Encryption::Demanded && ![c::OPT_STARTTLS, c::OPT_ABORT].contains(&option) {
            if option == c::OPT_EXPORT_NAME {
                return Some(Step::End);
            }
            refuse(
                out,
                option,
                c::REP_ERR_TLS_REQD,
                "expected STARTTLS first: this server requires encryption",
            );
            return None;
        }
        match option {
            c::OPT_EXPORT_NAME => return Some(self.export_name(data, out)),
            c::OPT_ABORT => {
                reply(out, option, c::REP_ACK, &[]);
                return Some(Step::End);
            }
            c::OPT_GO | c::OPT_INFO => return self.info(option, data, out),
            c::OPT_LIST_META_CONTEXT | c::OPT_SET_META_CONTEXT => self.meta_contexts(option, data, out),
            c::OPT_LIST | c::OPT_STRUCTURED_REPLY | c::OPT_EXTENDED_HEADERS if !data.is_empty() => {
                refuse(out, option, c::REP_ERR_INVALID, "expected no data with this option");
            }
            c::OPT_LIST => {
                for export in self.exports {
                    let mut info = (export.name.len() as u32).to_be_bytes().to_vec();
                    info.extend(export.name.as_bytes());
                    info.extend(export.description.as_bytes());
                    reply(out, option, c::REP_SERVER, &info);
                }
                reply(out, option, c::REP_ACK, &[]);
            }
            c::OPT_STRUCTURED_REPLY if self.style == Style::Extended => {
                refuse(
                    out,
                    option,
                    c::REP_ERR_EXT_HEADER_REQD,
                    "extended headers were negotiated, which include structured replies",
                );
            }
            c::OPT_STRUCTURED_REPLY => {
                self.style = Style::Structured;
                reply(out, option, c::REP_ACK, &[]);
            }
            c::OPT_EXTENDED_HEADERS => {
                self.style = Style::Extended;
                reply(out, option, c::REP_ACK, &[]);
            }
            c::OPT_STARTTLS => return self.start_tls(data, out),
            _ => refuse(out, option, c::REP_ERR_UNSUP, "this server does not support the option"),
        }
        None
    }

    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let option = c::OPT_STARTTLS;
        match self.encryption {
            _ if !data.is_empty() => {
                refuse(out, option, c::REP_ERR_INVALID, "expected no data with this option");
                None
            }
            Encryption::None => {
                refuse(out, option, c::REP_ERR_POLICY, "this server has no TLS");
                None
            }
            Encryption::On => {
                refuse(out, option, c::REP_ERR_INVALID, "the connection is encrypted already");
                None
            }
            Encryption::Demanded => {
                self.encryption = Encryption::On;
                reply(out, option, c::REP_ACK, &[]);
                Some(Step::Encrypt)
            }
        }
    }

    /// Index of the export of this name; the empty name is the first.
    fn find(&self, name: &[u8]) -> Option<usize> {
        let named = self.exports.iter().position(|export| export.name.as_bytes() == name);
        named.or_else(|| (name.is_empty() && !self.exports.is_empty()).then_some(0))
    }

    /// `EXPORT_NAME`, the old way to begin, which has no error reply.
    fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Step {
        // With extended headers a client has to send `GO`.
        let may = self.style != Style::Extended && self.full.is_none();
        self.refused |= self.full.is_some();
        let Some(number) = self.find(name).filter(|_| may) else {
            return Step::End;
        };
        let export = &self.exports[number];
        out.extend(export.bytes.to_be_bytes());
        out.extend(self.flags(number).to_be_bytes());
        if self.flags.unwrap_or(0) & c::FLAG_C_NO_ZEROES == 0 {
            out.extend([0; 124]);
        }
        self.agreed(number)
    }

    /// Flags of an export, without those whose options were not negotiated.
    fn flags(&self, number: usize) -> u16 {
        let mut flags = self.exports[number].flags;
        if self.style == Style::Simple {
            flags &= !c::FLAG_SEND_DF;
        }
        let filters =
            self.contexts.as_ref().is_some_and(|(of, contexts)| *of == number && !contexts.is_empty());
        if self.style != Style::Extended || !filters {
            flags &= !c::FLAG_BLOCK_STAT_PAYLOAD;
        }
        flags
    }

    fn agreed(&mut self, export: usize) -> Step {
        let contexts = self.contexts.take().filter(|(of, _)| *of == export).map(|(_, contexts)| contexts);
        let (contexts, knows_blocks) = (contexts.unwrap_or_default(), self.sizes_sent_for == Some(export));
        Step::Serve(Agreed { export, style: self.style, contexts, knows_blocks })
    }

    fn info(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        let Some((name, requested)) = info_request(data) else {
            refuse(out, option, c::REP_ERR_INVALID, "expected a name and a list of information types");
            return None;
        };
        let Some(number) = self.find(name) else {
            refuse(out, option, c::REP_ERR_UNKNOWN, &self.unknown(name));
            return None;
        };
        if let Some(why) = self.full.as_ref().filter(|_| option == c::OPT_GO) {
            self.refused = true;
            refuse(out, option, c::REP_ERR_POLICY, &format!("no slot is free for another client: {why}"));
            return None;
        }
        let export = &self.exports[number];
        let mut info = c::INFO_EXPORT.to_be_bytes().to_vec();
        info.extend(export.bytes.to_be_bytes());
        info.extend(self.flags(number).to_be_bytes());
        reply(out, option, c::REP_INFO, &info);
        for requested in requested {
            let mut info = requested.to_be_bytes().to_vec();
            match requested {
                c::INFO_NAME => info.extend(export.name.as_bytes()),
                c::INFO_DESCRIPTION => info.extend(export.description.as_bytes()),
                c::INFO_BLOCK_SIZE => {
                    self.sizes_sent_for = Some(number);
                    for size in [export.smallest, export.preferred, export.largest] {
                        info.extend(size.to_be_bytes());
                    }
                }
                _ => continue,
            }
            reply(out, option, c::REP_INFO, &info);
        }
        reply(out, option, c::REP_ACK, &[]);
        (option == c::OPT_GO).then(|| self.agreed(number))
    }

    fn unknown(&self, name: &[u8]) -> String {
        let known: Vec<&str> = self.exports.iter().map(|export| export.name.as_str()).collect();
        let found: String = String::from_utf8_lossy(name).chars().take(64).collect();
        format!("found no export '{found}', expected one of: {}", known.join(", "))
    }

    fn meta_contexts(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let set = option == c::OPT_SET_META_CONTEXT;
        if set {
            self.contexts = None;
        }
        if self.style == Style::Simple {
            return refuse(
                out,
                option,
                c::REP_ERR_INVALID,
                "expected structured replies to be negotiated before",
            );
        }
        let Some((name, queries)) = context_request(data) else {
            return refuse(out, option, c::REP_ERR_INVALID, "expected a name and a list of queries");
        };
        let Some(number) = self.find(name) else {
            return refuse(out, option, c::REP_ERR_UNKNOWN, &self.unknown(name));
        };
        let asks = |query: &[u8], context: Context| {
            let all_of_its_kind = context.name().split_inclusive(':').next().unwrap_or_default();
            query == context.name().as_bytes() || !set && query == all_of_its_kind.as_bytes()
        };
        let known = self.exports[number].contexts.iter().copied();
        let requested = known.filter(|context| {
            !set && queries.is_empty() || queries.iter().any(|query| asks(query, *context))
        });
        let requested: Vec<Context> = requested.collect();
        for context in &requested {
            // In a list, contexts have no numbers.
            let mut info = if set { *context as u32 } else { 0 }.to_be_bytes().to_vec();
            info.extend(context.name().as_bytes());
            reply(out, option, c::REP_META_CONTEXT, &info);
        }
        reply(out, option, c::REP_ACK, &[]);
        if set {
            self.contexts = Some((number, requested));
        }
    }
}

/// A string after its length: the string, and what follows.
fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(data, 0)? as usize;
    data[4..].split_at_checked(length)
}

/// Name and info types of `INFO` and `GO`.
fn info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let (name, rest) = string(data)?;
    let count = u16_at(rest, 0)?.into();
    let numbers: Option<Vec<u16>> = (0..count).map(|index| u16_at(rest, 2 + 2 * index)).collect();
    numbers.filter(|_| rest.len() == 2 + 2 * count).map(|numbers| (name, numbers))
}

/// Name and queries of the options about contexts.
fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = string(data)?;
    let (count, mut rest) = (u32_at(rest, 0)?, &rest[4..]);
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, after) = string(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(c::OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    reply(out, option, kind, why.as_bytes());
}

#[cfg(test)]
mod tests;
