//! Known bugs, activated one at a time: each has to be found, or the search for such bugs is worthless.
//!
//! Needs the feature `canaries`.

use seekless_lab::explore::Options;
use seekless_lab::explore::shrink::Shrinker;
use seekless_layers::registry::LAYERS;
use seekless_promises as common;
use seekless_volume::settings::Ranges;

/// Number of states within which a bug has to be found.
const BUDGET: u64 = 100_000;
/// One step in this number is a command: most bugs of BORG are where pages move.
const COMMANDS: u64 = 6;

/// A test for each known bug of a layer.
macro_rules! found {
    ($($layer:ident: $($bug:ident)*;)*) => {
        $(mod $layer {
            $(#[test] fn $bug() { super::find(stringify!($layer), stringify!($bug)); })*
        })*
        const TESTED: &[(&str, &str)] = &[$($((stringify!($layer), stringify!($bug)),)*)*];
    };
}

found! {
    borg: early_reuse dropped_by_a_relocate repaired_from_home_though_newer;
    cache: missing_flush forgotten_on_its_way stale_prefetch lost_overwrite;
    dedup: a_fingerprint_is_trusted early_reuse one_page_short a_discard_frees_what_others_share a_map_before_its_data
        a_flush_without_the_map stale_read unflushed_opening unforced_write a_neighbour_is_overwritten;
    defrag: a_move_without_its_lock a_map_before_its_data stale_read unforced_write;
    hot: a_move_without_its_lock a_map_before_its_data stale_read early_reuse unflushed_opening unforced_write;
    hybrid: a_move_without_its_lock a_map_before_its_data stale_read early_reuse unforced_write;
    lld: early_reuse missing_flush torn_segment_accepted lost_deletion unflushed_opening;
    mapper: missing_flush early_reuse double_reply stale_read torn_metadata_accepted lost_map_entry unflushed_opening;
    mirror: a_member_is_not_flushed a_failure_is_not_recorded no_resync;
    proximal: a_map_before_its_data a_map_page_over_the_current_one a_block_is_free_too_early a_failed_write_counts
        torn_metadata_accepted a_block_of_a_snapshot_is_reused a_commit_counts_too_early
        a_staged_page_of_a_snapshot_is_that_of_the_volume part_of_a_commit_counts a_block_below_a_clone_is_reused;
    replicas: stale_copy a_map_before_its_copies copies_of_before_count_after_a_crash
        a_write_passes_a_copy;
    raid4: hole_in_parity stale_checksum missing_flush_of_the_journal unflushed_opening;
    spindown: a_flush_of_the_disk_is_spared;
}

#[test]
fn every_known_bug_has_a_test() {
    let known =
        LAYERS.iter().flat_map(|entry| entry.canaries.iter().map(|bug| (entry.name, bug.replace(' ', "_"))));
    let mut known: Vec<(&str, String)> = known.collect();
    let mut tested: Vec<(&str, String)> =
        TESTED.iter().map(|(layer, bug)| (*layer, (*bug).to_owned())).collect();
    known.sort();
    tested.sort();
    assert_eq!(known, tested);
}

/// Explores a layer that has the bug, until it is found.
fn find(layer: &str, bug: &str) {
    let canary = bug.replace('_', " ");
    let volume = |name: &str, drawn: bool| {
        let mut volume = common::volume(name);
        let layer = volume.layers.get_mut(layer).unwrap();
        layer.options.insert("canary".to_owned(), toml::Value::String(canary.clone()));
        if !drawn {
            volume.explore = Ranges::new();
        }
        volume
    };
    // In a small part of the volume requests overlap; on a full one slots are soon reused. First a short run of each,
    // with options that each run draws.
    let part = if ["mirror", "raid4"].contains(&layer) { "churn:area=128KiB" } else { "churn:area=512KiB" };
    let works = [(part, false), ("churn", true)];
    let tries = [(BUDGET / 20, true), (BUDGET, false)].into_iter().flat_map(|(states, drawn)| {
        let names = common::VOLUMES.into_iter().filter(|name| name.starts_with(layer)).rev();
        names.flat_map(move |name| works.map(|(work, fill)| (name, work, fill, states, drawn)))
    });
    let mut explored = tries.map(|(name, work, fill, states, drawn)| {
        let plain = Some(states / 1_000);
        // What snapshots share is found wrong by other runs sooner than by more moments of one.
        let snapshots = common::snapshots(name);
        let one_in = if snapshots > 0 { 20 } else { Options::default().one_in };
        let options = Options { plain, states, one_in, fill, snapshots, ..Options::default() };
        let volume = volume(name, drawn);
        let explore = || common::explore(&volume, work, 4, COMMANDS, 20, options, false);
        (name, drawn, std::panic::catch_unwind(std::panic::AssertUnwindSafe(explore)))
    });
    let found =
        explored.find(|(.., explored)| explored.as_ref().map_or(true, |found| found.finding.is_some()));
    let (name, drawn, explored) = match found {
        Some((name, drawn, Ok(explored))) => (name, drawn, explored),
        Some((name, _, Err(panic))) => {
            let why = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            assert!(why.contains("an invariant broken"), "{layer}, {canary}: {why}");
            return println!("{layer}, {canary}: found on {name}: {why}");
        }
        None => panic!("{layer}, {canary}: not found in {BUDGET} states of any volume and workload"),
    };
    let (tally, finding) = (&explored.tally, explored.finding.unwrap());
    let (states, runs, crashes) = (tally.states, tally.runs, finding.case.0.len());
    println!("{layer}, {canary}: found on {name} after {states} states and {runs} runs: {}", finding.wrong);
    // To reduce one of several crashes takes minutes, and it need not become shorter; so does one with sectors that go
    // bad, or of a layer over another.
    if crashes > 1 || name == "borg-weak" || layer == "proximal" {
        return;
    }
    let reduced = Shrinker::new(&volume(name, drawn), &|_| ()).shrink(finding);
    println!("reduced: {}\n{}", reduced.wrong, reduced.case);
    let requests: usize = reduced.case.0.iter().map(|segment| segment.steps.len()).sum();
    // A log has to wrap around.
    let most = if layer == "lld" { 200 } else { 40 };
    assert!(requests <= most, "{requests} requests are left of it");
}
