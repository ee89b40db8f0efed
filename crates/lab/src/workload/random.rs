//! *random*: the freeblock paper's synthetic workload (Lumb et al., OSDI 2000, section 3, Figures 2 to 4).
//!
//! 4 KiB requests, two reads to a write, uniformly over the disk, one at a time without think time. For Figure 4 a part
//! of them is *local*: normally distributed around the last one, with a deviation of 4 MB.

use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Extent, PAGE_SECTORS};

use super::arrivals::{Arrivals, OUTSTANDING, RATE, READS, kind};
use super::client::Client;
use super::distribution::normal;
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "random",
    does: "requests of one size, uniformly over the volume or near the last one",
    source: "freeblock paper (OSDI 2000), section 3, Figures 2 to 4",
    options: &[
        Opt { key: "size", default: "4KiB", what: "of each request" },
        READS,
        OUTSTANDING,
        RATE,
        Opt { key: "local", default: "0%", what: "requests near the last one, in per cent" },
        Opt {
            key: "sigma",
            default: "4MB",
            what: "distance of near ones: the deviation of a normal distribution",
        },
    ],
    area: "all",
    make: Some(make),
};

struct Random {
    sectors: u64,
    reads: Share,
    arrivals: Arrivals,
    local: Share,
    /// In sectors.
    sigma: f64,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    Ok(Rc::new(Random {
        sectors: keys.sectors("size", 512..=LARGEST)?,
        reads: keys.share("reads")?,
        arrivals: Arrivals::of(keys)?,
        local: keys.share("local")?,
        sigma: keys.bytes("sigma", 512..=1 << 50)? as f64 / 512.0,
    }))
}

impl Workload for Random {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let mut rng = runtime::rng("random");
        let mut last = client.somewhere(&mut rng, self.sectors);
        let (arrivals, place) = (self.arrivals, client.clone());
        arrivals.drive(&client, ENTRY.name, move || {
            let near = rng.chance(self.local.part, self.local.whole);
            let near = if near { self.near(&mut rng, last.start.0, place.sectors()) } else { None };
            last = near.unwrap_or_else(|| place.somewhere(&mut rng, self.sectors));
            (kind(&mut rng, self.reads), last)
        })
    }

    fn needs(&self) -> u64 {
        self.sectors
    }

    fn is_open(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open(_))
    }
}

impl Random {
    /// A random extent near `last`. Ones beyond the volume's ends are drawn again; `None` if nearly all are.
    fn near(&self, rng: &mut Rng, last: u64, sectors: u64) -> Option<Extent> {
        const DRAWS: u32 = 16;
        let step = if self.sectors % PAGE_SECTORS == 0 { PAGE_SECTORS } else { 1 };
        let most = (sectors - self.sectors) as f64;
        for _ in 0..DRAWS {
            let start = last as f64 + normal(rng) * self.sigma;
            if (0.0..=most).contains(&start) {
                return Some(Extent::new(start as u64 / step * step, self.sectors));
            }
        }
        None
    }
}
