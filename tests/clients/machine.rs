//! The front end of a virtual machine without a machine: messages of vhost-user, and rings in memory that it shares.
//! Its memory is a file in memory, which it reads and writes as one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const NAME: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

/// Entries of a ring. A request's chain has the four descriptors from its head on.
pub const ENTRIES: u16 = 128;
const MEMORY: u64 = 48 << 20;
/// Where the process of the machine would have its memory.
const USER: u64 = 0x7f00_0000_0000;
const RING_BYTES: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
/// A head's header, status, and data of up to `MOST` bytes.
const DATA: u64 = 1 << 20;
const SLOT: u64 = 512 << 10;
pub const MOST: usize = (SLOT - 8192) as usize;

/// A ring, as its driver knows it.
struct Ring {
    kick: OwnedFd,
    call: OwnedFd,
    error: OwnedFd,
    available: u16,
    used: u16,
    /// Heads that were made available and not answered, with the bytes that they read.
    pending: BTreeMap<u16, u32>,
}

/// See the file's header.
pub struct Machine {
    pub socket: UnixStream,
    memory: File,
    rings: Vec<Ring>,
    inflight: Option<(OwnedFd, Vec<u8>)>,
    pub features: u64,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A process that another test is just starting may have the socket too, for a moment.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

fn counter() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

impl Machine {
    /// Connects, and sets up this many rings.
    pub fn connect(path: &Path, rings: usize) -> Machine {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let memory: File = memfd_create("machine", MemfdFlags::CLOEXEC).unwrap().into();
        memory.set_len(MEMORY).unwrap();
        let ring = |_| Ring {
            kick: counter(),
            call: counter(),
            error: counter(),
            available: 0,
            used: 0,
            pending: BTreeMap::new(),
        };
        let rings = (0..rings).map(ring).collect();
        let mut machine = Machine { socket, memory, rings, inflight: None, features: 0 };
        machine.set_up().unwrap();
        machine
    }

    /// Connects to the next server, as soon as it listens.
    pub fn reconnect(&mut self, path: &Path) {
        self.socket = UnixStream::connect(path).unwrap();
        self.socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        self.set_up().unwrap();
    }

    fn set_up(&mut self) -> io::Result<()> {
        let number = |bytes: Vec<u8>| u64::from_ne_bytes(bytes.try_into().unwrap());
        self.send(3, &[], &[])?;
        self.features = number(self.ask(1, &[])?.0);
        let protocol = number(self.ask(15, &[])?.0);
        self.send(16, &protocol.to_ne_bytes(), &[])?;
        assert!(number(self.ask(17, &[])?.0) >= self.rings.len() as u64);
        // Without notices by index.
        self.send(2, &(self.features & !(1 << 29)).to_ne_bytes(), &[])?;
        let table =
            [(1_u64).to_ne_bytes(), 0_u64.to_ne_bytes(), MEMORY.to_ne_bytes(), USER.to_ne_bytes()].concat();
        self.send(5, &[table, vec![0; 8]].concat(), &[self.memory.as_fd()])?;
        if self.inflight.is_none() {
            let asked = [&[0; 16][..], &2_u16.to_ne_bytes(), &ENTRIES.to_ne_bytes(), &[0; 4]].concat();
            let (area, file) = self.ask(31, &asked)?;
            self.inflight = Some((file.unwrap(), area));
        }
        let (file, area) = self.inflight.as_ref().unwrap();
        self.send(32, area, &[file.as_fd()])?;
        for (number, ring) in (0_u32..).zip(&self.rings) {
            let state = |value: u32| [number.to_ne_bytes(), value.to_ne_bytes()].concat();
            let at = USER + u64::from(number) * RING_BYTES;
            self.send(8, &state(ENTRIES.into()), &[])?;
            self.send(10, &state(ring.used.into()), &[])?;
            let addresses = [at, at + USED, at + AVAILABLE, 0].map(u64::to_ne_bytes).concat();
            self.send(9, &[state(0), addresses].concat(), &[])?;
            let index = u64::from(number).to_ne_bytes();
            self.send(12, &index, &[ring.kick.as_fd()])?;
            self.send(13, &index, &[ring.call.as_fd()])?;
            self.send(14, &index, &[ring.error.as_fd()])?;
            self.send(18, &state(1), &[])?;
        }
        // All of that was accepted.
        self.ask(17, &[]).map(drop)
    }

