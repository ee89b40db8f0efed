//! Mutants: planted bugs, one of which is active in a build with the feature `mutants`, chosen when the program starts.
//! Tests and explorations have to find them: the share found is their score.
//!
//! Other builds have none, and `is` costs nothing.

/// The layer, or the part of this crate, and the bug. A test of the house compares this list with the code.
pub const ALL: &[&str] = &[
    "lock: a try takes a range that others hold",
    "lock: a shared lock overtakes an exclusive one",
    "lock: a range ends a sector early",
    "lock: the longest range is forgotten",
    "failed writes: part of a page is enough",
    "switch: the child changes under requests in flight",
    "switch: the old child is not flushed",
    "switch: failed writes are left behind",
    "flush guard: a failed flush is forgotten",
    "mapper: a failed flush is forgotten",
    "mapper: a checksum without its last entry",
    "mapper: generations are compared in 8 bits",
    "mapper: part of a page is merged with zeroes",
    "mapper: a write that failed counts",
    "mapper: the map is written and not flushed",
    "mapper: FUA is dropped",
    "mapper: FUA of a discard is dropped",
    "mapper: a write locks sectors, not pages",
    "mapper: a map that has changed is written as a second copy",
    "mapper: pages that move while the map is written are not in the next",
    "lld: a read does not pin its segment",
    "lld: segments are not chosen anew after a wait",
    "lld: a failed flush is forgotten",
    "lld: a checksum without its last entry",
    "lld: generations are compared in 8 bits",
    "lld: a block is moved that was written meanwhile",
    "lld: a failed log counts as whole",
    "lld: a flush does not cover deletions",
    "lld: part of a block is merged with zeroes",
    "lld: parts of blocks are read without their checksums",
    "lld: a checkpoint does not wait for the records that it covers",
    "lld: blocks that were moved are not checked",
    "lld: the epoch stays",
    "lld: one record more is committed than is durable",
    "lld: behind a broken log, records count as durable at once",
    "lld: a checkpoint leaves its other copy old",
    "lld: FUA of a discard is dropped",
    "lld: FUA of zeroes is dropped",
    "lld: a slot is taken twice",
    "lld: a block leaves its segment twice",
    "lld: a segment is freed that holds a block",
    "lld: a hole is plugged before its death is behind a checkpoint",
    "lld: a hole is plugged while its segment is read",
    "lld: a write to a hole that failed counts",
    "lld: a block of the open record is recorded in a hole",
    "lld: a flush does not cover staged blocks",
    "lld: a block in the log leaves an older one staged",
    "lld: an older version of a block in a hole counts",
    "lld: dead slots of a segment that is filled anew become holes",
    "lld: zeroes miss a block that is only staged",
    "cache: a failed write-back is forgotten",
    "cache: a failed write-back of a page written meanwhile is forgotten",
    "cache: a failed flush is forgotten",
    "cache: a last page is cut short",
    "cache: a page is fetched under a write that bypasses it",
    "cache: a request bypasses pages being written",
    "cache: a read that bypasses misses dirty pages",
    "cache: a discard leaves pages in the cache",
    "cache: a flush misses the last write",
    "cache: FUA is dropped",
    "cache: FUA of a discard is dropped",
    "cache: a dirty page may be evicted",
    "cache: a page is written back twice at once",
    "cache: a flush does not wait for the last page being written",
    "cache: a page is written back under a request that bypasses",
    "cache: a read looks for known sectors when it has ended",
    "cache: a read that bypasses looks for dirty pages when it has ended",
    "cache: only the first page of a failed request is doubtful",
    "borg: locks are dropped before a move is durable",
    "borg: the mover does not see a discard",
    "borg: the mover does not see a write",
    "borg: a page that waits for its copy does not see a write",
    "borg: a page that waits for its return does not see a write",
    "borg: a copy without a flush of its source",
    "borg: a clean stop without dirty bits",
    "borg: a repair of the origin without FUA",
    "borg: a repair without the lock",
    "borg: generations are compared in 8 bits",
    "borg: a failed flush is forgotten",
    "borg: flushes go on after one that failed",
    "borg: a checksum without its last entry",
    "borg: one batch more than the log has is replayed",
    "borg: an eviction does not flush the origin",
    "borg: an eviction drops a dirty page",
    "borg: a page is drained before its mark is durable",
    "borg: a write in place that failed is forgotten",
    "borg: a failed batch is mapped",
    "borg: a flush does without a BOPT that holds newer pages",
    "borg: a clean copy is dropped in memory beside dirty pages",
    "borg: a read in parts misses dirty pages",
    "borg: a timed read misses dirty pages",
    "borg: torn pages stay",
    "borg: a batch is only looked for behind the last one",
    "borg: an opening is not counted",
    "borg: part of an unstable copy is overwritten in place",
    "borg: a copy is overwritten before its checksum is given up",
    "borg: checksums on disk are not given up",
    "borg: headers of the last use of a segment count",
    "borg: a slot of the log is taken twice",
    "borg: batches are committed in any order",
    "borg: a rewrite of a failed write without FUA",
    "borg: a BOPT counts as one without a write cache",
    "borg: copies that were not compared count as compared at a stop",
    "borg: the time of the last write alone proves the origin unchanged",
    "borg: a failed write leaves the origin proven",
    "borg: clean copies are trusted after a crash",
    "borg: every second clean copy is trusted",
    "borg: a copy that differs from the origin is served",
    "borg: a page is counted twice",
    "borg: a generation is used twice",
    "borg: a write of a batch is counted off twice",
    "borg: a map page covers a batch under way",
    "borg: a clean copy is overwritten first",
    "borg: a write begins no session",
    "borg: a session begins on a BOPT that was given up",
    "borg: a checkpoint does not lock metadata",
    "borg: a segment is freed that holds pages",
    "borg: a map page goes over its newer copy",
    "borg: what was learned lies over the log",
    "borg: a page is evicted before older entries of it",
    "borg: an entry that is superseded is not stale",
    "borg: changes while a map page is written count as written",
    "borg: dirty bits that change while a map page is written count as written",
    "borg: map pages of the log are written before those of the read cache",
    "borg: pages of a failed batch are certain",
    "borg: pages that clients read are copied without a flush of the origin",
    "borg: the anchor passes batches that ended meanwhile",
    "borg: the number of a failed batch is given again",
    "borg: the origin is written before newer copies are durable",
    "borg: the segment of the anchor is freed",
    "raid4: superblocks are not flushed",
    "raid4: a failed member is not told of",
    "raid4: generations are not compared",
    "raid4: a repair without FUA",
    "raid4: a resync without FUA",
    "raid4: FUA is dropped",
    "raid4: members are not looked at again after a wait",
    "raid4: a write locks sectors, not pages",
    "raid4: a resync keeps the parity",
    "raid4: a rebuild leaves the journal as it is",
    "raid4: FUA of a write that joins others is dropped",
    "raid4: records are not held until they are in place",
    "raid4: the halves are replayed in the wrong order",
    "raid4: the journal goes on before its members are flushed",
    "raid4: the older half needs a record more",
    "mirror: labels are not flushed",
    "mirror: a label does not say what all members have recorded",
    "mirror: a resync without FUA",
    "mirror: a repair without FUA",
    "mirror: FUA is dropped",
    "mirror: a rebuild does not hold what it copies",
    "mirror: a rebuilt member is not flushed",
    "mirror: a write that failed on all members is forgotten",
    "hybrid: a flush does not wait for the map",
    "hybrid: slots released while the map is written are free with it",
    "replicas: a copy does not see the end of a write",
    "replicas: a place that is read is filled anew",
    "replicas: a unit whose write failed is copied",
    "durable: a sector is sealed in no generation",
    "durable: a head reaches into its parity",
    "durable: zeroed sectors of a rewritten pair count as torn",
    "dedup: a failed flush is forgotten",
    "dedup: part of a page is merged with zeroes",
    "dedup: parts of pages are read without their fingerprints",
    "dedup: a write that failed counts",
    "dedup: a write locks sectors, not pages",
    "dedup: a piece is compared that may be given up meanwhile",
    "dedup: an opening counts a piece once",
    "dedup: pieces released while the map is written are free with it",
    "proximal: a block is taken twice",
    "proximal: a block is freed twice",
    "proximal: a copy frees what it may name",
    "proximal: a record of the same epoch is not newer",
    "proximal: failed writes go on after a snapshot",
    "proximal: the last page of a write is not joined",
    "file: FUA is dropped",
    "file: zeroes with FUA are not flushed",
    "file: a failed flush is forgotten",
    "file: flush errors are swallowed",
    "file: only FUA returns an error",
    "file: a flush covers less than was acknowledged",
    "file: a flush is not waited for",
    "file: flushes do not wait for each other",
    "file: a short write counts as whole",
    "file: the rest of a short write goes to its beginning",
    "file: a request that failed counts",
    "file: a flush that began before counts",
    "file: zeroes that are written as data are not durable",
];

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Activates the mutant of this name, for good: one of [`ALL`], or a layer and one of its canaries.
///
/// # Errors
/// The values found and expected, if one is active already.
#[cfg(feature = "mutants")]
pub fn choose(name: String) -> Result<(), String> {
    CHOSEN.set(name).map_err(|other| format!("found the mutant '{other}' let loose, expected none"))
}

