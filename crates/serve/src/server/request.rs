//! A request of a client, from its header to its reply.

use std::rc::Rc;

use seekless_core::device::{Content, ExtentState};
use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError, Lba, Origin, SECTOR_BYTES, StreamId, Zeroes};

use super::Server;
use super::bytewise::Bytes;
use super::export::Export;
use super::outbox::Outbox;
use crate::nbd::constants::{
    CMD_FLAG_DF, CMD_FLAG_FAST_ZERO, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE, CMD_FLAG_REQ_ONE, STATE_HOLE, STATE_ZERO,
};
use crate::nbd::{Command, Context, Errno, Replies, Request, Style};

/// Reads from this many bytes on leave out what is known to be a hole, where the reply has a way to say so.
const SPARSE_BYTES: u64 = 32 << 10;
/// Block status looks at so many bytes at once, and tells so many parts.
const STATUS_BYTES: u64 = 1 << 30;
const STATUS_PARTS: usize = 1 << 14;
/// What clients that know no better have for the largest request.
const USUAL_LARGEST: u64 = 32 << 20;

/// A client that was agreed with.
pub struct Session {
    pub server: Rc<Server>,
    pub export: Export,
    pub replies: Replies,
    pub contexts: Vec<Context>,
    pub knows_blocks: bool,
    pub outbox: Rc<Outbox>,
    pub client: u32,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is carried out.
    Does(Bytes),
    /// The same, and it has a payload.
    Takes(Bytes),
    /// It makes no sense.
    Refused(Errno, &'static str),
}

impl Asked {
    /// The bytes that a request holds until it is answered.
    pub fn holds(self, request: &Request) -> u64 {
        match self {
            Asked::Does(_) if request.command == Command::Read => request.length,
            Asked::Takes(_) => request.payload,
            _ => 0,
        }
    }
}

impl Session {
    /// Whether a request makes sense.
    pub fn judge(&self, request: &Request) -> Asked {
        let told = &self.export.told;
        let invalid = |why| Asked::Refused(Errno::Invalid, why);
        let writes = matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        let moves = matches!(request.command, Command::Read | Command::Write);
        if !request.well_formed {
            return invalid("flags that do not go with this command");
        }
        if request.payload > 0 && request.command != Command::Write {
            return invalid("a payload with a command that has none");
        }
        match request.command {
            Command::Unknown(_) | Command::Disconnect => return invalid("an unknown command"),
            Command::Flush => return Asked::Does(Bytes { start: 0, end: 0 }),
            Command::BlockStatus if self.contexts.is_empty() => return invalid("no context was agreed on"),
            _ => {}
        }
        if writes && self.export.read_only {
            return Asked::Refused(Errno::NotPermitted, "the export is read-only");
        }
        let end = request.offset.checked_add(request.length);
        if request.length == 0 {
            return invalid("expected a length of at least one block");
        } else if end.is_none_or(|end| end > told.bytes) {
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Asked::Refused(errno, "it reaches past the end of the export");
        } else if moves && request.length > self.largest() {
            return invalid("it is larger than the largest request");
        }
        let at = Bytes { start: request.offset, end: request.offset + request.length };
        // Where nothing is moved clients may be careless: what is asked for is widened.
        if self.knows_blocks && request.command != Command::BlockStatus && !at.are_whole(told.smallest.into())
        {
            return invalid("it is not of whole blocks, of whose size this client was told");
        }
        if request.command == Command::Write { Asked::Takes(at) } else { Asked::Does(at) }
    }

    /// Bytes of the largest request. Who was told nothing of it may take what the protocol has for the usual.
    fn largest(&self) -> u64 {
        let told = u64::from(self.export.told.largest);
        if self.knows_blocks { told } else { told.max(USUAL_LARGEST) }
    }

    /// Carries a request out, and puts its reply into the outbox.
    pub async fn answer(self: Rc<Self>, request: Request, asked: Asked, payload: Vec<u8>) {
        let result = match asked {
            Asked::Refused(errno, why) => Err((errno, why.to_owned())),
            Asked::Does(at) | Asked::Takes(at) => {
                let carried = self.carry_out(&request, at, payload).await;
                carried.map_err(|error| (errno(&error), error.to_string()))
            }
        };
        let mut served = self.server.served.borrow_mut();
        served.requests += 1;
        match (&result, request.command) {
            (Err(_), _) => served.failed += 1,
            (Ok(_), Command::Read) => served.read_bytes += request.length,
            (Ok(_), Command::Write) => served.written_bytes += request.length,
            _ => {}
        }
        drop(served);
        self.outbox.reply(asked.holds(&request), |out| match result {
            Err((errno, why)) => self.replies.error(out, request.cookie, errno, &why),
            Ok(Answer::Done) => self.replies.done(out, request.cookie),
            Ok(Answer::Data(data)) => self.data(out, &request, &data),
            Ok(Answer::Parts(parts)) => self.parts(out, &request, &parts),
            Ok(Answer::Status(parts)) => self.status(out, &request, &parts),
        });
    }

