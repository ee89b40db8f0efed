//! A request of a client, from its header to its reply.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use seekless_core::{
    Buffer, Class, ErrorKind, Extent, Hints, IoError, Nanos, Origin, StreamId, Ticket, Zeroes, runtime,
};

use super::Server;
use super::byte_adapter::{Bytes, UnalignedPermit};
use super::export::Export;
use super::send_queue::{Large, ROOM, SendQueue};
use super::status::block_status;
use crate::nbd::constants::{
    CMD_FLAG_DF, CMD_FLAG_FAST_ZERO, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE, CMD_FLAG_REQ_ONE,
};
use crate::nbd::{Command, Context, Errno, Replies, Request, Style, filter};

/// Reads from this many bytes on are not copied to their replies: below it, replies that go together cost less. Zeroes at
/// their ends are left out, where the reply has a way to say so.
const LARGE_BYTES: u64 = 32 << 10;
/// So long a request of class `Free` waits for others to carry it along.
const FREE_DEADLINE: Nanos = Nanos::from_millis(5_000);
/// What clients that know no better have for the largest request.
const USUAL_LARGEST: u64 = 32 << 20;

/// Of requests that are about no bytes.
const NOTHING: Bytes = Bytes { start: 0, end: 0 };

/// A request of class `Free` goes on in the background when nothing has carried it out for long enough.
fn deadline(ticket: Ticket) -> runtime::Task<()> {
    runtime::spawn(async move {
        runtime::sleep(FREE_DEADLINE).await;
        ticket.promote(Class::Background);
    })
}

/// A client that was agreed with.
pub struct Session {
    pub server: Rc<Server>,
    pub export: Export,
    pub replies: Replies,
    pub contexts: Vec<Context>,
    /// The client was told of the sizes of blocks.
    pub knows_blocks: bool,
    /// Since it first wrote a part of a block.
    pub unaligned_permit: RefCell<Option<UnalignedPermit>>,
    pub send_queue: Rc<SendQueue>,
    pub client: u32,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It is carried out.
    Execute(Bytes),
    /// The same, and it has a payload.
    Receive(Bytes),
    /// It makes no sense.
    Refuse(Errno, &'static str),
}

impl Plan {
    /// The bytes that a request holds until it is answered, as far as that is known from its header: of what it sends, no
    /// more than a client may always hold.
    pub fn holds(self, request: &Request) -> u64 {
        match self {
            Plan::Execute(_) if request.command == Command::Read => request.length,
            Plan::Receive(_) => request.payload.min(PIECE as u64),
            _ => 0,
        }
    }
}

/// Of longer payloads so many bytes are received at a time: what a client may always hold.
pub const PIECE: usize = 1 << 20;

/// What came with a request.
#[derive(Default)]
pub struct Payload {
    /// The last bytes of it, or all.
    pub bytes: Vec<u8>,
    /// Bytes before those, which are written already.
    pub written: u64,
    /// Why some of them are not.
    pub failed: Option<IoError>,
    /// Bytes that the request holds until it is answered.
    pub holds: u64,
}

impl Session {
    /// Whether a request makes sense.
    pub fn plan(&self, request: &Request) -> Plan {
        let invalid = |why| Plan::Refuse(Errno::Invalid, why);
        if !request.well_formed {
            return invalid("flags that do not go with this command");
        }
        match request.command {
            Command::Write => {}
            // What it is about stands in the payload, which is judged when it is here.
            Command::BlockStatus if request.payload > 0 => {
                return if request.payload <= 8 + 4 * self.contexts.len() as u64 {
                    Plan::Receive(NOTHING)
                } else {
                    invalid("a payload that names more contexts than were agreed on")
                };
            }
            _ if request.payload > 0 => return invalid("a payload with a command that has none"),
            _ => {}
        }
        match request.command {
            Command::Unknown(_) | Command::Disconnect => return invalid("an unknown command"),
            Command::Flush => return Plan::Execute(NOTHING),
            Command::BlockStatus if self.contexts.is_empty() => return invalid("no context was agreed on"),
            _ => {}
        }
        match self.byte_range(request) {
            Err((errno, why)) => Plan::Refuse(errno, why),
            Ok(at) if request.command == Command::Write => Plan::Receive(at),
            Ok(at) => Plan::Execute(at),
        }
    }

