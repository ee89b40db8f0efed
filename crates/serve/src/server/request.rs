//! A client's request, from its header to its reply.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use seekless_core::{
    Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, Op, Origin, StreamId, Ticket, Zeroes, runtime,
};

use super::byte_adapter::{ByteRange, UnalignedPermit};
use super::export::Export;
use super::send_queue::{Large, ROOM, SendQueue};
use super::status::block_status;
use super::{Server, budget};
use crate::nbd::constants::{
    CMD_FLAG_DF, CMD_FLAG_FAST_ZERO, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE, CMD_FLAG_REQ_ONE,
};
use crate::nbd::{Command, Context, Errno, Replies, Request, Style, filter};

/// Reads of at least this many bytes are sent from the buffer that they are read into: copying smaller ones, so that
/// their replies go together, costs less. Zeroes at the ends are left out, where the reply style allows it.
const LARGE_BYTES: u64 = 32 << 10;
/// How long a request of class `Free` waits to be carried out along with others.
const FREE_DEADLINE: Nanos = Nanos::from_millis(5_000);
/// Largest request, in bytes, of clients that were not sent the block sizes.
const USUAL_LARGEST: u64 = 32 << 20;

/// The range of a request without one.
const NOTHING: ByteRange = ByteRange { start: 0, end: 0 };

/// Promotes a request of class `Free` to the background class after the deadline.
pub(super) fn deadline(ticket: Ticket) -> runtime::Task<()> {
    runtime::spawn(async move {
        runtime::sleep(FREE_DEADLINE).await;
        ticket.promote(Class::Background);
    })
}

/// A client in the transmission phase.
pub struct Session {
    pub server: Rc<Server>,
    pub export: Export,
    pub replies: Replies,
    pub contexts: Vec<Context>,
    /// Whether the client was sent the block sizes.
    pub knows_blocks: bool,
    /// Set since its first write of a partial block.
    pub unaligned_permit: RefCell<Option<UnalignedPermit>>,
    pub send_queue: Rc<SendQueue>,
    pub client: u32,
}

/// How to handle a request, as decided by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Carry it out.
    Execute(ByteRange),
    /// Receive its payload, and carry it out.
    Receive(ByteRange),
    /// Reply with an error.
    Refuse(Errno, &'static str),
}

impl Plan {
    /// Bytes that a request holds until it is answered, as known from its header: for a payload, at most a client's own
    /// share.
    pub fn held_bytes(self, request: &Request) -> u64 {
        match self {
            Plan::Execute(_) if request.command == Command::Read => request.length,
            Plan::Receive(_) => request.payload.min(PAYLOAD_PIECE as u64),
            _ => 0,
        }
    }
}

/// Longer payloads are received this many bytes at a time; a piece fits into a client's own share ([`budget::OWN`]).
pub const PAYLOAD_PIECE: usize = 1 << 20;
const _: () = assert!(PAYLOAD_PIECE as u64 <= budget::OWN);

/// The payload of a request.
#[derive(Default)]
pub struct Payload {
    /// The last part of it, or all.
    pub bytes: Vec<u8>,
    /// Bytes before `bytes`, written already.
    pub written: u64,
    /// Error of writing some of those.
    pub failed: Option<IoError>,
    /// Bytes that the request holds until it is answered.
    pub held_bytes: u64,
}

impl Session {
    /// Validates a request.
    pub fn plan(&self, request: &Request) -> Plan {
        let invalid = |why| Plan::Refuse(Errno::Invalid, why);
        if !request.well_formed {
            return invalid("flags that this command does not have");
        }
        match request.command {
            Command::Write => {}
            // Its range is in the payload, which is validated once received.
            Command::BlockStatus if request.payload > 0 => {
                return if request.payload <= 8 + 4 * self.contexts.len() as u64 {
                    Plan::Receive(NOTHING)
                } else {
                    invalid("a payload that names more contexts than were negotiated")
                };
            }
            _ if request.payload > 0 => return invalid("a payload with a command that has none"),
            _ => {}
        }
        match request.command {
            Command::Unknown(_) | Command::Disconnect => return invalid("an unknown command"),
            Command::Flush => return Plan::Execute(NOTHING),
            Command::BlockStatus if self.contexts.is_empty() => return invalid("no context was negotiated"),
            _ => {}
        }
        match self.byte_range(request) {
            Err((errno, why)) => Plan::Refuse(errno, why),
            Ok(at) if request.command == Command::Write => Plan::Receive(at),
            Ok(at) => Plan::Execute(at),
        }
    }