    async fn carry_out(&self, request: &Request, at: Bytes, payload: Vec<u8>) -> Result<Answer, IoError> {
        let device = &self.export.device;
        let fua = request.flags & CMD_FLAG_FUA != 0;
        let origin = Origin { stream: StreamId(self.client), ..Origin::default() };
        let how = || Hints { fua, origin, ..Hints::default() };
        let blocks = at.touched(device.block());
        match request.command {
            Command::Read => return self.read(request, at, how()).await,
            Command::Write => device.write(at, Buffer::from_vec(payload), how()).await?,
            Command::Flush => device.device().flush(how()).await?,
            Command::Trim => {
                device.discard(at, how()).await?;
                if fua {
                    device.device().flush(how()).await?;
                }
            }
            Command::WriteZeroes => {
                let may_unmap = request.flags & CMD_FLAG_NO_HOLE == 0;
                let zeroes = Zeroes { may_unmap, only_if_fast: request.flags & CMD_FLAG_FAST_ZERO != 0 };
                device.write_zeroes(at, how(), zeroes).await?;
            }
            Command::Cache => {
                for part in device.parts(blocks) {
                    device.device().prefetch(part, how()).await?;
                }
            }
            Command::BlockStatus => {
                let looked_at = Extent { sectors: blocks.sectors.min(STATUS_BYTES / SECTOR_BYTES), ..blocks };
                return Ok(Answer::Status(device.device().extents(looked_at).await?));
            }
            Command::Disconnect | Command::Unknown(_) => unreachable!("refused before"),
        }
        Ok(Answer::Done)
    }

    async fn read(&self, request: &Request, at: Bytes, how: Hints) -> Result<Answer, IoError> {
        let device = &self.export.device;
        let may_be_sparse = self.replies.0 != Style::Simple && request.flags & CMD_FLAG_DF == 0;
        if may_be_sparse && request.length >= SPARSE_BYTES && at.are_whole(device.block()) {
            let states = device.device().extents(at.touched(device.block())).await?;
            if states.iter().any(|state| reads_as_zeroes(state.content)) {
                let mut parts: Vec<(Extent, Option<Buffer>)> = Vec::new();
                for state in states {
                    let data = match state.content {
                        Content::Hole | Content::Zero => None,
                        _ => {
                            let into = Buffer::zeroed(state.extent.bytes());
                            Some(device.device().read(state.extent, into, how.clone()).await?)
                        }
                    };
                    parts.push((state.extent, data));
                }
                return Ok(Answer::Parts(parts));
            }
        }
        device.read(at, how).await.map(Answer::Data)
    }

    fn data(&self, out: &mut Vec<u8>, request: &Request, data: &Buffer) {
        self.replies.data(out, request.cookie, request.offset, data.len() as u64);
        append(out, data);
    }

    fn parts(&self, out: &mut Vec<u8>, request: &Request, parts: &[(Extent, Option<Buffer>)]) {
        for (number, (at, data)) in parts.iter().enumerate() {
            let (offset, last) = (at.start.0 * SECTOR_BYTES, number + 1 == parts.len());
            match data {
                None => self.replies.hole(out, request.cookie, offset, at.bytes() as u32, last),
                Some(data) => {
                    self.replies.part(out, request.cookie, offset, data.len() as u64, last);
                    append(out, data);
                }
            }
        }
    }

    fn status(&self, out: &mut Vec<u8>, request: &Request, states: &[ExtentState]) {
        let one = request.flags & CMD_FLAG_REQ_ONE != 0;
        let told = described(states, request, if one { 1 } else { STATUS_PARTS });
        for (number, context) in self.contexts.iter().enumerate() {
            let last = number + 1 == self.contexts.len();
            self.replies.status(out, request.cookie, request.offset, *context as u32, &told, last);
        }
    }
}

/// What a request gives besides an error.
enum Answer {
    Done,
    Data(Buffer),
    Parts(Vec<(Extent, Option<Buffer>)>),
    Status(Vec<ExtentState>),
}

fn append(out: &mut Vec<u8>, data: &Buffer) {
    out.reserve(data.len());
    data.for_each(|_, len, bytes| match bytes {
        Some(bytes) => out.extend_from_slice(bytes),
        None => out.resize(out.len() + len, 0),
    });
}

fn reads_as_zeroes(content: Content) -> bool {
    matches!(content, Content::Hole | Content::Zero)
}

/// Lengths and flags of what begins where the request does; equal neighbours are one.
fn described(states: &[ExtentState], request: &Request, most: usize) -> Vec<(u64, u32)> {
    let mut told: Vec<(u64, u32)> = Vec::new();
    let (mut at, end) = (request.offset, request.offset.saturating_add(request.length));
    for state in states {
        let Lba(start) = state.extent.start;
        let state_end = ((start + state.extent.sectors) * SECTOR_BYTES).min(end);
        let length = state_end.saturating_sub(at);
        let flags = match state.content {
            Content::Hole => STATE_HOLE | STATE_ZERO,
            Content::Zero => STATE_ZERO,
            Content::Data | Content::Unknown => 0,
        };
        let full = told.len() == most;
        match told.last_mut() {
            _ if length == 0 => {}
            Some((before, same)) if *same == flags => *before += length,
            _ if full => break,
            _ => told.push((length, flags)),
        }
        at = at.max(state_end);
    }
    told
}

/// An error in the protocol's words.
fn errno(error: &IoError) -> Errno {
    match error.kind() {
        ErrorKind::NoSpace => Errno::NoSpace,
        ErrorKind::ReadOnly => Errno::NotPermitted,
        ErrorKind::Invalid => Errno::Invalid,
        ErrorKind::Unsupported => Errno::NotSupported,
        ErrorKind::Medium
        | ErrorKind::Corrupt
        | ErrorKind::Timeout
        | ErrorKind::Gone
        | ErrorKind::Aborted => Errno::Io,
    }
}