    /// The bytes that a request is about.
    fn byte_range(&self, request: &Request) -> Result<Bytes, (Errno, &'static str)> {
        let info = &self.export.info;
        let invalid = |why| Err((Errno::Invalid, why));
        let writes = matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        let moves = matches!(request.command, Command::Read | Command::Write);
        if writes && self.export.read_only {
            return Err((Errno::NotPermitted, "the export is read-only"));
        }
        let end = request.offset.checked_add(request.length);
        if request.length == 0 {
            return invalid("expected a length of at least one block");
        } else if end.is_none_or(|end| end > info.bytes) {
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "it reaches past the end of the export"));
        } else if moves && request.length > self.largest() {
            return invalid("it is larger than the largest request");
        }
        let at = Bytes { start: request.offset, end: request.offset + request.length };
        Ok(at)
    }

    /// Bytes of the largest request. Who was told nothing of it may take what the protocol has for the usual.
    fn largest(&self) -> u64 {
        let info = u64::from(self.export.info.largest);
        if self.knows_blocks { info } else { info.max(USUAL_LARGEST) }
    }

    /// Waits for leave to write these bytes, from then on until the client goes, if they are no whole blocks.
    async fn ensure_permit(&self, at: Bytes) {
        let device = &self.export.device;
        if at.are_whole(device.block()) || self.unaligned_permit.borrow().is_some() {
            return;
        }
        let ensure_permit = device.allow_unaligned().await;
        // Another request may have waited for the same.
        self.unaligned_permit.borrow_mut().get_or_insert(ensure_permit);
    }

    /// Carries a request out, and puts its reply into the outbox.
    pub async fn answer(self: Rc<Self>, request: Request, plan: Plan, payload: Payload) {
        let holds = payload.holds;
        let result = match plan {
            Plan::Refuse(errno, why) => Err((errno, why.to_owned())),
            Plan::Receive(_) if request.command == Command::BlockStatus => {
                self.filtered_status(&request, &payload.bytes).await
            }
            Plan::Execute(at) | Plan::Receive(at) => {
                let rest = Bytes { start: at.start + payload.written, ..at };
                let carried = match payload.failed {
                    Some(error) => Err(error),
                    None => self.carry_out(&request, rest, payload.bytes).await,
                };
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
        if let Ok(Answer::Large(before, reply)) = result {
            return self.send_queue.reply_large(holds, |out| out.extend(before), reply);
        }
        self.send_queue.reply(holds, |out| match &result {
            Err((errno, why)) => self.replies.error(out, request.cookie, *errno, why),
            Ok(Answer::Done) => self.replies.done(out, request.cookie),
            Ok(Answer::Data(data)) => self.data(out, &request, data),
            Ok(Answer::Zeroes) => {
                self.replies.hole(out, request.cookie, request.offset, request.length as u32, true);
            }
            Ok(Answer::Status(parts)) => self.status(out, &request, parts),
            Ok(Answer::Large(..)) => unreachable!("put in before"),
        });
        if let Ok(Answer::Data(data)) = result {
            self.send_queue.keep(data);
        }
    }

    /// Writes a part of what a request sends, which begins at this byte.
    pub async fn write_part(&self, request: &Request, start: u64, bytes: Vec<u8>) -> Result<(), IoError> {
        let at = Bytes { start, end: start + bytes.len() as u64 };
        self.carry_out(request, at, bytes).await.map(drop)
    }

    async fn carry_out(&self, request: &Request, at: Bytes, payload: Vec<u8>) -> Result<Answer, IoError> {
        let device = &self.export.device;
        let fua = request.flags & CMD_FLAG_FUA != 0;
        let origin = Origin { stream: StreamId(self.client), ..Origin::default() };
        let class = self.export.class;
        let ticket = (class > Class::Foreground).then(Ticket::new);
        // Dropped with the request.
        let _deadline = ticket.clone().filter(|_| class == Class::Free).map(deadline);
        let how = || Hints { fua, origin, class, ticket: ticket.clone(), ..Hints::default() };
        let blocks = at.touched(device.block());
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
            Command::Trim => {
                device.discard(at, how()).await?;
                if fua {
                    device.device().flush(how()).await?;
                }
            }
            Command::WriteZeroes => {
                let may_unmap = request.flags & CMD_FLAG_NO_HOLE == 0;
                let zeroes = Zeroes { may_unmap, only_if_fast: request.flags & CMD_FLAG_FAST_ZERO != 0 };
                self.ensure_permit(at).await;
                device.write_zeroes(at, how(), zeroes).await?;
            }
            Command::Cache => {
                for part in device.parts(blocks) {
                    device.device().prefetch(part, how()).await?;
                }
            }
            Command::BlockStatus => return self.status_of(request, at, &self.contexts).await,
            Command::Disconnect | Command::Unknown(_) => unreachable!("refused before"),
        }
        Ok(Answer::Done)
    }

    /// Block status of the contexts that its payload names.
    async fn filtered_status(&self, request: &Request, payload: &[u8]) -> Result<Answer, (Errno, String)> {
        let invalid = |why: &str| (Errno::Invalid, why.to_owned());
        let (length, numbers) =
            filter(payload).ok_or_else(|| invalid("expected a length and the numbers of contexts"))?;
        let named = numbers
            .iter()
            .map(|number| self.contexts.iter().copied().find(|context| *context as u32 == *number));
        let named: Option<Vec<Context>> = named.collect();
        let named = named.ok_or_else(|| invalid("a context that was not agreed on"))?;
        if (1..named.len()).any(|index| named[..index].contains(&named[index])) {
            return Err(invalid("a context is named twice"));
        }
        let about = Request { length, ..*request };
        let at = self.byte_range(&about).map_err(|(errno, why)| (errno, why.to_owned()))?;
        let status = self.status_of(request, at, &named).await;
        status.map_err(|error| (errno(&error), error.to_string()))
    }

    async fn status_of(&self, request: &Request, at: Bytes, contexts: &[Context]) -> Result<Answer, IoError> {
        let Export { device, home, .. } = &self.export;
        let only_first = request.flags & CMD_FLAG_REQ_ONE != 0;
        let mut status = Vec::new();
        for context in contexts {
            status.push((*context, block_status(device, *home, *context, at, only_first).await?));
        }
        Ok(Answer::Status(status))
    }

    async fn read(&self, request: &Request, at: Bytes, how: Hints) -> Result<Answer, IoError> {
        let device = &self.export.device;
        if request.length >= LARGE_BYTES && device.takes(at) {
            return self.read_large(request, at.touched(device.block()), how).await;
        }
        let into = self.send_queue.memory(at.touched(device.block()).bytes() as usize);
        device.read(at, Buffer::from_vec(into), how).await.map(Answer::Data)
    }

    /// Reads to where it is sent from.
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
        // The header goes where zeroes are that are left out, or into the room before.
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

/// What a request gives besides an error.
enum Answer {
    Done,
    Data(Buffer),
    /// What goes before it, and a large one.
    Large(Vec<u8>, Large),
    /// All that was read.
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

/// Zeroes are looked for by so many bytes: where there is data, its first bytes tell.
const ZERO_UNIT: usize = 4096;

/// The bytes of these that are not zero, but for less than [`ZERO_UNIT`] at either end.
fn not_zero(bytes: &[u8]) -> Range<usize> {
    let zero = |part: &&[u8]| **part == [0; ZERO_UNIT];
    let start = bytes.chunks_exact(ZERO_UNIT).take_while(zero).count() * ZERO_UNIT;
    let rest = &bytes[start..];
    start..bytes.len() - rest.rchunks_exact(ZERO_UNIT).take_while(zero).count() * ZERO_UNIT
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
