//! What was read, in order of address: the layout of a plain cache of the hottest pages.

use super::super::analyzer::Graph;
use super::chains::{Chain, fitting};
use super::{Order, Plan};

/// Pages in order of address.
#[derive(Clone, Copy, Debug)]
pub struct Address;

impl Order for Address {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let alone = graph.vertices().iter().map(|&vertex| Chain::new(std::iter::once(vertex)));
        fitting(&alone.collect::<Vec<_>>(), capacity)
    }
}
