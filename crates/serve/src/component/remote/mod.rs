//! An export of another NBD server as a component.
//!
//! Invariants: requests are sent in the order of their arrival, those of one instant together; replies may overtake
//! each other. Holes take a few bytes where the server has structured replies. Where the export ends within a sector,
//! the remainder of that sector reads as zeroes and writes to it are dropped. Fault model: the server refuses, fails a
//! request, answers one that was not sent, or goes: from then on every request fails with `Gone`, unless reconnecting
//! is allowed ([`link`]).

mod connect;
mod connection;
mod link;
mod unflushed;

use std::rc::Rc;

use seekless_core::device::{Content, ExtentState, LARGEST_REQUEST_SECTORS, check, io};
use seekless_core::lock::Guard;
use seekless_core::{
    BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, RangeLocks, SECTOR_BYTES,
    Zeroes,
};

use crate::nbd::{Command, constants as c};
use crate::reactor::Reactor;
pub use connect::Connected;
use connection::{Failure, GONE, Reply};
use link::Link;
pub use link::Reconnect;
use unflushed::Written;

/// Sectors of a block status request, at most: what fits a compact request.
const STATUS_SECTORS: u64 = 1 << 22;

/// See the file's header.
pub struct RemoteComponent {
    link: Rc<Link>,
    name: String,
    bytes: u64,
    geometry: Geometry,
    flags: u16,
    /// Whether block status is available.
    has_allocation: bool,
    /// Where writes are sent again: one that overlaps another waits for it, so that it is known which of them counts.
    order: RangeLocks,
}

impl RemoteComponent {
    /// The component called `name` over this connection; it reconnects as `reconnect` says. Inside a runtime.
    pub fn new(
        reactor: &Rc<Reactor>,
        name: &str,
        connected: Connected,
        reconnect: Option<Reconnect>,
    ) -> RemoteComponent {
        let info = connected.info();
        let [smallest, preferred, largest] = info.blocks.unwrap_or([512, 4096, 32 << 20]);
        let sectors = |bytes: u32| u64::from(bytes).div_ceil(SECTOR_BYTES);
        let flags = info.flags;
        let geometry = Geometry {
            sectors: info.bytes.div_ceil(SECTOR_BYTES),
            logical_sectors: sectors(smallest),
            physical_sectors: sectors(preferred).max(sectors(smallest)),
            volatile_cache: flags & c::FLAG_SEND_FLUSH != 0,
            rotational: flags & c::FLAG_ROTATIONAL != 0,
            discard_sectors: if flags & c::FLAG_SEND_TRIM == 0 { 0 } else { sectors(preferred) },
            largest_sectors: (u64::from(largest) / SECTOR_BYTES).clamp(1, LARGEST_REQUEST_SECTORS),
        };
        // Without a cache there are no unflushed writes.
        let resend = |again: &Reconnect| if geometry.volatile_cache { again.resend } else { 0 };
        let reconnect = reconnect.map(|again| Reconnect { resend: resend(&again), ..again });
        RemoteComponent {
            link: Link::new(reactor, connected, reconnect),
            name: name.to_owned(),
            bytes: info.bytes,
            geometry,
            flags,
            has_allocation: info.allocation.is_some(),
            order: RangeLocks::new(),
        }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn error(&self, at: Option<Extent>, (number, why): Failure) -> IoError {
        let kind = match number {
            1 => ErrorKind::ReadOnly,
            22 => ErrorKind::Invalid,
            28 => ErrorKind::NoSpace,
            95 => ErrorKind::Unsupported,
            GONE | 108 => ErrorKind::Gone,
            _ => ErrorKind::Medium,
        };
        IoError::new(kind, self.name.clone(), at, why)
    }

    /// Sends a request, and waits for the answer.
    async fn ask(
        &self,
        command: Command,
        flags: u16,
        at: Extent,
        from: Option<&Buffer>,
    ) -> Result<Reply, IoError> {
        let (place, whole) = if at.sectors == 0 { (None, 0) } else { (Some(at), self.bytes_of(at)) };
        let payload = |out: &mut Vec<u8>| {
            if let Some(from) = from {
                from.look(|bytes| out.extend_from_slice(&bytes[..whole as usize]));
            }
        };
        let reply = self.link.ask(command, flags, at.start.0 * SECTOR_BYTES, whole as u32, payload).await;
        reply.map_err(|failure| self.error(place, failure))
    }

    /// As [`Self::ask`], for a request that changes sectors, and that may wait for others.
    async fn change(
        &self,
        command: Command,
        flags: u16,
        at: Extent,
        from: Option<&Buffer>,
    ) -> Result<(), IoError> {
        let flush = self.link.ask(Command::Flush, 0, 0, 0, |_| {});
        self.link.make_room(flush).await.map_err(|failure| self.error(Some(at), failure))?;
        let done = self.ask(command, flags, at, from).await;
        if done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Medium) {
            self.link.failed();
        }
        done.map(drop)
    }

    /// Waits for requests that change the same sectors, where the order counts.
    async fn in_order(&self, at: Extent, how: &Hints) -> Option<Guard> {
        if self.link.resends() { Some(self.order.exclusive(at, how).await) } else { None }
    }

