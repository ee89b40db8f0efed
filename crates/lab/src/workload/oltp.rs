//! *oltp*: the freeblock paper's on-line transaction processing (Lumb et al., OSDI 2000, section 6.2).
//!
//! A closed system of `mpl` tasks (the multiprogramming level), each a request and then a think time of 30 ms on
//! average, exponentially distributed. Two reads to a write, uniformly over the disk, sizes a multiple of 4 KiB from an
//! exponential distribution of mean 8 KiB; the mean is that after rounding up.

use std::rc::Rc;

use seekless_core::{Extent, Nanos, runtime};

use super::arrivals::{READS, kind};
use super::client::{Client, together};
use super::distribution::{steps, time};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "oltp",
    does: "transactions: tasks that issue a request, wait for the answer, and think",
    source: "freeblock paper (OSDI 2000), section 6.2",
    options: &[
        Opt { key: "mpl", default: "10", what: "the multiprogramming level: number of tasks" },
        Opt { key: "think", default: "30ms", what: "between an answer and the next request, on average" },
        Opt { key: "size", default: "8KiB", what: "of a request, on average (exponential, in steps)" },
        Opt { key: "step", default: "4KiB", what: "unit of sizes and addresses" },
        READS,
    ],
    area: "all",
    make: Some(make),
};

struct Oltp {
    tasks: u64,
    think: Nanos,
    step: u64,
    /// In steps, at least 1.
    mean: f64,
    reads: Share,
}

/// Largest request, in means: the probability of a larger one is below 10^-13.
const LONGEST: u64 = 32;

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let step = keys.sectors("step", 512..=LARGEST / LONGEST)?;
    let size = keys.sectors("size", step * 512..=LARGEST / LONGEST)?;
    Ok(Rc::new(Oltp {
        tasks: keys.number("mpl", 1..=100_000)?,
        think: keys.time("think")?,
        step,
        mean: size as f64 / step as f64,
        reads: keys.share("reads")?,
    }))
}

impl Workload for Oltp {
    fn run(self: Rc<Self>, client: Client) -> Running {
        together((0..self.tasks).map(|_| self.clone().task(client.process(ENTRY.name))))
    }

    fn needs(&self) -> u64 {
        self.longest() * self.step
    }
}

impl Oltp {
    /// The largest request, in steps.
    fn longest(&self) -> u64 {
        (self.mean * LONGEST as f64) as u64
    }

    fn task(self: Rc<Self>, client: Client) -> Running {
        let mut rng = runtime::rng("oltp");
        Box::pin(async move {
            loop {
                runtime::sleep(time(&mut rng, self.think)).await;
                let length = steps(&mut rng, self.mean).min(self.longest());
                let last = client.sectors() / self.step - length;
                let at = Extent::new(rng.below(last + 1) * self.step, length * self.step);
                client.ask(kind(&mut rng, self.reads), at, seekless_core::Flags::default()).await;
            }
        })
    }
}
