//! What the tests of promises share: volumes, and how they are explored.

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

/// The volumes that promises are tested on.
pub const VOLUMES: [&str; 11] = [
    "borg",
    "borg-paper",
    "borg-weak",
    "cache",
    "cache-ahead",
    "lld",
    "lld-free",
    "mapper",
    "powercut",
    "scrub",
    "stack",
];

/// A volume of the folder beside this.
///
/// # Panics
/// When it is none.
pub fn volume(name: &str) -> Description {
    file::read(&folder("volumes").join(format!("{name}.toml"))).expect(name)
}

/// Explores it under a workload; the tests run unoptimised, so it is a short look.
///
/// # Panics
/// When the workload is none, or needs a larger volume.
pub fn explore(
    volume: &Description,
    work: &str,
    clients: u64,
    commands: u64,
    fault_requests: u64,
    options: Options,
) -> Explored {
    let load = workload::parse(work).expect(work);
    let (clients, commands) = (Some(clients), Some(commands));
    // As its file says: what `make explore` draws besides takes more runs than there are here.
    let volume = &Description { explore: Ranges::new(), ..volume.clone() };
    let campaign = Campaign {
        description: volume,
        load: Some(&load),
        requests: 150,
        commands,
        clients,
        fault_requests,
        options,
        reduces: true,
    };
    campaign.explore(&|_| ()).expect("the workload fits the volume")
}

/// Explores it, and finds nothing wrong.
///
/// # Panics
/// When it does find something.
pub fn sound(name: &str, work: &str, clients: u64, fault_requests: u64, options: Options) -> Explored {
    let explored = explore(&volume(name), work, clients, COMMANDS, fault_requests, options);
    found_nothing(&format!("{name}, {work}"), explored)
}

/// What was explored, of which nothing is wrong.
///
/// # Panics
/// When something is.
pub fn found_nothing(what: &str, explored: Explored) -> Explored {
    if let Some(finding) = explored.reduced.as_ref().or(explored.finding.as_ref()) {
        panic!("{what}: {}\n\n{}", finding.wrong, finding.case);
    }
    explored
}
