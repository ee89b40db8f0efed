//! The pages of the highest levels of a queue in a small area, as dm-cache chooses them (SMQ), but at reconfigurations.
//! Writes go to the copies in place; no others are absorbed.

use crate::baseline::{self, Baseline};
use crate::borg::{COMMANDS, Options, PlannerName};
use crate::registry::Entry;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "SMQ",
    readme: include_str!("README.md"),
    commands: COMMANDS,
    flags: &["reconfigure_class"],
    ..baseline::entry::<Smq>(
        "copies the pages that come again most into a small area, as dm-cache chooses them",
    )
};

/// The layer.
struct Smq;

impl Baseline for Smq {
    const NAME: &'static str = "smq";
    const OPTIONS: &'static [&'static str] = &["profile_memory"];

    fn options() -> Options {
        Options { full_plan_every: u32::MAX, ..baseline::copying(PlannerName::Smq) }
    }
}
