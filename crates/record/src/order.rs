//! Merges the events of several CPUs, read from several pipes, into one order in time.
//!
//! Invariants: an event is never released before an earlier one, unless that arrived later than the caller's horizon
//! allowed; at the same instant a name precedes a request, since it applies to it. Memory is what arrived between two
//! releases.

use crate::encode::NAME_BYTES;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Time, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Kind.
    pub kind: Kind,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A thread got a name.
    Named(u32, [u8; NAME_BYTES]),
    /// A block event: its action, thread and CPU, and the record for the file.
    Block {
        /// Action and category.
        action: u32,
        /// The current thread.
        pid: u32,
        /// The current CPU.
        cpu: u32,
        /// The record for the file.
        record: Box<[u8]>,
    },
}

/// Events that have arrived and were not released yet.
#[derive(Debug, Default)]
pub struct Order {
    waiting: Vec<Item>,
}

impl Order {
    /// Adds an event.
    pub fn push(&mut self, item: Item) {
        self.waiting.push(item);
    }

    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Everything up to `horizon_ns`, in order.
    pub fn release(&mut self, horizon_ns: u64) -> impl Iterator<Item = Item> + '_ {
        // Stable: the order of one pipe is preserved.
        self.waiting.sort_by_key(|item| (item.time_ns, matches!(item.kind, Kind::Block { .. })));
        let ready = self.waiting.partition_point(|item| item.time_ns <= horizon_ns);
        self.waiting.drain(..ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(time_ns: u64, pid: u32) -> Item {
        Item { time_ns, kind: Kind::Block { action: 1, pid, cpu: 0, record: Box::default() } }
    }

    #[test]
    fn names_precede_the_requests_of_their_instant() {
        let mut order = Order::default();
        let named = Item { time_ns: 5, kind: Kind::Named(1, *b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0") };
        for item in [block(5, 1), block(9, 2), named.clone(), block(3, 3), block(5, 4)] {
            order.push(item);
        }
        assert_eq!(order.release(5).collect::<Vec<_>>(), [block(3, 3), named, block(5, 1), block(5, 4)]);
        assert_eq!(order.release(8).count(), 0);
        assert_eq!(order.release(u64::MAX).collect::<Vec<_>>(), [block(9, 2)]);
    }
}
