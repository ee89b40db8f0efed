//! What was read, in the order in which it was first used: a program that is started again reads its files in the same
//! order.

use super::super::analyzer::Graph;
use super::chains::{Chain, fitting};
use super::{Order, Plan};

/// Pages in the order of their first request.
#[derive(Clone, Copy, Debug)]
pub struct FirstTouch;

impl Order for FirstTouch {
    fn order(&self, graph: &Graph, capacity: u64) -> Plan {
        let alone = graph.vertices().iter().map(|&vertex| Chain::new(std::iter::once(vertex)));
        let mut chains: Vec<Chain> = alone.collect();
        chains.sort_by_key(|chain| chain.touched);
        fitting(&chains, capacity)
    }
}
