//! Parsing requests of the transmission phase.

use super::constants::{
    CMD_BLOCK_STATUS, CMD_CACHE, CMD_DISC, CMD_FLAG_DF, CMD_FLAG_FAST_ZERO, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE,
    CMD_FLAG_PAYLOAD_LEN, CMD_FLAG_REQ_ONE, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES,
    EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC,
};
use super::{u16_at, u32_at, u64_at};

/// A command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read.
    Read,
    /// Write.
    Write,
    /// End the connection.
    Disconnect,
    /// Make completed writes durable.
    Flush,
    /// Discard.
    Trim,
    /// Prefetch.
    Cache,
    /// Write zeroes.
    WriteZeroes,
    /// Block status.
    BlockStatus,
    /// A command that this server does not know.
    Unknown(u16),
}

/// A request without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// `NBD_CMD_FLAG_*`.
    pub flags: u16,
    /// Identifies the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Bytes of payload after the header, whether or not the request is valid.
    pub payload: u64,
    /// Whether the command may have these flags and this payload.
    pub well_formed: bool,
}

/// Not a request: the stream is out of step, and the client cannot be served further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMagic {
    /// The bytes found in place of a magic number.
    pub magic: u32,
}

/// Parses the request at the beginning of `bytes`: the request and the length of its header; `None` if there are too
/// few bytes.
pub fn request(bytes: &[u8], extended: bool) -> Result<Option<(Request, usize)>, BadMagic> {
    let Some(magic) = u32_at(bytes, 0) else { return Ok(None) };
    let expected = if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
    if magic != expected {
        return Err(BadMagic { magic });
    }
    let fields = || {
        let (flags, command) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
        let (cookie, offset) = (u64_at(bytes, 8)?, u64_at(bytes, 16)?);
        let length = if extended { u64_at(bytes, 24)? } else { u32_at(bytes, 24)?.into() };
        Some((flags, command, cookie, offset, length))
    };
    let Some((flags, number, cookie, offset, length)) = fields() else { return Ok(None) };
    let (command, allowed) = command(number);
    let carries = flags & CMD_FLAG_PAYLOAD_LEN != 0;
    let (payload, allowed) = match command {
        // A write has its payload. With extended headers it should have the flag too; some clients do not set it.
        Command::Write if extended => (length, allowed | CMD_FLAG_PAYLOAD_LEN),
        Command::Write => (length, allowed),
        // The payload may name the contexts.
        Command::BlockStatus if extended && carries => (length, allowed | CMD_FLAG_PAYLOAD_LEN),
        // No other command has a payload that this server knows, and in compact headers none has any.
        _ => (if extended && carries { length } else { 0 }, allowed),
    };
    let well_formed = flags & !allowed == 0;
    let request = Request { command, flags, cookie, offset, length, payload, well_formed };
    Ok(Some((request, if extended { 32 } else { 28 })))
}

/// Parses the payload of a block status request: its length and context numbers. `None` if it is malformed or names
/// none.
pub fn filter(payload: &[u8]) -> Option<(u64, Vec<u32>)> {
    let (length, numbers) = (u64_at(payload, 0)?, &payload[8..]);
    if numbers.is_empty() || numbers.len() % 4 != 0 {
        return None;
    }
    let numbers = (0..numbers.len() / 4).map(|index| u32_at(numbers, 4 * index)).collect::<Option<_>>()?;
    Some((length, numbers))
}

/// A command by its number, and the flags that it may have.
fn command(number: u16) -> (Command, u16) {
    match number {
        // FUA is allowed with every command, and has no effect where nothing is written.
        CMD_READ => (Command::Read, CMD_FLAG_FUA | CMD_FLAG_DF),
        CMD_WRITE => (Command::Write, CMD_FLAG_FUA),
        CMD_DISC => (Command::Disconnect, CMD_FLAG_FUA),
        CMD_FLUSH => (Command::Flush, CMD_FLAG_FUA),
        CMD_TRIM => (Command::Trim, CMD_FLAG_FUA),
        CMD_CACHE => (Command::Cache, CMD_FLAG_FUA),
        CMD_WRITE_ZEROES => (Command::WriteZeroes, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO),
        CMD_BLOCK_STATUS => (Command::BlockStatus, CMD_FLAG_FUA | CMD_FLAG_REQ_ONE),
        unknown => (Command::Unknown(unknown), !CMD_FLAG_PAYLOAD_LEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(77_u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    #[test]
    fn a_request_is_read_when_all_of_it_is_there() {
        let bytes = compact(CMD_FLAG_FUA, CMD_WRITE, 4096, 512);
        for end in 0..28 {
            assert_eq!(request(&bytes[..end], false), Ok(None));
        }
        let (read, header) = request(&bytes, false).unwrap().unwrap();
        assert_eq!((read.command, read.cookie, header), (Command::Write, 77, 28));
        assert_eq!((read.offset, read.length, read.payload, read.well_formed), (4096, 512, 512, true));
    }

    #[test]
    fn step_is_kept_whatever_is_asked() {
        let of = |flags, command| request(&compact(flags, command, 0, 512), false).unwrap().unwrap().0;
        assert_eq!((of(0, 99).command, of(0, 99).payload), (Command::Unknown(99), 0));
        assert!(!of(CMD_FLAG_DF, CMD_WRITE).well_formed);
        assert_eq!(of(CMD_FLAG_DF, CMD_WRITE).payload, 512, "it follows all the same");
        assert!(!of(CMD_FLAG_PAYLOAD_LEN, CMD_READ).well_formed);
    }

    #[test]
    fn a_block_status_may_say_which_contexts_it_is_about() {
        let payload = |numbers: &[u32]| {
            let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
            [0, 0, 0, 1, 0, 0, 0, 0].into_iter().chain(numbers).collect::<Vec<u8>>()
        };
        assert_eq!(filter(&payload(&[3, 1])), Some((1 << 32, vec![3, 1])));
        assert_eq!(filter(&payload(&[])), None);
        assert_eq!(filter(&payload(&[1])[..11]), None);
        assert_eq!(filter(&[]), None);
        let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 1 << 5, 0, 7]);
        bytes.extend([0; 16]);
        bytes.extend(12_u64.to_be_bytes());
        let (read, header) = request(&bytes, true).unwrap().unwrap();
        assert_eq!((read.payload, read.well_formed, header), (12, true, 32));
    }

    #[test]
    fn other_bytes_are_no_request() {
        assert_eq!(request(b"GET / HTTP/1.1", false), Err(BadMagic { magic: 0x4745_5420 }));
        assert!(
            request(&compact(0, CMD_READ, 0, 512), true).is_err(),
            "compact where extended was agreed on"
        );
    }
}
