//! Counters of a queue, for the status of a served volume.

use seekless_core::{Class, Nanos};

use super::wait_queue::WaitQueue;

/// Requests of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Waiting now; flushes are not counted here.
    pub waiting: u64,
    /// Issued to the device so far, by the class that they had then.
    pub issued: u64,
    /// Sum of the times that these waited.
    pub waited: Nanos,
    /// The longest of them.
    pub longest: Nanos,
}

impl QueueCounts {
    /// A request was issued that waited this long.
    pub(super) fn add(&mut self, waited: Nanos) {
        self.issued += 1;
        self.waited += waited;
        self.longest = self.longest.max(waited);
    }
}

impl WaitQueue {
    /// Counters by class, most urgent first.
    pub(super) fn counts(&self) -> [QueueCounts; 4] {
        Class::ALL.map(|class| {
            let waiting = self.waiting[class as usize].len() as u64;
            QueueCounts { waiting, ..self.counts[class as usize] }
        })
    }
}
