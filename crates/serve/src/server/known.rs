//! Clients that were served, by number: all connections of one peer to one export are one client.
//!
//! A client may use several connections, and its requests belong together whichever of them they come over. Numbers are
//! given in the order of arrival, from 1, so that clients that come again after a restart in the same order have the same
//! ones. Invariant: at most [`MOST`] are remembered; later ones, and peers that are not known, share number 0.

use std::cell::RefCell;

use super::peer::Peer;

/// Clients remembered at most.
const MOST: usize = 4_096;

/// See the file's header.
#[derive(Default)]
pub struct Known(RefCell<Vec<(Peer, String)>>);

impl Known {
    /// The number of a peer's connections to an export.
    pub fn number(&self, peer: Peer, export: &str) -> u32 {
        let known = &mut *self.0.borrow_mut();
        let at = known.iter().position(|(known, name)| *known == peer && name == export);
        let is_new = at.is_none() && peer != Peer::Unknown && known.len() < MOST;
        if is_new {
            known.push((peer, export.to_owned()));
        }
        let at = if is_new { Some(known.len() - 1) } else { at };
        at.map_or(0, |at| at as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_peer_to_an_export_are_one_client() {
        let known = Known::default();
        let numbers = [(7, "a"), (9, "a"), (7, "b"), (7, "a"), (9, "a")]
            .map(|(process, export)| known.number(Peer::Process(process), export));
        assert_eq!(numbers, [1, 2, 3, 1, 2]);
        assert_eq!(known.number(Peer::Unknown, "a"), 0);
        for process in 0..5_000 {
            known.number(Peer::Process(process), "c");
        }
        assert_eq!(known.number(Peer::Process(4_999), "c"), 0, "no more are remembered");
        assert_eq!(known.number(Peer::Process(7), "b"), 3);
    }
}
