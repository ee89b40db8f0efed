//! A request of a virtual machine, from its descriptor chain to its status.

use std::rc::Rc;

use seekless_core::{Buffer, Class, Hints, IoError, Op, Origin, SECTOR_BYTES, StreamId, Ticket, Zeroes};

use super::super::byte_adapter::ByteRange;
use super::super::request::deadline;
use super::session::Session;
use crate::vhost::block::{
    HEADER_BYTES, Header, Kind, MOST_BYTES, NAME_BYTES, RANGE_BYTES, RANGES, Range, Status,
};
use crate::vhost::chain::{self, gather, scatter};
use crate::vhost::{Chain, GuestMemory, Malformed};

/// See the file's header.
pub struct Request {
    pub memory: Rc<GuestMemory>,
    pub head: u16,
    header: Header,
    chain: Chain,
    /// Bytes of data after the header, and before the status.
    out_bytes: u64,
    in_bytes: u64,
}

/// Why a request failed.
enum Failure {
    /// The device's error, or a request that no driver should send.
    Failed,
    /// A kind that is not offered.
    Unsupported,
    /// Its memory is not the guest's any more.
    Malformed(Malformed),
}

impl From<IoError> for Failure {
    fn from(_: IoError) -> Failure {
        Failure::Failed
    }
}

impl From<Malformed> for Failure {
    fn from(why: Malformed) -> Failure {
        Failure::Malformed(why)
    }
}

impl Request {
    /// The request of a chain.
    ///
    /// # Errors
    /// A chain without room for a header and a status: it cannot be answered.
    pub fn read(memory: Rc<GuestMemory>, head: u16, chain: Chain) -> Result<Request, Malformed> {
        let (out_bytes, in_bytes) = (chain::bytes(chain.readable()), chain::bytes(chain.writable()));
        let place = || format!("request of head {head}");
        if out_bytes < HEADER_BYTES as u64 {
            let expected = format!("a header of {HEADER_BYTES}");
            return Err(Malformed::new(place(), format!("{out_bytes} bytes to read"), expected));
        } else if in_bytes == 0 {
            return Err(Malformed::new(place(), "no byte to write", "one for the status"));
        }
        let mut header = [0; HEADER_BYTES];
        gather(&memory, chain.readable(), 0, &mut header)?;
        let header = Header::read(&header);
        let (out_bytes, in_bytes) = (out_bytes - HEADER_BYTES as u64, in_bytes - 1);
        Ok(Request { memory, head, header, chain, out_bytes, in_bytes })
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        match self.header.kind {
            Kind::In => self.in_bytes.min(MOST_BYTES),
            Kind::Out => self.out_bytes.min(MOST_BYTES),
            _ => 0,
        }
    }

    /// Carries it out with `held` bytes of memory, and writes its status; returns the bytes written to the guest.
    pub async fn carry_out(&self, session: &Session, held: u64) -> Result<u32, Malformed> {
        let (export, bytes) = (&session.export, self.bytes());
        let op = match self.header.kind {
            Kind::In => Some(Op::Read),
            Kind::Out => Some(Op::Write),
            Kind::Flush => Some(Op::Flush),
            Kind::Discard => Some(Op::Discard),
            Kind::WriteZeroes => Some(Op::WriteZeroes),
            Kind::Name | Kind::Unknown(_) => None,
        };
        let timed = op.map(|op| export.meter.begin(op, bytes));
        let done = self.execute(session, held).await;
        if let Some(timed) = timed {
            timed.end(done.is_err());
        }
        let status = match done {
            Ok(()) => Status::Ok,
            Err(Failure::Failed) => Status::IoError,
            Err(Failure::Unsupported) => Status::Unsupported,
            Err(Failure::Malformed(why)) => return Err(why),
        };
        let mut served = session.server.served.borrow_mut();
        served.requests += 1;
        match (status, op) {
            (Status::IoError | Status::Unsupported, _) => served.failed += 1,
            (Status::Ok, Some(Op::Read)) => served.read_bytes += bytes,
            (Status::Ok, Some(Op::Write)) => served.written_bytes += bytes,
            (Status::Ok, _) => {}
        }
        drop(served);
        scatter(&self.memory, self.chain.writable(), self.in_bytes, &[status as u8])?;
        Ok(u32::try_from(self.in_bytes + 1).unwrap_or(u32::MAX))
    }

    async fn execute(&self, session: &Session, held: u64) -> Result<(), Failure> {
        let class = session.export.class;
        let ticket = (class > Class::Foreground).then(Ticket::new);
        // Cancelled when dropped, with the request.
        let _deadline = ticket.clone().filter(|_| class == Class::Free).map(deadline);
        let origin = Origin { stream: StreamId(session.number), ..Origin::default() };
        let how = Hints { origin, class, ticket, ..Hints::default() };
        match self.header.kind {
            Kind::In => self.read_sectors(session, held, how).await,
            Kind::Out => self.write_sectors(session, held, how).await,
            Kind::Flush => Ok(session.export.device.device().flush(how).await?),
            Kind::Name => self.name(session),
            // Boxed, or the future of every request would have room for these.
            Kind::Discard | Kind::WriteZeroes => Box::pin(self.change_ranges(session, how)).await,
            Kind::Unknown(_) => Err(Failure::Unsupported),
        }
    }

