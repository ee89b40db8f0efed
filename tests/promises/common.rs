//! Shared code of the tests of promises: volumes, and their exploration.

use std::path::{Path, PathBuf};

use seekless_lab::explore::Options;
use seekless_lab::explore::campaign::{Campaign, Explored};
use seekless_lab::workload;
use seekless_volume::settings::Ranges;
use seekless_volume::{Description, file};

/// A folder of these tests.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// One step in this number is a command, as in the program.
pub const COMMANDS: u64 = 40;

/// One moment in this number has a power cut, where faults or answers are the subject.
pub const FEW_CUTS: u64 = 20;

/// On the volume with snapshots, one step in this number changes them.
pub const SNAPSHOTS: u64 = 8;

/// The volumes of the promises.
pub const VOLUMES: [&str; 28] = [
    "borg",
    "borg-paper",
    "borg-weak",
    "cache",
    "cache-ahead",
    "dcd",
    "dedup",
    "defrag",
    "flash-mirror",
    "function",
    "hot",
    "hybrid",
    "launch",
    "lld",
    "lld-free",
    "lld-holes",
    "mapper",
    "mirror",
    "mirror-weak",
    "powercut",
    "scrub",
    "proximal",
    "proximal-snapshots",
    "raid4",
    "raid5",
    "replicas",
    "spindown",
    "stack",
];

/// A volume file in the folder of these tests.
///
/// # Panics
/// If it is invalid.
pub fn volume(name: &str) -> Description {
    file::read(&folder("volumes").join(format!("{name}.toml"))).expect(name)
}

/// Explores it briefly under a workload, and reduces what is found if `reduces`.
///
/// # Panics
/// If the workload is invalid, or needs a larger volume.
pub fn explore(
    volume: &Description,
    work: &str,
    clients: u64,
    commands: u64,
    fault_requests: u64,
    options: Options,
    reduces: bool,
) -> Explored {
    let load = workload::parse(work).expect(work);
    let (clients, commands) = (Some(clients), Some(commands));
    let campaign = Campaign {
        description: volume,
        load: Some(&load),
        requests: 150,
        commands,
        clients,
        fault_requests,
        options,
        reduces,
    };
    campaign.explore(&|_| ()).expect("the workload fits the volume")
}

/// Explores it, and expects no violation.
///
/// # Panics
/// If there is one.
pub fn sound(name: &str, work: &str, clients: u64, fault_requests: u64, mut options: Options) -> Explored {
    // Without drawn options: these take more runs than there are here.
    let volume = Description { explore: Ranges::new(), ..volume(name) };
    options.snapshots = snapshots(name);
    let explored = explore(&volume, work, clients, COMMANDS, fault_requests, options, true);
    found_nothing(&format!("{name}, {work}"), explored)
}

/// One step in this number changes snapshots and clones on this volume; 0 for none.
pub fn snapshots(name: &str) -> u64 {
    if name.ends_with("-snapshots") { SNAPSHOTS } else { 0 }
}

/// The outcome of an exploration without a violation.
///
/// # Panics
/// If there is one.
pub fn found_nothing(what: &str, explored: Explored) -> Explored {
    if let Some(finding) = explored.reduced.as_ref().or(explored.finding.as_ref()) {
        panic!("{what}: {}\n\n{}", finding.wrong, finding.case);
    }
    explored
}
