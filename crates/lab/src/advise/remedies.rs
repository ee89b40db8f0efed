//! What could be done about a slow disk: other experiments on the same recording.

use seekless_core::{SECTOR_BYTES, Size};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Policy, QueueOptions};
use seekless_layers::registry::{self, Entry};
use seekless_trace::Trace;

use crate::experiment::{Experiment, LayerSetup, Partition};

/// Memory of the larger cache.
const CACHE: u64 = 1 << 30;
/// Largest BOPT: the paper's.
const BOPT: u64 = 4 << 30;

/// A remedy to try.
pub struct Remedy {
    /// A short name.
    pub name: &'static str,
    /// What it is.
    pub what: String,
    /// The run.
    pub experiment: Experiment,
}

/// All of those that the drive has room for.
pub fn all(base: &Experiment, trace: &Trace) -> Vec<Remedy> {
    let with = |queue: QueueOptions| Experiment { queue, ..base.clone() };
    let layered = |entry: &'static Entry, more: &[(&str, toml::Value)], partition, queue| {
        let mut options = (entry.defaults)();
        options.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        let layer = Some(LayerSetup { entry, options, partition });
        Experiment { layer, queue, ..base.clone() }
    };
    let queue = base.queue;
    let sptf = QueueOptions { policy: Policy::Sptf, ..queue };
    let free = QueueOptions { freeblock: Some(FreeOptions::default()), ..queue };
    let mut remedies = vec![Remedy {
        name: "scheduler",
        what: "a scheduler that knows where the head is (SPTF)".to_owned(),
        experiment: with(sptf),
    }];
    let depth = base.drive.queue().depth;
    if depth > 1 {
        remedies.push(Remedy {
            name: "queue in the drive",
            what: format!("{depth} commands at a time in the drive, which orders them itself"),
            experiment: with(QueueOptions { depth: Some(depth), ..queue }),
        });
    }
    if let Some(cache) = registry::find("cache") {
        remedies.push(Remedy {
            name: "more cache",
            what: format!("{} of memory more", Size(CACHE)),
            experiment: layered(cache, &[("size", Size(CACHE).to_string().into())], None, queue),
        });
    }
    if let Some(launch) = registry::find("launch") {
        remedies.push(Remedy {
            name: "launch prefetcher",
            what: "what programs read when they start is learned and fetched ahead".to_owned(),
            experiment: layered(launch, &[], None, queue),
        });
    }
    let room = base.drive.sectors().saturating_sub(reached(base, trace));
    let sectors = (BOPT / SECTOR_BYTES).min(room / 8 * 8);
    if let Some(borg) = registry::find("borg").filter(|_| sectors >= (64 << 20) / SECTOR_BYTES) {
        let bopt = Some(Partition { sectors, at_sector: None });
        let size = Size(sectors * SECTOR_BYTES);
        remedies.push(Remedy {
            name: "BORG",
            what: format!("blocks used together are copied next to each other, into {size}"),
            experiment: layered(borg, &[], bopt, queue),
        });
        remedies.push(Remedy {
            name: "BORG, copying for free",
            what: "the same, copying only while the head waits anyway (freeblock)".to_owned(),
            experiment: layered(borg, &[("reconfigure_class", "free".into())], bopt, free),
        });
    }
    remedies.retain(|remedy| remedy.experiment.places("", trace.end_sector()).is_ok());
    remedies
}

/// Sectors of the clients' volume.
fn reached(base: &Experiment, trace: &Trace) -> u64 {
    base.places("", trace.end_sector()).map_or(u64::MAX, |places| places.over_sectors)
}
