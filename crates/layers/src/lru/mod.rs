//! The most recently read pages in a small area: LRU, which chooses at reconfigurations. Writes go to the copies in
//! place; no others are absorbed.

use crate::baseline::{self, Baseline};
use crate::borg::{COMMANDS, Options, PlannerName};
use crate::registry::Entry;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "LRU",
    readme: include_str!("README.md"),
    commands: COMMANDS,
    flags: &["reconfigure_class"],
    ..baseline::entry::<Lru>("copies the most recently read pages into a small area")
};

/// The layer.
struct Lru;

impl Baseline for Lru {
    const NAME: &'static str = "lru";
    const OPTIONS: &'static [&'static str] = &["profile_memory"];

    fn options() -> Options {
        Options { full_plan_every: u32::MAX, ..baseline::copying(PlannerName::Lru) }
    }
}