/// The active mutant.
#[cfg(feature = "mutants")]
#[inline]
pub fn chosen() -> Option<&'static str> {
    CHOSEN.get().map(String::as_str)
}

/// Whether the mutant of this name is active: never, except in a build with mutants.
#[cfg(feature = "mutants")]
#[inline]
pub fn is(name: &str) -> bool {
    chosen() == Some(name)
}

/// Whether the guard below layers forgets failed flushes too, for a layer that does: each of the two compensates for
/// the other, so only both together are a bug.
pub fn forgets_flushes() -> bool {
    chosen().is_some_and(|name| name.ends_with(": a failed flush is forgotten"))
}

/// The active mutant.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn chosen() -> Option<&'static str> {
    None
}

/// Whether the mutant of this name is active: never, except in a build with mutants.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_name: &str) -> bool {
    false
}

#[cfg(feature = "mutants")]
static HALT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// From now on the program stands still where [`halt_at`] is called with this name.
#[cfg(feature = "mutants")]
pub fn choose_halt(name: String) {
    let _ = HALT.set(name);
}

/// In a build with mutants, if the name was chosen: says so on standard error, and stands still, so that a test kills
/// the program exactly here.
#[cfg(feature = "mutants")]
pub fn halt_at(name: &str) {
    if HALT.get().is_some_and(|chosen| chosen == name) {
        eprintln!("halted at {name}");
        loop {
            std::thread::park();
        }
    }
}

/// Does nothing, except in a build with mutants.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn halt_at(_name: &str) {}
