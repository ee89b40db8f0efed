//! A virtual machine's connection: its messages, and the state that they set.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::super::budget::OWN;
use super::super::byte_adapter::UnalignedPermit;
use super::super::peer::Peer;
use super::super::{Export, Server};
use super::queue::Queue;
use super::socket::{Counter, Ended, Received, Socket};
use crate::vhost::message::{self, Area, Header, Message};
use crate::vhost::{Addresses, GuestMemory, Inflight, Malformed, Ring, block};

/// Bytes of a request's data that are carried out at once where memory is short.
const PIECE: u64 = 1 << 20;
const _: () = assert!(PIECE <= OWN);

/// See the file's header.
pub struct Session {
    pub server: Rc<Server>,
    pub export: Rc<Export>,
    pub number: u32,
    peer: Peer,
    socket: Socket,
    features: Cell<u64>,
    protocol: Cell<u64>,
    memory: RefCell<Option<Rc<GuestMemory>>>,
    inflight: RefCell<Option<Rc<Inflight>>>,
    /// Whether writes may be answered before they are durable.
    write_back: Cell<bool>,
    slots: Vec<Slot>,
    /// Bytes that requests in flight hold.
    held: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
    /// Set since its first write of a partial block.
    pub unaligned_permit: RefCell<Option<UnalignedPermit>>,
}

/// What messages have set for a ring.
#[derive(Default)]
pub struct Slot {
    entries: Cell<u16>,
    /// In the process of the virtual machine.
    at: Cell<Option<Addresses>>,
    base: Cell<u16>,
    enabled: Cell<bool>,
    kick: RefCell<Option<Rc<Counter>>>,
    pub call: RefCell<Option<Counter>>,
    pub error: RefCell<Option<Counter>>,
    queue: RefCell<Option<Rc<Queue>>>,
}

/// A reply's payload, and a descriptor beside it.
type Answer = (Vec<u8>, Option<OwnedFd>);

impl Session {
    pub fn new(
        server: &Rc<Server>,
        export: Rc<Export>,
        number: u32,
        peer: Peer,
        socket: Arc<OwnedFd>,
    ) -> Rc<Session> {
        Rc::new(Session {
            server: server.clone(),
            export,
            number,
            peer,
            socket: Socket::new(&server.reactor, socket),
            features: Cell::new(0),
            protocol: Cell::new(0),
            memory: RefCell::default(),
            inflight: RefCell::default(),
            write_back: Cell::new(true),
            slots: std::iter::repeat_with(Slot::default).take(block::RINGS).collect(),
            held: Cell::new(0),
            waiting: RefCell::default(),
            unaligned_permit: RefCell::default(),
        })
    }

    /// Answers messages until the machine disconnects; the error is a reason to disconnect it.
    pub async fn serve(self: &Rc<Self>) -> Result<(), Ended> {
        while let Some(Received { header, payload, descriptors }) = self.socket.next().await? {
            let message = Message::read(header, &payload, descriptors.len())?;
            let is_answered = message.is_answered();
            let (mut answer, descriptor) = self.handle(header, message, descriptors).await?;
            if !is_answered {
                if !header.needs_reply || self.protocol.get() & message::PROTOCOL_REPLY_ACK == 0 {
                    continue;
                }
                answer = message::number(0).to_vec();
            }
            self.socket.reply(header.reply(&answer), descriptor).await?;
        }
        Ok(())
    }

    /// Stops all rings, once their requests are answered.
    pub async fn stop(&self) {
        for slot in &self.slots {
            slot.stop().await;
        }
    }

