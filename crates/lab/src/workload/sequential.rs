//! *seq*: sequential streams, each through its own part of the volume, cyclically from its start.
//!
//! As backups, scans and media servers do; the opposite of *random*.

use std::rc::Rc;

use seekless_core::{Extent, Nanos, runtime};

use super::arrivals::kind;
use super::client::{Client, together};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "seq",
    does: "sequential streams, each through its own part of the volume",
    source: "scans, backups and media servers; none of the papers",
    options: &[
        Opt { key: "streams", default: "1", what: "number of streams; each has an equal part of the volume" },
        Opt { key: "size", default: "64KiB", what: "of each request" },
        Opt { key: "reads", default: "100%", what: "reads in per cent, or reads to writes" },
        Opt { key: "think", default: "0ms", what: "between an answer and the next request" },
    ],
    area: "all",
    make: Some(make),
};

struct Sequential {
    streams: u64,
    sectors: u64,
    reads: Share,
    think: Nanos,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    Ok(Rc::new(Sequential {
        streams: keys.number("streams", 1..=10_000)?,
        sectors: keys.sectors("size", 512..=LARGEST)?,
        reads: keys.share("reads")?,
        think: keys.time("think")?,
    }))
}

impl Workload for Sequential {
    fn run(self: Rc<Self>, client: Client) -> Running {
        // In whole requests, so that a stream's last one is as large as the others.
        let part = client.sectors() / self.streams / self.sectors * self.sectors;
        let stream = |number: u64| -> Running {
            let me = self.clone();
            let client = client.within(number * part, Some(part)).process(ENTRY.name);
            let mut rng = runtime::rng("seq");
            Box::pin(async move {
                let mut start = 0;
                loop {
                    let at = Extent::new(start, me.sectors);
                    client.ask(kind(&mut rng, me.reads), at, seekless_core::Flags::default()).await;
                    start = (start + me.sectors) % part;
                    if me.think > Nanos::ZERO {
                        runtime::sleep(me.think).await;
                    }
                }
            })
        };
        together((0..self.streams).map(stream))
    }

    fn needs(&self) -> u64 {
        self.streams * self.sectors
    }
}
