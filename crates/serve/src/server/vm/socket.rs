//! The socket of a virtual machine: messages in, with the descriptors beside them, and replies out.
//!
//! Fault model: the peer may send a part of a message and no more, more descriptors than fit (the kernel closes them),
//! or vanish at any byte.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::reactor::{Job, Memory, Op, Reactor};
use crate::vhost::Malformed;
use crate::vhost::message::{HEADER_BYTES, Header, MOST_REGIONS};

/// See the file's header.
pub struct Socket {
    reactor: Rc<Reactor>,
    socket: Arc<OwnedFd>,
}

/// A message as it was received.
pub struct Received {
    pub header: Header,
    pub payload: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// Why nothing more can be received.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    #[error("it is gone: {0}")]
    Gone(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Socket {
    pub fn new(reactor: &Rc<Reactor>, socket: Arc<OwnedFd>) -> Socket {
        Socket { reactor: reactor.clone(), socket }
    }

    /// The next message; `None` at the end.
    pub async fn next(&self) -> Result<Option<Received>, Ended> {
        let (mut descriptors, mut bytes) = (Vec::new(), [0; HEADER_BYTES]);
        if !self.fill(&mut bytes, &mut descriptors).await? {
            return Ok(None);
        }
        let header = Header::read(&bytes)?;
        let mut payload = vec![0; header.bytes];
        if !self.fill(&mut payload, &mut descriptors).await? && header.bytes > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Some(Received { header, payload, descriptors }))
    }

    /// Fills `into`, and adds descriptors received with it; false if the stream ends before its first byte.
    async fn fill(&self, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
        let mut got = 0;
        while got < into.len() {
            match self.receive(&mut into[got..], descriptors) {
                Ok(0) if got == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => got += received,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.reactor.submit(Job::without(Op::Ready, &self.socket)).await.result?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(got > 0)
    }

    fn receive(&self, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_REGIONS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.socket, &mut [IoSliceMut::new(into)], &mut beside, flags)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(received.bytes)
    }

    /// Sends a reply, with a descriptor beside it if there is one.
    pub async fn reply(&self, bytes: Vec<u8>, descriptor: Option<OwnedFd>) -> io::Result<()> {
        let Some(descriptor) = descriptor else {
            return self
                .reactor
                .submit(Job::new(Op::Send, &self.socket, Memory::of(bytes)))
                .await
                .result
                .map(drop);
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let rights = [descriptor.as_fd()];
        beside.push(SendAncillaryMessage::ScmRights(&rights));
        // A peer that waits for this reply has read those before: there is room for it.
        let sent = sendmsg(
            &self.socket,
            &[IoSlice::new(&bytes)],
            &mut beside,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// A counter of events (`eventfd`) that a peer has sent, by which one side wakes the other.
pub struct Counter(Arc<OwnedFd>);

impl Counter {
    /// The counter of this descriptor.
    pub fn of(place: &str, descriptor: OwnedFd) -> Result<Counter, Malformed> {
        let found = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        // Where that cannot be read, the peer is trusted: with another kind it harms nothing but its own requests.
        if let Some(other) = found.ok().filter(|kind| kind.as_os_str() != "anon_inode:[eventfd]") {
            return Err(Malformed::new(place, format!("a descriptor of {}", other.display()), "an eventfd"));
        }
        rustix::io::ioctl_fionbio(&descriptor, true)
            .map_err(|error| Malformed::new(place, error.to_string(), "an eventfd"))?;
        Ok(Counter(Arc::new(descriptor)))
    }

    /// Counts an event, and wakes those that wait for one.
    pub fn count(&self) {
        // Fails only if more events than anything could have counted are there: then the other side is awake.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Waits for events, and resets the counter.
    pub async fn wait(&self, reactor: &Rc<Reactor>) -> io::Result<()> {
        reactor.submit(Job::without(Op::Ready, &self.0)).await.result?;
        match rustix::io::read(&*self.0, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