    /// The range of this many bytes from its sector on.
    fn range(session: &Session, sector: u64, bytes: u64) -> Result<ByteRange, Failure> {
        let start = sector.checked_mul(SECTOR_BYTES).ok_or(Failure::Failed)?;
        let end = start.checked_add(bytes).ok_or(Failure::Failed)?;
        let fits = bytes % SECTOR_BYTES == 0 && end <= session.export.bytes();
        if fits { Ok(ByteRange { start, end }) } else { Err(Failure::Failed) }
    }

    /// The range of its data, which is counted; an error without any, or with more than may be.
    fn data_range(&self, session: &Session, is_read: bool, bytes: u64) -> Result<ByteRange, Failure> {
        if bytes == 0 || bytes > MOST_BYTES {
            return Err(Failure::Failed);
        }
        let at = Request::range(session, self.header.sector, bytes)?;
        session.export.accesses.count(is_read, at.start, bytes);
        Ok(at)
    }

    async fn read_sectors(&self, session: &Session, held: u64, how: Hints) -> Result<(), Failure> {
        let (device, at) = (&session.export.device, self.data_range(session, true, self.in_bytes)?);
        for part in pieces(at, held) {
            let into = Buffer::zeroed(part.touched(device.block()).bytes());
            let data = device.read(part, into, how.clone()).await?;
            let skip = part.start - at.start;
            data.look(|data| scatter(&self.memory, self.chain.writable(), skip, data))?;
        }
        Ok(())
    }

    async fn write_sectors(&self, session: &Session, held: u64, how: Hints) -> Result<(), Failure> {
        writable(session)?;
        let (device, at) = (&session.export.device, self.data_range(session, false, self.out_bytes)?);
        let how = Hints { fua: session.writes_through(), ..how };
        for part in pieces(at, held) {
            let mut data = vec![0; (part.end - part.start) as usize];
            let skip = HEADER_BYTES as u64 + part.start - at.start;
            gather(&self.memory, self.chain.readable(), skip, &mut data)?;
            permit(session, part).await;
            device.write(part, Buffer::from_vec(data), how.clone()).await?;
        }
        Ok(())
    }

    /// Discards or zeroes the ranges in its data.
    async fn change_ranges(&self, session: &Session, how: Hints) -> Result<(), Failure> {
        writable(session)?;
        let count = self.out_bytes / RANGE_BYTES as u64;
        if count == 0 || count > RANGES.into() || self.out_bytes % RANGE_BYTES as u64 != 0 {
            return Err(Failure::Failed);
        }
        let (device, discards) = (&session.export.device, self.header.kind == Kind::Discard);
        let fua = session.writes_through();
        let mut ranges = Vec::new();
        for number in 0..count {
            let (mut bytes, skip) = ([0; RANGE_BYTES], HEADER_BYTES as u64 + number * RANGE_BYTES as u64);
            gather(&self.memory, self.chain.readable(), skip, &mut bytes)?;
            let range = Range::read(&bytes);
            if range.has_unknown_flags || discards && range.unmap {
                return Err(Failure::Unsupported);
            } else if range.is_too_long() {
                return Err(Failure::Failed);
            }
            let at = Request::range(session, range.sector, u64::from(range.sectors) * SECTOR_BYTES)?;
            ranges.push((at, range.unmap));
        }
        for (at, may_unmap) in ranges.into_iter().filter(|(at, _)| at.start < at.end) {
            if discards {
                device.discard(at, how.clone()).await?;
            } else {
                permit(session, at).await;
                let zeroes = Zeroes { may_unmap, only_if_fast: false };
                device.write_zeroes(at, Hints { fua, ..how.clone() }, zeroes).await?;
            }
        }
        if discards && fua {
            device.device().flush(how).await?;
        }
        Ok(())
    }

    /// The device's name: the export's, in zeroes.
    fn name(&self, session: &Session) -> Result<(), Failure> {
        if self.in_bytes < NAME_BYTES as u64 {
            return Err(Failure::Failed);
        }
        let mut name = session.export.info.name.clone().into_bytes();
        name.resize(NAME_BYTES, 0);
        Ok(scatter(&self.memory, self.chain.writable(), 0, &name)?)
    }
}

/// An error for an export that cannot be written.
fn writable(session: &Session) -> Result<(), Failure> {
    if session.export.read_only { Err(Failure::Failed) } else { Ok(()) }
}

/// Waits for the machine's permit for unaligned writes, if these bytes are not whole blocks. The machine keeps it.
async fn permit(session: &Session, at: ByteRange) {
    let device = &session.export.device;
    if at.are_whole(device.block()) || session.unaligned_permit.borrow().is_some() {
        return;
    }
    let permit = device.allow_unaligned().await;
    session.unaligned_permit.borrow_mut().get_or_insert(permit);
}

/// The range in pieces of at most this many bytes.
fn pieces(at: ByteRange, most: u64) -> impl Iterator<Item = ByteRange> {
    let starts = (at.start..at.end).step_by(most.max(1) as usize);
    starts.map(move |start| ByteRange { start, end: at.end.min(start + most.max(1)) })
}
