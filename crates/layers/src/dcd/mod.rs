//! Disk caching disk (Hu and Yang 1995): writes are appended to a log in a small area, and written to their own places
//! in idle time or when the log is nearly full. Nothing is copied for reads.

use crate::baseline::{self, Baseline};
use crate::borg::Options;
use crate::registry::Entry;

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "DCD",
    readme: include_str!("README.md"),
    commands: &["drain", "verify"],
    flags: &["reconfigure_class"],
    ..baseline::entry::<Dcd>(
        "appends writes to a log in a small area, and writes them to their own places later",
    )
};

/// The layer.
struct Dcd;

impl Baseline for Dcd {
    const NAME: &'static str = "dcd";
    const OPTIONS: &'static [&'static str] = &["absorb_below", "eager", "drain_below", "drain"];

    fn options() -> Options {
        Options { write_buffer: 1.0, eager: false, rehearse: false, ..Options::default() }
    }
}