    /// Bytes of these sectors within the export: the last sector may be partial.
    fn bytes_of(&self, at: Extent) -> u64 {
        at.bytes().min(self.bytes - at.start.0 * SECTOR_BYTES)
    }

    fn check(&self, at: Extent) -> Result<(), IoError> {
        check(&Geometry { largest_sectors: u64::MAX, ..self.geometry }, at, "remote export")
    }

    fn parts(&self, at: Extent) -> impl Iterator<Item = Extent> + use<> {
        at.split(self.geometry.largest_sectors)
    }
}

impl BlockDevice for RemoteComponent {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.check(at)?;
            for part in self.parts(at) {
                let reply = self.ask(Command::Read, 0, part, None).await?;
                let (offset, len) = ((part.start.0 - at.start.0) * SECTOR_BYTES, reply.data.len());
                into.put(offset as usize, &reply.data);
                into.put(offset as usize + len, &[0; SECTOR_BYTES as usize][..part.bytes() as usize - len]);
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            let flags = if how.fua && self.has(c::FLAG_SEND_FUA) { c::CMD_FLAG_FUA } else { 0 };
            let _order = self.in_order(at, &how).await;
            for (part, bytes) in from.split(at, self.geometry.largest_sectors) {
                self.change(Command::Write, flags, part, Some(&bytes)).await?;
                // At once: the server may be gone before the next part is answered.
                if flags == 0 {
                    self.link.wrote(how.origin.stream, part, &Written::Data(bytes));
                } else {
                    self.link.wrote_durably(part);
                }
            }
            if how.fua && flags == 0 { self.flush(how).await } else { Ok(()) }
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            if !self.has(c::FLAG_SEND_FLUSH) {
                return Ok(());
            }
            let flush = self.link.ask(Command::Flush, 0, 0, 0, |_| {});
            let flushed = self.link.flush(how.origin.stream, flush).await;
            flushed.map_err(|failure| self.error(None, failure))
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            if self.has(c::FLAG_SEND_TRIM) {
                let _order = self.in_order(at, &how).await;
                for part in self.parts(at) {
                    self.change(Command::Trim, 0, part, None).await?;
                    self.link.discarded(part);
                }
            }
            Ok(())
        })
    }

    fn prefetch(&self, at: Extent, _how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            if self.has(c::FLAG_SEND_CACHE) {
                for part in self.parts(at) {
                    self.ask(Command::Cache, 0, part, None).await?;
                }
            }
            Ok(())
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            self.check(at)?;
            let known = self.has(c::FLAG_SEND_WRITE_ZEROES);
            if zeroes.only_if_fast && !(known && self.has(c::FLAG_SEND_FAST_ZERO)) {
                return Err(self.error(Some(at), (95, "the server has no fast zeroes".to_owned())));
            }
            if !known {
                return self.write(at, Buffer::zeroed(at.bytes()), how).await;
            }
            let mut flags = if zeroes.may_unmap { 0 } else { c::CMD_FLAG_NO_HOLE };
            flags |= if zeroes.only_if_fast { c::CMD_FLAG_FAST_ZERO } else { 0 };
            let _order = self.in_order(at, &how).await;
            for part in self.parts(at) {
                self.change(Command::WriteZeroes, flags, part, None).await?;
                self.link.wrote(how.origin.stream, part, &Written::Zeroes(flags & !c::CMD_FLAG_FAST_ZERO));
            }
            if how.fua { self.flush(how).await } else { Ok(()) }
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            self.check(at)?;
            let (mut states, mut from, end) = (Vec::new(), at.start.0, at.end().0);
            while from < end && self.has_allocation {
                let rest = Extent::new(from, (end - from).min(STATUS_SECTORS));
                let reply = self.ask(Command::BlockStatus, 0, rest, None).await?;
                let before = from;
                for (bytes, flags) in reply.states {
                    let to = from * SECTOR_BYTES + u64::from(bytes);
                    let sectors = to.div_ceil(SECTOR_BYTES).min(end) - from;
                    // A state that covers no whole sector says nothing about any.
                    if sectors == 0 || (to % SECTOR_BYTES != 0 && to != self.bytes) {
                        break;
                    }
                    put(&mut states, Extent::new(from, sectors), content(flags));
                    from += sectors;
                }
                if from == before {
                    break;
                }
            }
            if from < end {
                put(&mut states, Extent::new(from, end - from), Content::Unknown);
            }
            Ok(states)
        })
    }
}

/// The content that flags of `base:allocation` describe.
fn content(flags: u32) -> Content {
    match (flags & c::STATE_ZERO != 0, flags & c::STATE_HOLE != 0) {
        (true, true) => Content::Hole,
        (true, false) => Content::Zero,
        (false, true) => Content::Unknown,
        (false, false) => Content::Data,
    }
}

/// Appends a state, merging it with an equal last one.
fn put(states: &mut Vec<ExtentState>, extent: Extent, content: Content) {
    match states.last_mut() {
        Some(last) if last.content == content => last.extent.sectors += extent.sectors,
        _ => states.push(ExtentState { extent, content }),
    }
}
