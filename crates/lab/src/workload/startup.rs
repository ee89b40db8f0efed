//! *startup*: applications that start again and again: the purpose of BORG (Bhadkamkar et al., FAST 2009, sections 2.3
//! and 6.4, Table 4).
//!
//! Each application is a fixed sequence of reads at scattered places, of its program, libraries and settings; the same
//! at every start but for a few per cent of noise, of which half are reads that are left out and half reads elsewhere.
//! One random application at a time starts, each start as a process of its own; then the user works for a while.

use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Extent, Nanos, PAGE_BYTES, PAGE_SECTORS};

use super::client::Client;
use super::distribution::{steps, time};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "startup",
    does: "applications that start again and again: the same scattered reads in the same order",
    source: "BORG paper (FAST 2009), sections 2.3 and 6.4",
    options: &[
        Opt { key: "apps", default: "6", what: "number of applications" },
        Opt { key: "reads", default: "500", what: "reads of a start" },
        Opt { key: "size", default: "16KiB", what: "of a read, on average (exponential, in pages)" },
        Opt { key: "noise", default: "5%", what: "reads that are left out or go elsewhere, in per cent" },
        Opt { key: "cpu", default: "0.5ms", what: "computing time between two reads, on average" },
        Opt { key: "pause", default: "5s", what: "between two starts, on average" },
    ],
    area: "all",
    make: Some(make),
};

/// Largest read, in pages.
const LONGEST: u64 = 256;

struct Startup {
    apps: u64,
    reads: u64,
    /// In pages.
    mean: f64,
    noise: Share,
    cpu: Nanos,
    pause: Nanos,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let bytes = keys.bytes("size", PAGE_BYTES..=LONGEST * PAGE_BYTES / 8)?;
    Ok(Rc::new(Startup {
        apps: keys.number("apps", 1..=1_000)?,
        reads: keys.number("reads", 1..=10_000)?,
        mean: bytes as f64 / PAGE_BYTES as f64,
        noise: keys.share("noise")?,
        cpu: keys.time("cpu")?,
        pause: keys.time("pause")?,
    }))
}

impl Workload for Startup {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let mut places = runtime::rng("startup places");
        let sequence = |_| (0..self.reads).map(|_| self.read(&mut places, &client)).collect();
        let apps: Vec<Vec<Extent>> = (0..self.apps).map(sequence).collect();
        let mut rng = runtime::rng("startup");
        Box::pin(async move {
            loop {
                let app = rng.below(self.apps) as usize;
                let process = client.process(&format!("app{}", app + 1));
                for &at in &apps[app] {
                    let noisy = rng.chance(self.noise.part, self.noise.whole);
                    if noisy && rng.chance(1, 2) {
                        continue;
                    }
                    process.read(if noisy { self.read(&mut rng, &client) } else { at }).await;
                    runtime::sleep(time(&mut rng, self.cpu)).await;
                }
                runtime::sleep(time(&mut rng, self.pause)).await;
            }
        })
    }

    fn needs(&self) -> u64 {
        LONGEST * PAGE_SECTORS
    }
}

impl Startup {
    /// A read anywhere.
    fn read(&self, rng: &mut Rng, client: &Client) -> Extent {
        let pages = steps(rng, self.mean).min(LONGEST);
        client.somewhere(rng, pages * PAGE_SECTORS)
    }
}
