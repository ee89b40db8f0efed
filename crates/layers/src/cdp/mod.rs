//! Correlation-directed prefetching (section 6.3 of the IOLab paper): the launch prefetcher, except that it fetches in
//! the order in which the program reads, in a class below the foreground, and that no read waits for a fetch.

use seekless_core::{Class, PAGE_BYTES};

use crate::launch::{self, Manner};
use crate::registry::Entry;

/// How it differs from the launch prefetcher.
pub const CDP: Manner = Manner { sweep: PAGE_BYTES, class: Class::Background, holds: false };

/// Its entry in the registry.
pub const ENTRY: Entry = Entry {
    title: "CDP",
    readme: include_str!("README.md"),
    ..launch::entry(
        "cdp",
        "learns what programs read when they start, and reads ahead of them in the same order",
        |below, table| launch::build("cdp", CDP, &below, table),
    )
};