    async fn handle(
        self: &Rc<Self>,
        header: Header,
        message: Message,
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, Malformed> {
        let number = |number: u64| Ok((message::number(number).to_vec(), None));
        match message {
            Message::GetFeatures => return number(block::features(self.export.read_only)),
            Message::SetFeatures(features) => {
                self.features.set(agreed("SET_FEATURES", features, block::features(self.export.read_only))?);
            }
            Message::SetOwner => {}
            Message::ResetOwner | Message::ResetDevice => self.stop().await,
            Message::SetMemTable(regions) => self.set_memory(GuestMemory::map(&regions, descriptors)?),
            Message::GetVringBase { ring } => {
                let slot = &self.slots[ring];
                slot.stop().await;
                // A new one starts the ring.
                slot.kick.take();
                return Ok((message::base(ring, slot.base.get()).to_vec(), None));
            }
            Message::GetProtocolFeatures => return number(message::PROTOCOL_FEATURES),
            Message::SetProtocolFeatures(features) => {
                self.protocol.set(agreed("SET_PROTOCOL_FEATURES", features, message::PROTOCOL_FEATURES)?);
            }
            Message::GetQueueNum => return number(block::RINGS as u64),
            Message::GetConfig { offset, bytes, flags } => {
                return Ok((message::config(offset, flags, &self.config(offset, bytes)), None));
            }
            Message::SetConfig { offset, bytes } => self.set_config(offset, &bytes)?,
            Message::GetInflightFd(Area { rings, entries, .. }) => {
                let (file, area) = Inflight::create(rings, entries)?;
                return Ok((message::area(&area, header), Some(file)));
            }
            Message::SetInflightFd(area) => self.set_inflight(&area, descriptors.remove(0))?,
            of_ring => self.set_ring(of_ring, descriptors.pop()).await?,
        }
        Ok((Vec::new(), None))
    }

    /// Handles the messages that set the state of a ring, with their descriptor.
    async fn set_ring(
        self: &Rc<Self>,
        message: Message,
        descriptor: Option<OwnedFd>,
    ) -> Result<(), Malformed> {
        let counter = |place| descriptor.map(|descriptor| Counter::of(place, descriptor)).transpose();
        match message {
            Message::SetVringNum { ring, entries } => self.slots[ring].entries.set(entries),
            Message::SetVringAddr { ring, at } => self.slots[ring].at.set(Some(at)),
            Message::SetVringBase { ring, base } => self.slots[ring].base.set(base),
            Message::SetVringKick { ring } => {
                self.slots[ring].stop().await;
                let Some(kick) = counter("SET_VRING_KICK")? else {
                    let expected = "one: rings are not polled";
                    return Err(Malformed::new("SET_VRING_KICK", "no descriptor", expected));
                };
                self.slots[ring].kick.replace(Some(Rc::new(kick)));
                self.start(ring)?;
            }
            Message::SetVringCall { ring } => {
                let call = counter("SET_VRING_CALL")?;
                let slot = &self.slots[ring];
                if let (Some(call), true) = (&call, slot.queue.borrow().is_some()) {
                    // What was answered meanwhile may have been announced to nothing.
                    call.count();
                }
                slot.call.replace(call);
            }
            Message::SetVringErr { ring } => drop(self.slots[ring].error.replace(counter("SET_VRING_ERR")?)),
            Message::SetVringEnable { ring, enabled } => {
                self.slots[ring].enabled.set(enabled);
                if enabled {
                    self.start(ring)?;
                } else {
                    self.slots[ring].stop().await;
                }
            }
            other => unreachable!("{other:?} is of no ring"),
        }
        Ok(())
    }

    /// Starts a ring, if all of it is known.
    fn start(self: &Rc<Self>, number: usize) -> Result<(), Malformed> {
        let slot = &self.slots[number];
        // Without protocol features there is no message that enables a ring.
        let enabled = slot.enabled.get() || self.features.get() & message::F_PROTOCOL_FEATURES == 0;
        let kick = slot.kick.borrow().clone().filter(|_| enabled && slot.queue.borrow().is_none());
        let Some(kick) = kick else { return Ok(()) };
        let place = |text: &str| format!("ring {number} that starts: {text}");
        let memory = self.memory.borrow().clone();
        let memory = memory.ok_or_else(|| Malformed::new(place("memory"), "none", "SET_MEM_TABLE before"))?;
        let at = slot.at.get();
        let at = at.ok_or_else(|| Malformed::new(place("addresses"), "none", "SET_VRING_ADDR before"))?;
        let guest = |user: u64| {
            let outside = || Malformed::new(place("address"), format!("{user:#x}"), "an address in a region");
            memory.guest_address(user).ok_or_else(outside)
        };
        let at = Addresses {
            descriptors: guest(at.descriptors)?,
            available: guest(at.available)?,
            used: guest(at.used)?,
        };
        let by_index = self.features.get() & block::F_EVENT_INDEX != 0;
        let mut ring = Ring::new(&memory, at, slot.entries.get(), slot.base.get(), by_index)?;
        let inflight = self.inflight.borrow().clone();
        let mut track = inflight.map(|area| area.track(number, slot.entries.get())).transpose()?;
        let waiting = match &mut track {
            Some(track) => track.recover(ring.used_index())?,
            None => Vec::new(),
        };
        if track.is_some() {
            // The frontend knows only which heads were answered.
            ring.skip_to(ring.used_index().wrapping_add(waiting.len() as u16));
        }
        slot.queue.replace(Some(Queue::start(self, number, kick, memory, ring, track, waiting)));
        Ok(())
    }

    fn set_memory(&self, memory: GuestMemory) {
        let memory = Rc::new(memory);
        for queue in self.slots.iter().filter_map(|slot| slot.queue.borrow().clone()) {
            queue.set_memory(&memory);
        }
        self.memory.replace(Some(memory));
    }

    /// Bytes of configuration space; zeroes beyond its end.
    fn config(&self, offset: u32, bytes: u32) -> Vec<u8> {
        let geometry = self.export.device.device().geometry();
        let space = block::config(&geometry, self.write_back.get());
        let mut answer = space.get(offset as usize..).unwrap_or_default().to_vec();
        answer.resize(bytes as usize, 0);
        answer
    }

    fn set_config(&self, offset: u32, bytes: &[u8]) -> Result<(), Malformed> {
        let (block::WRITE_BACK_AT, [write_back @ (0 | 1)]) = (offset, bytes) else {
            let found = format!("{bytes:?} at {offset}");
            return Err(Malformed::new("SET_CONFIG", found, format!("0 or 1 at {}", block::WRITE_BACK_AT)));
        };
        self.write_back.set(*write_back == 1);
        let inflight = self.inflight.borrow().clone();
        inflight.map_or(Ok(()), |area| area.note_write_back(self.write_back.get()))
    }

    fn set_inflight(&self, area: &Area, file: OwnedFd) -> Result<(), Malformed> {
        let area = Inflight::open(file, area)?;
        // After a restart, the choice that the guest made before: nothing repeats it. Where it is not known, the safe
        // one.
        let write_back = area.write_back().unwrap_or_else(|| area.is_new() && self.write_back.get());
        self.write_back.set(write_back);
        area.note_write_back(write_back)?;
        self.inflight.replace(Some(area));
        Ok(())
    }

    /// What was set for a ring.
    pub fn slot(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    /// Whether a write must be durable when it is answered.
    pub fn writes_through(&self) -> bool {
        block::writes_through(self.features.get(), self.write_back.get())
    }

    /// Waits until a request may hold up to `bytes` bytes, and has it hold them; returns how many: all, or where memory
    /// is short, [`PIECE`].
    pub async fn admit(&self, bytes: u64) -> u64 {
        let budget = &self.server.budget;
        poll_fn(|context| {
            let held = self.held.get();
            for share in [bytes, bytes.min(PIECE)] {
                if budget.grow(self.peer, held, held + share) {
                    self.held.set(held + share);
                    return Poll::Ready(share);
                }
            }
            budget.wake_on_shrink(context.waker());
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// A request holds these bytes no longer.
    pub fn release(&self, bytes: u64) {
        let held = self.held.get();
        self.held.set(held - bytes);
        self.server.budget.shrink(self.peer, held, held - bytes);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

impl Slot {
    /// Stops the ring, once its requests are answered.
    async fn stop(&self) {
        let queue = self.queue.borrow().clone();
        let Some(queue) = queue else { return };
        self.base.set(queue.stop().await);
        self.queue.take();
    }
}

/// The features, if all of them were offered.
fn agreed(place: &str, features: u64, offered: u64) -> Result<u64, Malformed> {
    let others = features & !offered;
    if others == 0 {
        Ok(features)
    } else {
        Err(Malformed::new(place, format!("features {others:#x}"), format!("a part of {offered:#x}")))
    }
}
