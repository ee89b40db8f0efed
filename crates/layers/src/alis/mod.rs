//! Automatic locality-improving storage (Hsu, Smith and Young 2005): sequences of requests that come again, and then
//! the hottest pages, are copied into a small area. Writes go to the copies in place; no others are absorbed.

use crate::baseline::{self, Baseline};
use crate::borg::{COMMANDS, Edges, Options, PlannerName};
use crate::registry::Entry;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "ALIS",
    readme: include_str!("README.md"),
    commands: COMMANDS,
    flags: &["threshold", "training", "reconfigure_class"],
    ..baseline::entry::<Alis>(
        "copies sequences of requests that come again, and the hottest pages, into a small area",
    )
};

/// The layer.
struct Alis;

impl Baseline for Alis {
    const NAME: &'static str = "alis";
    const OPTIONS: &'static [&'static str] =
        &["edges", "threshold", "placement", "training", "profile_memory"];

    fn options() -> Options {
        Options { edges: Edges::Global, threshold: 2, ..baseline::copying(PlannerName::Runs) }
    }
}
