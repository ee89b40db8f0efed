//! Arrivals of one stream's requests: from clients that each wait for their answers (closed), or at random times at a
//! mean rate (open, a Poisson process).
//!
//! The requests come from one sequence: the n-th is the same whatever the device does, so two devices are compared on
//! the same requests.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Extent, Nanos, Op};

use super::client::{Client, together};
use super::distribution::exponential;
use super::keys::{Keys, Share, WorkloadError};
use super::{Opt, Running};

/// The option for closed arrivals.
pub const OUTSTANDING: Opt =
    Opt { key: "outstanding", default: "1", what: "clients, each with one request at a time" };
/// The option for open arrivals.
pub const RATE: Opt = Opt {
    key: "rate",
    default: "none",
    what: "open arrivals instead: mean rate of a Poisson process, such as 100/s",
};
/// The option for the kind of requests.
pub const READS: Opt = Opt { key: "reads", default: "2:1", what: "reads to writes, or reads in per cent" };

/// Arrivals of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// This many clients, each with one request at a time.
    Closed(u64),
    /// This many per second, on average.
    Open(f64),
}

impl Arrivals {
    /// Reads the options [`OUTSTANDING`] and [`RATE`].
    pub fn of(keys: &Keys) -> Result<Arrivals, WorkloadError> {
        let clients = keys.number("outstanding", 1..=100_000)?;
        match keys.rate("rate")? {
            Some(_) if keys.given("outstanding") => Err(keys.error("rate", "rate= without outstanding=")),
            Some(rate) => Ok(Arrivals::Open(rate)),
            None => Ok(Arrivals::Closed(clients)),
        }
    }

    /// Issues what `next` draws, for ever.
    pub fn drive(self, client: &Client, name: &str, next: impl FnMut() -> (Op, Extent) + 'static) -> Running {
        match self {
            Arrivals::Closed(clients) => {
                let next = Rc::new(RefCell::new(next));
                together((0..clients).map(|_| -> Running {
                    let (client, next) = (client.process(name), next.clone());
                    Box::pin(async move {
                        loop {
                            let (op, at) = (next.borrow_mut())();
                            client.ask(op, at, seekless_core::Flags::default()).await;
                        }
                    })
                }))
            }
            Arrivals::Open(rate) => {
                let client = client.process(name);
                let mut next = next;
                let mut rng = runtime::rng("arrivals");
                Box::pin(async move {
                    loop {
                        runtime::sleep(Nanos((exponential(&mut rng) / rate * 1e9) as u64)).await;
                        let (op, at) = next();
                        client.post(op, at).await;
                    }
                })
            }
        }
    }
}

/// Draws a read or a write.
pub fn kind(rng: &mut Rng, reads: Share) -> Op {
    if rng.chance(reads.part, reads.whole) { Op::Read } else { Op::Write }
}
