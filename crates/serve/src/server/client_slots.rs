//! Limits on clients at once, in all and per peer, and separate limits on handshakes.
//!
//! Invariants: no peer takes more than its share of the slots, so others always find some. A refused client
//! gets the reason. A handshake always gets a slot: if there are too many, the oldest of the same peer ends, otherwise
//! the oldest of all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};

use super::peer::Peer;

/// Default limit of clients.
pub const CLIENTS: usize = 1024;
/// Limits of handshakes in flight, in all and per peer. Each lasts some milliseconds, unless the client is silent or
/// far away.
const HANDSHAKES: usize = 512;
const HANDSHAKES_PER_PEER: usize = 128;

/// Slots of clients past the handshake.
pub struct ClientSlots {
    most: usize,
    taken: RefCell<BTreeMap<Peer, usize>>,
}

/// A client's slot, until it is dropped.
pub struct ClientSlot {
    slots: Rc<ClientSlots>,
    peer: Peer,
}

impl ClientSlots {
    /// `most` slots; a peer gets at most half of them.
    pub fn new(most: usize) -> Rc<ClientSlots> {
        Rc::new(ClientSlots { most, taken: RefCell::default() })
    }

    /// Why no slot is free for this peer, if so.
    pub fn refusal(&self, peer: Peer) -> Option<String> {
        let taken = self.taken.borrow();
        let (all, of_peer) = (taken.values().sum::<usize>(), taken.get(&peer).copied().unwrap_or(0));
        let most = self.most.div_ceil(2);
        if of_peer >= most {
            Some(format!("found {of_peer} clients of {peer}, expected at most {most} of one peer"))
        } else if all >= self.most {
            Some(format!("found {all} clients, expected at most {}", self.most))
        } else {
            None
        }
    }

    /// Takes a slot; the caller has checked [`ClientSlots::refusal`] in the same instant.
    pub fn take(self: &Rc<Self>, peer: Peer) -> ClientSlot {
        *self.taken.borrow_mut().entry(peer).or_default() += 1;
        ClientSlot { slots: self.clone(), peer }
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.borrow_mut();
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

/// Handshakes in flight, by client number.
#[derive(Default)]
pub struct Handshakes(RefCell<BTreeMap<u32, (Peer, Arc<OwnedFd>)>>);

impl Handshakes {
    /// Notes the start of a handshake. Returns why another was ended for it, if so.
    pub fn begin(&self, number: u32, peer: Peer, socket: &Arc<OwnedFd>) -> Option<String> {
        let all = &mut *self.0.borrow_mut();
        let of_peer = all.values().filter(|(other, _)| *other == peer).count();
        let oldest = if of_peer >= HANDSHAKES_PER_PEER {
            all.iter().find(|(_, (other, _))| *other == peer).map(|(number, _)| *number)
        } else if all.len() >= HANDSHAKES {
            all.keys().next().copied()
        } else {
            None
        };
        let ended = oldest.and_then(|number| Some((number, all.remove(&number)?)));
        all.insert(number, (peer, socket.clone()));
        let (oldest, (peer, socket)) = ended?;
        let _ = shutdown(socket, Shutdown::Both);
        Some(format!(
            "client {oldest} of {peer}: disconnected during its handshake: found {of_peer} handshakes of that peer, \
             expected at most {HANDSHAKES_PER_PEER}, and {HANDSHAKES} of all"
        ))
    }

    /// Notes its end.
    pub fn end(&self, number: u32) {
        self.0.borrow_mut().remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_has_half_of_the_places() {
        let slots = ClientSlots::new(5);
        let [one, other, third] = [1, 2, 3].map(Peer::Process);
        let mut taken = vec![slots.take(one), slots.take(one), slots.take(one)];
        let why = slots.refusal(one).unwrap();
        assert!(why.contains("3 clients of process 1, expected at most 3"), "{why}");
        assert_eq!(slots.refusal(other), None);
        taken.extend([slots.take(other), slots.take(other)]);
        let why = slots.refusal(third).unwrap();
        assert!(why.contains("5 clients, expected at most 5"), "{why}");
        taken.remove(0);
        assert_eq!((slots.refusal(third), slots.refusal(one)), (None, None));
        taken.clear();
        assert!(slots.taken.borrow().is_empty());
    }

    #[test]
    fn handshakes_that_are_too_many_end_the_oldest_of_the_same_peer() {
        let (handshakes, [one, other]) = (Handshakes::default(), [1, 2].map(Peer::Process));
        let socket = Arc::new(OwnedFd::from(UnixStream::pair().unwrap().0));
        assert_eq!(handshakes.begin(1, other, &socket), None);
        for number in 2..2 + HANDSHAKES_PER_PEER as u32 {
            assert_eq!(handshakes.begin(number, one, &socket), None);
        }
        for number in 1000..3000 {
            assert!(handshakes.begin(number, one, &socket).is_some());
            assert!(handshakes.begin(number + 10_000, other, &socket).is_none() || number > 1000 + 100);
        }
        assert!(handshakes.0.borrow().len() <= 2 * HANDSHAKES_PER_PEER);
        handshakes.end(2999);
        assert_eq!(handshakes.begin(4000, one, &socket), None);
    }
}
