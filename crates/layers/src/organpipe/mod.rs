//! The organ-pipe arrangement: the hottest pages are copied into the middle of a small area, cooler ones to both sides
//! (adaptive block rearrangement, Akyürek and Salem 1995). Writes go to the copies in place; no others are absorbed.

use crate::baseline::{self, Baseline};
use crate::borg::{COMMANDS, Options, PlannerName};
use crate::registry::Entry;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "organ pipe",
    readme: include_str!("README.md"),
    commands: COMMANDS,
    flags: &["training", "reconfigure_class"],
    ..baseline::entry::<OrganPipe>(
        "copies the hottest pages into the middle of a small area, cooler ones to both sides",
    )
};

/// The arrangement.
struct OrganPipe;

impl Baseline for OrganPipe {
    const NAME: &'static str = "organpipe";
    const OPTIONS: &'static [&'static str] = &["placement", "training", "profile_memory"];

    fn options() -> Options {
        baseline::copying(PlannerName::OrganPipe)
    }
}