    /// Sends a message.
    pub fn send(&self, request: u32, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(1, request, payload, descriptors)
    }

    fn send_with(
        &self,
        flags: u32,
        request: u32,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes =
            [&[request, flags, payload.len() as u32].map(u32::to_ne_bytes).concat(), payload].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(beside.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let sent =
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
        assert_eq!(sent, bytes.len());
        Ok(())
    }

    /// Sends a message, and receives the payload of its reply and a descriptor beside it.
    pub fn ask(&self, request: u32, payload: &[u8]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        self.send(request, payload, &[])?;
        self.reply(request)
    }

    /// Sends a message that is acknowledged.
    pub fn acknowledged(&self, request: u32, payload: &[u8]) -> io::Result<()> {
        self.send_with(1 | 8, request, payload, &[])?;
        let (payload, _) = self.reply(request)?;
        assert_eq!(payload, 0_u64.to_ne_bytes());
        Ok(())
    }

    fn reply(&self, request: u32) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let (mut header, mut file) = ([0; 12], None);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [io::IoSliceMut::new(&mut header)];
        let received = rustix::net::recvmsg(&self.socket, into, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(mut all) = message {
                file = all.next();
            }
        }
        if received.bytes < 12 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(4)), (request, 1 | 4), "a reply to it");
        let mut payload = vec![0; word(8) as usize];
        (&self.socket).read_exact(&mut payload)?;
        Ok((payload, file))
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        match (&self.socket).read(&mut [0; 1]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Bytes of configuration space.
    pub fn config(&self, offset: u32, bytes: u32) -> Vec<u8> {
        let asked = [[offset, bytes, 0].map(u32::to_ne_bytes).concat(), vec![0; bytes as usize]].concat();
        self.ask(24, &asked).unwrap().0.split_off(12)
    }

    /// Chooses write-back or write-through.
    pub fn set_write_back(&self, write_back: bool) {
        let payload = [[32_u32, 1, 0].map(u32::to_ne_bytes).concat(), vec![u8::from(write_back)]].concat();
        self.acknowledged(25, &payload).unwrap();
    }

    fn word(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// Puts a descriptor into the table of a ring.
    pub fn describe(&self, ring: usize, index: u16, (at, bytes, flags, next): (u64, u32, u16, u16)) {
        let numbers =
            [&at.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()];
        self.put(ring as u64 * RING_BYTES + u64::from(index) * 16, &numbers.concat());
    }

    /// Makes a head available.
    pub fn offer(&mut self, ring: usize, head: u16) {
        let (front, base) = (&self.rings[ring], ring as u64 * RING_BYTES + AVAILABLE);
        let next = front.available.wrapping_add(1);
        self.put(base + 4 + 2 * u64::from(front.available % ENTRIES), &head.to_le_bytes());
        self.put(base + 2, &next.to_le_bytes());
        self.rings[ring].available = next;
        // Full only if nothing has read it: then it is known anyway.
        let _ = rustix::io::write(&self.rings[ring].kick, &1_u64.to_ne_bytes());
    }

    fn slot(ring: usize, head: u16) -> u64 {
        DATA + (ring as u64 * u64::from(ENTRIES / 4) + u64::from(head / 4)) * SLOT
    }

    /// A head of a ring whose chain is free, if there is one.
    pub fn free(&self, ring: usize) -> Option<u16> {
        (0..ENTRIES).step_by(4).find(|head| !self.rings[ring].pending.contains_key(head))
    }

    /// Submits a request with data to write and room for `room` bytes to read.
    pub fn submit(&mut self, ring: usize, head: u16, (kind, sector): (u32, u64), data: &[u8], room: u32) {
        let at = Machine::slot(ring, head);
        assert!(data.len() <= MOST && room as usize <= MOST && at + SLOT <= MEMORY);
        let header = [&kind.to_le_bytes()[..], &0_u32.to_le_bytes(), &sector.to_le_bytes()].concat();
        self.put(at, &header);
        self.put(at + 16, &[0xff]);
        self.put(at + 4096, data);
        let (out_bytes, in_bytes) = (data.len() as u32, room);
        let (data_flags, data_bytes) = if room > 0 { (2, in_bytes) } else { (0, out_bytes) };
        let status = head + 2;
        let after_header = if data_bytes > 0 { head + 1 } else { status };
        self.describe(ring, head, (at, 16, 1, after_header));
        self.describe(ring, head + 1, (at + 4096, data_bytes, 1 | data_flags, status));
        self.describe(ring, status, (at + 16, 1, 2, 0));
        assert!(self.rings[ring].pending.insert(head, room).is_none());
        self.offer(ring, head);
    }

    /// Takes the answers that are there: heads, their status and data.
    pub fn answers(&mut self, ring: usize) -> Vec<(u16, u8, Vec<u8>)> {
        let base = ring as u64 * RING_BYTES + USED;
        let (mut answers, used) = (Vec::new(), self.word(base + 2));
        while self.rings[ring].used != used {
            let slot = base + 4 + 8 * u64::from(self.rings[ring].used % ENTRIES);
            let (head, written) = (self.word(slot), self.word(slot + 4));
            let room = self.rings[ring].pending.remove(&head);
            let room =
                room.unwrap_or_else(|| panic!("head {head} of ring {ring} is answered and was not pending"));
            assert_eq!(written, (room + 1) as u16, "bytes written");
            let (at, mut status, mut data) = (Machine::slot(ring, head), [0], vec![0; room as usize]);
            self.memory.read_exact_at(&mut status, at + 16).unwrap();
            self.memory.read_exact_at(&mut data, at + 4096).unwrap();
            answers.push((head, status[0], data));
            self.rings[ring].used = self.rings[ring].used.wrapping_add(1);
        }
        answers
    }

    /// Requests that were not answered.
    pub fn pending(&self) -> usize {
        self.rings.iter().map(|ring| ring.pending.len()).sum()
    }

    /// Waits for an interrupt of a ring, and takes its answers.
    pub fn wait(&mut self, ring: usize) -> Vec<(u16, u8, Vec<u8>)> {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let answers = self.answers(ring);
            if !answers.is_empty() {
                return answers;
            }
            assert!(Instant::now() < limit, "ring {ring}: {} requests are not answered", self.pending());
            Machine::wait_for(&self.rings[ring].call, Duration::from_millis(500));
        }
    }

    /// Waits for an event, and resets its counter; false without one.
    fn wait_for(counter: &OwnedFd, time: Duration) -> bool {
        let mut polled = [rustix::event::PollFd::new(counter, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec {
            tv_sec: time.as_secs().try_into().unwrap(),
            tv_nsec: time.subsec_nanos().into(),
        };
        rustix::event::poll(&mut polled, Some(&limit)).unwrap();
        rustix::io::read(counter, &mut [0; 8]).is_ok()
    }

    /// Whether the server reports an error of a ring.
    pub fn has_failed(&self, ring: usize) -> bool {
        Machine::wait_for(&self.rings[ring].error, Duration::from_secs(10))
    }

    /// Carries out one request: its status and data.
    pub fn request(&mut self, ring: usize, kind: u32, sector: u64, data: &[u8], room: u32) -> (u8, Vec<u8>) {
        assert_eq!(self.pending(), 0);
        self.submit(ring, 0, (kind, sector), data, room);
        let (_, status, data) = self.wait(ring).remove(0);
        (status, data)
    }

    /// Stops a ring: the index of its next head.
    pub fn stop_ring(&self, ring: u32) -> u32 {
        let (payload, _) = self.ask(11, &[ring.to_ne_bytes(), [0; 4]].concat()).unwrap();
        u32::from_ne_bytes(payload[4..8].try_into().unwrap())
    }
}