    /// The byte range of a request.
    fn byte_range(&self, request: &Request) -> Result<ByteRange, (Errno, &'static str)> {
        let info = &self.export.info;
        let invalid = |why| Err((Errno::Invalid, why));
        let writes = matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        let moves = matches!(request.command, Command::Read | Command::Write);
        if writes && self.export.read_only {
            return Err((Errno::NotPermitted, "the export is read-only"));
        }
        let end = request.offset.checked_add(request.length);
        if request.length == 0 {
            return invalid("expected a length of at least one byte");
        } else if end.is_none_or(|end| end > info.bytes && end > self.export.bytes()) {
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "the range reaches past the end of the export"));
        } else if moves && request.length > self.largest() {
            return invalid("it is larger than the largest request");
        }
        let at = ByteRange { start: request.offset, end: request.offset + request.length };
        Ok(at)
    }

    /// Bytes of the largest request. A client that was not sent the limit may use the protocol's default.
    fn largest(&self) -> u64 {
        let info = u64::from(self.export.info.largest);
        if self.knows_blocks { info } else { info.max(USUAL_LARGEST) }
    }

    /// Waits for the client's permit for unaligned writes, if these bytes are not whole blocks. The client keeps it.
    async fn ensure_permit(&self, at: ByteRange) {
        let device = &self.export.device;
        if at.are_whole(device.block()) || self.unaligned_permit.borrow().is_some() {
            return;
        }
        let permit = device.allow_unaligned().await;
        // Another request may have waited for it too.
        self.unaligned_permit.borrow_mut().get_or_insert(permit);
    }

    /// Carries a request out, and queues its reply.
    #[allow(clippy::manual_async_fn)] // an `async fn` holds its arguments twice
    pub fn execute_and_reply(
        self: Rc<Self>,
        request: Request,
        plan: Plan,
        payload: Payload,
    ) -> impl Future<Output = ()> + 'static {
        async move {
            let held_bytes = payload.held_bytes;
            let timed = op(request.command).map(|op| self.export.meter.begin(op, request.length));
            if let (Plan::Execute(at) | Plan::Receive(at), Command::Read | Command::Write) =
                (&plan, request.command)
            {
                self.export.accesses.count(request.command == Command::Read, at.start, at.end - at.start);
            }
            let result = match plan {
                Plan::Refuse(errno, why) => Err((errno, why.to_owned())),
                Plan::Receive(_) if request.command == Command::BlockStatus => {
                    Box::pin(self.filtered_status(&request, &payload.bytes)).await
                }
                Plan::Execute(at) | Plan::Receive(at) => {
                    // All of it, or of a long write what was not written as it arrived.
                    let left = ByteRange { start: at.start + payload.written, ..at };
                    let executed = match payload.failed {
                        Some(error) => Err(error),
                        None => self.execute(&request, left, payload.bytes).await,
                    };
                    executed.map_err(|error| (errno(&error), error.to_string()))
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
            if let Some(timed) = timed {
                timed.end(result.is_err());
            }
            if let Ok(Answer::Large(before, reply)) = result {
                return self.send_queue.reply_large(held_bytes, |out| out.extend(before), reply);
            }
            self.send_queue.reply(held_bytes, |out| match &result {
                Err((errno, why)) => self.replies.error(out, request.cookie, *errno, why),
                Ok(Answer::Done) => self.replies.done(out, request.cookie),
                Ok(Answer::Data(data)) => self.data(out, &request, data),
                Ok(Answer::Zeroes) => {
                    self.replies.hole(out, request.cookie, request.offset, request.length as u32, true);
                }
                Ok(Answer::Status(parts)) => self.status(out, &request, parts),
                Ok(Answer::Large(..)) => unreachable!("queued above"),
            });
            if let Ok(Answer::Data(data)) = result {
                self.send_queue.keep(data);
            }
        }
    }

    /// Writes a part of a payload, beginning at byte `start`.
    pub async fn write_part(&self, request: &Request, start: u64, bytes: Vec<u8>) -> Result<(), IoError> {
        let at = ByteRange { start, end: start + bytes.len() as u64 };
        self.execute(request, at, bytes).await.map(drop)
    }

    async fn execute(&self, request: &Request, at: ByteRange, payload: Vec<u8>) -> Result<Answer, IoError> {
        let device = &self.export.device;
        let fua = request.flags & CMD_FLAG_FUA != 0;
        let origin = Origin { stream: StreamId(self.client), ..Origin::default() };
        let class = self.export.class;
        let ticket = (class > Class::Foreground).then(Ticket::new);
        // Cancelled when dropped, with the request.
        let _deadline = ticket.clone().filter(|_| class == Class::Free).map(deadline);
        let how = || Hints { fua, origin, class, ticket: ticket.clone(), ..Hints::default() };
        match request.command {
            Command::Read => return self.read(request, at, how()).await,
            Command::Write => {
                self.ensure_permit(at).await;
                let from = Buffer::from_vec(payload);
                let written = device.write(at, from.clone(), how()).await;
                self.send_queue.keep(from);
                written?;
            }
            Command::Flush => device.device().flush(how()).await?,
            // Boxed, or the future of every request would have room for these.
            _ => return Box::pin(self.execute_rare(request, at, how())).await,
        }
        Ok(Answer::Done)
    }

    /// As `execute`, for the commands that move no data.
    async fn execute_rare(&self, request: &Request, at: ByteRange, how: Hints) -> Result<Answer, IoError> {
        let device = &self.export.device;
        match request.command {
            Command::Trim => {
                device.discard(at, how.clone()).await?;
                if how.fua {
                    device.device().flush(how).await?;
                }
            }
            Command::WriteZeroes => {
                let may_unmap = request.flags & CMD_FLAG_NO_HOLE == 0;
                let zeroes = Zeroes { may_unmap, only_if_fast: request.flags & CMD_FLAG_FAST_ZERO != 0 };
                self.ensure_permit(at).await;
                device.write_zeroes(at, how, zeroes).await?;
            }
            Command::Cache => {
                for part in device.parts(at.touched(device.block())) {
                    device.device().prefetch(part, how.clone()).await?;
                }
            }
            Command::BlockStatus => return self.status_of(request, at, &self.contexts).await,
            Command::Read | Command::Write | Command::Flush => unreachable!("executed by its caller"),
            Command::Disconnect | Command::Unknown(_) => unreachable!("refused by its plan"),
        }
        Ok(Answer::Done)
    }

    /// Block status of the contexts that the payload names.
    async fn filtered_status(&self, request: &Request, payload: &[u8]) -> Result<Answer, (Errno, String)> {
        let invalid = |why: &str| (Errno::Invalid, why.to_owned());
        let (length, numbers) =
            filter(payload).ok_or_else(|| invalid("expected a length and the numbers of contexts"))?;
        let named = numbers
            .iter()
            .map(|number| self.contexts.iter().copied().find(|context| *context as u32 == *number));
        let named: Option<Vec<Context>> = named.collect();
        let named = named.ok_or_else(|| invalid("a context that was not negotiated"))?;
        if (1..named.len()).any(|index| named[..index].contains(&named[index])) {
            return Err(invalid("a context is named twice"));
        }
        let about = Request { length, ..*request };
        let at = self.byte_range(&about).map_err(|(errno, why)| (errno, why.to_owned()))?;
        let status = self.status_of(request, at, &named).await;
        status.map_err(|error| (errno(&error), error.to_string()))
    }

    async fn status_of(
        &self,
        request: &Request,
        at: ByteRange,
        contexts: &[Context],
    ) -> Result<Answer, IoError> {
        let Export { device, origin, .. } = &self.export;
        let only_first = request.flags & CMD_FLAG_REQ_ONE != 0;
        let mut status = Vec::new();
        for context in contexts {
            status.push((*context, block_status(device, *origin, *context, at, only_first).await?));
        }
        Ok(Answer::Status(status))
    }

    async fn read(&self, request: &Request, at: ByteRange, how: Hints) -> Result<Answer, IoError> {
        let device = &self.export.device;
        if request.length >= LARGE_BYTES && device.takes(at) {
            return self.read_large(request, at.touched(device.block()), how).await;
        }
        let into = self.send_queue.memory(at.touched(device.block()).bytes() as usize);
        device.read(at, Buffer::from_vec(into), how).await.map(Answer::Data)
    }

    /// Reads into the buffer that the reply is sent from.
    async fn read_large(&self, request: &Request, at: Extent, how: Hints) -> Result<Answer, IoError> {
        let whole = Buffer::from_vec(self.send_queue.memory_large(at.bytes() as usize));
        let data = whole.cut(ROOM, at.bytes() as usize);
        drop(self.export.device.device().read(at, data, how).await?);
        let (mut bytes, mut header) = (whole.into_vec(), Vec::with_capacity(ROOM));
        let may_be_sparse = self.replies.0 != Style::Simple && request.flags & CMD_FLAG_DF == 0;
        let part = if may_be_sparse { not_zero(&bytes[ROOM..]) } else { 0..bytes.len() - ROOM };
        if part.is_empty() {
            self.send_queue.keep_large(bytes);
            return Ok(Answer::Zeroes);
        }
        let (mut before, all) = (Vec::new(), 0..bytes.len() - ROOM);
        for zeroes in
            [all.start..part.start, part.end..all.end].into_iter().filter(|zeroes| !zeroes.is_empty())
        {
            let offset = request.offset + zeroes.start as u64;
            self.replies.hole(&mut before, request.cookie, offset, zeroes.len() as u32, false);
        }
        let offset = request.offset + part.start as u64;
        self.replies.data(&mut header, request.cookie, offset, part.len() as u64);
        // The header overwrites zeroes that are left out, or the room before the data.
        let start = ROOM + part.start - header.len();
        bytes[start..start + header.len()].copy_from_slice(&header);
        Ok(Answer::Large(before, Large { bytes, start, end: ROOM + part.end }))
    }

    fn data(&self, out: &mut Vec<u8>, request: &Request, data: &Buffer) {
        self.replies.data(out, request.cookie, request.offset, data.len() as u64);
        append(out, data);
    }

    fn status(&self, out: &mut Vec<u8>, request: &Request, status: &[(Context, Vec<(u64, u32)>)]) {
        for (number, (context, parts)) in status.iter().enumerate() {
            let last = number + 1 == status.len();
            self.replies.status(out, request.cookie, request.offset, *context as u32, parts, last);
        }
    }
}

