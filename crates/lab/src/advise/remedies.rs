//! What could be done about a slow disk: other experiments on the same recording.

use std::fmt::Write;

use seekless_core::{PAGE_SECTORS, SECTOR_BYTES, Size};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Policy, QueueOptions};
use seekless_layers::registry::{self, Entry};
use seekless_trace::Trace;

use crate::experiment::{Experiment, LayerSetup, Partition};

/// Smallest and largest size of a partition for a layer that needs one; the largest is that of the BORG paper's BOPT.
pub const PARTITION: (u64, u64) = (64 << 20, 4 << 30);

/// A remedy to try.
pub struct Remedy {
    /// A short name.
    pub name: &'static str,
    /// What it is.
    pub what: String,
    /// The run.
    pub experiment: Experiment,
}

/// All of those that the drive has room for, and the names of the others.
pub fn all(base: &Experiment, trace: &Trace) -> (Vec<Remedy>, Vec<&'static str>) {
    let queue = base.queue;
    let with = |queue: QueueOptions| Experiment { queue, ..base.clone() };
    let mut remedies = vec![Remedy {
        name: "scheduler",
        what: "a scheduler that knows where the head is (SPTF)".to_owned(),
        experiment: with(QueueOptions { policy: Policy::Sptf, ..queue }),
    }];
    let depth = base.drive.queue().depth;
    if depth > 1 {
        remedies.push(Remedy {
            name: "queue in the drive",
            what: format!("{depth} commands at a time in the drive, which orders them itself"),
            experiment: with(QueueOptions { depth: Some(depth), ..queue }),
        });
    }
    let mut without_room = Vec::new();
    let room = room(base, trace);
    for entry in registry::all() {
        for remedy in entry.remedies {
            match layered(base, entry, remedy, room) {
                Some(remedy) if remedy.experiment.places("", trace.end_sector()).is_ok() => {
                    remedies.push(remedy);
                }
                _ => without_room.push(remedy.name),
            }
        }
    }
    (remedies, without_room)
}

/// A remedy that is a layer, if there is room for what it needs in these sectors.
fn layered(base: &Experiment, entry: &'static Entry, remedy: &registry::Remedy, room: u64) -> Option<Remedy> {
    let mut options = (entry.defaults)();
    // Those of the registry are tested.
    options.extend(toml::from_str::<toml::Table>(remedy.options).ok()?);
    let mut what = remedy.does.to_owned();
    let partition = if entry.devices.is_empty() {
        None
    } else {
        let bytes = (room / PAGE_SECTORS * PAGE_SECTORS * SECTOR_BYTES).min(PARTITION.1);
        write!(what, ", in {}", Size(bytes)).ok()?;
        let sectors = Some(bytes / SECTOR_BYTES).filter(|_| bytes >= PARTITION.0)?;
        Some(Partition { sectors, at_sector: None, drive: None })
    };
    let free = remedy.freeblock.then(FreeOptions::default);
    let queue = QueueOptions { freeblock: free, ..base.queue };
    let layer = Some(LayerSetup { entry, options, partition });
    Some(Remedy { name: remedy.name, what, experiment: Experiment { layer, queue, ..base.clone() } })
}

/// Sectors of the drive beside the clients' volume.
pub fn room(base: &Experiment, trace: &Trace) -> u64 {
    let reached = base.places("", trace.end_sector()).map_or(u64::MAX, |places| places.over_sectors);
    base.drive.sectors().saturating_sub(reached)
}
