//! *zipf*: a working set with skewed popularity that moves through the volume.
//!
//! Rank k of the set is accessed in proportion to 1 / k^theta, which models popularity in caches, web servers and
//! key-value stores (Breslau et al., *Web Caching and Zipf-like Distributions*, INFOCOM 1999; the benchmark YCSB has
//! 0.99). The set's blocks are scattered over the volume. With each request there is a chance that one of them, of any
//! rank, is replaced by another block of the volume: so the working set moves, and half of it is gone after 0.7 * set /
//! size / churn requests.

use std::rc::Rc;

use seekless_core::Extent;
use seekless_core::runtime::{self, Rng};

use super::arrivals::{Arrivals, OUTSTANDING, RATE, READS, kind};
use super::client::Client;
use super::distribution;
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "zipf",
    does: "few blocks accessed often and many seldom (Zipf), in a working set that moves",
    source: "popularity in caches (Breslau et al., INFOCOM 1999); YCSB",
    options: &[
        Opt { key: "theta", default: "0.99", what: "the skew; 0 is uniform" },
        Opt { key: "set", default: "256MiB", what: "the size of the working set" },
        Opt {
            key: "churn",
            default: "1%",
            what: "the probability that a request replaces a block of the set",
        },
        Opt { key: "size", default: "4KiB", what: "of each request, and of a block of the set" },
        READS,
        OUTSTANDING,
        RATE,
    ],
    area: "all",
    make: Some(make),
};

/// Limit of blocks: the set is kept in memory, eight bytes a block.
const MOST_BLOCKS: u64 = 1 << 24;

struct Zipf {
    theta: f64,
    blocks: u64,
    churn: Share,
    sectors: u64,
    reads: Share,
    arrivals: Arrivals,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let sectors = keys.sectors("size", 512..=LARGEST)?;
    let size = sectors * 512;
    let set = keys.bytes("set", size..=size.saturating_mul(MOST_BLOCKS))?;
    Ok(Rc::new(Zipf {
        theta: keys.decimal("theta", 0.0..=5.0)?,
        blocks: set / size,
        churn: keys.share("churn")?,
        sectors,
        reads: keys.share("reads")?,
        arrivals: Arrivals::of(keys)?,
    }))
}

impl Workload for Zipf {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let mut rng = runtime::rng("zipf");
        let mut set: Vec<u64> = (0..self.blocks).map(|_| self.block(&mut rng, client.sectors())).collect();
        let ranks = distribution::Zipf::new(self.blocks, self.theta);
        let (arrivals, sectors) = (self.arrivals, client.sectors());
        arrivals.drive(&client, ENTRY.name, move || {
            if rng.chance(self.churn.part, self.churn.whole) {
                let leaves = rng.below(self.blocks) as usize;
                set[leaves] = self.block(&mut rng, sectors);
            }
            let start = set[ranks.rank(&mut rng) as usize];
            (kind(&mut rng, self.reads), Extent::new(start, self.sectors))
        })
    }

    fn needs(&self) -> u64 {
        self.blocks * self.sectors
    }

    fn is_open(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open(_))
    }
}

impl Zipf {
    /// The start of a random block of the window: a multiple of the size, so that blocks do not overlap.
    fn block(&self, rng: &mut Rng, sectors: u64) -> u64 {
        rng.below(sectors / self.sectors) * self.sectors
    }
}