/// The operation of a command that is counted and timed.
fn op(command: Command) -> Option<Op> {
    Some(match command {
        Command::Read => Op::Read,
        Command::Write => Op::Write,
        Command::Flush => Op::Flush,
        Command::Trim => Op::Discard,
        Command::WriteZeroes => Op::WriteZeroes,
        Command::Cache | Command::BlockStatus | Command::Disconnect | Command::Unknown(_) => return None,
    })
}

/// Result of a request.
enum Answer {
    Done,
    Data(Buffer),
    /// Chunks that go before it, and a large reply.
    Large(Vec<u8>, Large),
    /// A read that is all zeroes.
    Zeroes,
    Status(Vec<(Context, Vec<(u64, u32)>)>),
}

fn append(out: &mut Vec<u8>, data: &Buffer) {
    out.reserve(data.len());
    data.for_each(|_, len, bytes| match bytes {
        Some(bytes) => out.extend_from_slice(bytes),
        None => out.resize(out.len() + len, 0),
    });
}

/// Zeroes are detected in units of this many bytes: where there is data, the first bytes decide.
const ZERO_UNIT: usize = 4096;

/// The range of `bytes` without zeroes at its ends, to whole [`ZERO_UNIT`]s.
fn not_zero(bytes: &[u8]) -> Range<usize> {
    let zero = |part: &&[u8]| **part == [0; ZERO_UNIT];
    let start = bytes.chunks_exact(ZERO_UNIT).take_while(zero).count() * ZERO_UNIT;
    let rest = &bytes[start..];
    start..bytes.len() - rest.rchunks_exact(ZERO_UNIT).take_while(zero).count() * ZERO_UNIT
}

/// The protocol's error for a device error.
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
