//! Requests answered at one place of a volume: their numbers, bytes and response times by kind, and how many are in
//! flight. For status and metrics of a served volume.
//!
//! Fault model: a request may be dropped at any time; it then counts neither as answered nor as in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::buckets::Buckets;
use crate::error::IoError;
use crate::request::Op;
use crate::runtime::now;
use crate::units::Nanos;

/// Buckets per doubling, as a power of two: response times are kept to an eighth.
pub const BITS: u32 = 3;

/// See the file's header.
pub struct Meter {
    in_flight: Cell<u64>,
    kinds: RefCell<[Answered; 4]>,
}

/// Names of the kinds of requests that are distinguished; the last are discards and zeroes.
pub const KINDS: [&str; 4] = ["read", "write", "flush", "trim"];

/// Answered requests of a kind.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Number of requests.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// Sum of response times.
    pub sum: Nanos,
    /// The longest response time.
    pub longest: Nanos,
    /// Response times, in nanoseconds.
    pub times: Buckets,
}

/// A request in flight, until it is dropped.
pub struct Timed {
    meter: Rc<Meter>,
    kind: usize,
    bytes: u64,
    since: Nanos,
}

impl Default for Meter {
    fn default() -> Meter {
        let none = || Answered {
            requests: 0,
            failed: 0,
            bytes: 0,
            sum: Nanos::ZERO,
            longest: Nanos::ZERO,
            times: Buckets::new(BITS),
        };
        Meter { in_flight: Cell::new(0), kinds: RefCell::new([none(), none(), none(), none()]) }
    }
}

impl Meter {
    /// A request of `bytes` bytes arrives.
    pub fn begin(self: &Rc<Self>, op: Op, bytes: u64) -> Timed {
        self.in_flight.set(self.in_flight.get() + 1);
        let kind = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush => 2,
            Op::Discard | Op::WriteZeroes => 3,
        };
        Timed { meter: self.clone(), kind, bytes, since: now() }
    }

    /// Awaits the answer of a request that arrives now.
    pub async fn time<T>(
        self: &Rc<Self>,
        op: Op,
        bytes: u64,
        work: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        let timed = self.begin(op, bytes);
        let answer = work.await;
        timed.end(answer.is_err());
        answer
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    /// The answered requests of each kind, with its name.
    pub fn answered(&self) -> [(&'static str, Answered); 4] {
        let kinds = self.kinds.borrow();
        std::array::from_fn(|kind| (KINDS[kind], kinds[kind].clone()))
    }
}

impl Timed {
    /// It is answered.
    pub fn end(self, failed: bool) {
        let took = now() - self.since;
        let answered = &mut self.meter.kinds.borrow_mut()[self.kind];
        answered.requests += 1;
        if failed {
            answered.failed += 1;
        } else {
            answered.bytes += self.bytes;
        }
        answered.sum += took;
        answered.longest = answered.longest.max(took);
        answered.times.add(took.0, 1);
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.meter.in_flight.set(self.meter.in_flight.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Runtime, sleep};

    #[test]
    fn answers_are_counted_by_kind_and_a_dropped_request_is_not() {
        let run = async {
            let meter = Rc::new(Meter::default());
            for (op, millis) in [(Op::Read, 3), (Op::Read, 5), (Op::WriteZeroes, 1)] {
                let timed = meter.begin(op, 4096);
                sleep(Nanos::from_millis(millis)).await;
                assert_eq!(meter.in_flight(), 1);
                timed.end(millis == 5);
            }
            drop(meter.begin(Op::Write, 1));
            assert_eq!(meter.in_flight(), 0);
            let [(read, reads), (_, writes), (_, flushes), (trim, trims)] = meter.answered();
            assert_eq!((read, trim), ("read", "trim"));
            assert_eq!((reads.requests, reads.failed, reads.bytes), (2, 1, 4096));
            assert_eq!((reads.sum, reads.longest), (Nanos::from_millis(8), Nanos::from_millis(5)));
            let median = reads.times.quantile(0.5);
            assert!(median <= 3_000_000 && median > 3_000_000 / 8 * 7, "{median}");
            assert_eq!((writes.requests, flushes.requests, trims.requests), (0, 0, 1));
        };
        Runtime::new(1).run(run).unwrap();
    }
}
