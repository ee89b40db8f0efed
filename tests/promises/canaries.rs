//! Known bugs, let loose one at a time: each has to be found, or what looks for such bugs is worth nothing.
//!
//! Needs the feature `canaries`.

mod common;

use seekless_lab::explore::Options;
use seekless_layers::registry::LAYERS;

/// States in which a bug has to be found.
const BUDGET: u64 = 30_000;

#[test]
fn every_known_bug_is_found() {
    let mut found = 0;
    for entry in &LAYERS {
        for canary in entry.canaries {
            let mut volume = common::volume(entry.name);
            let layer = volume.layers.get_mut(entry.name).unwrap();
            layer.options.insert("canary".to_owned(), toml::Value::String((*canary).to_owned()));
            let options = Options { plain: 100, states: BUDGET, ..Options::default() };
            // In a small part of the volume, so that requests meet.
            let explored = common::explore(&volume, "churn:area=512KiB", 20, options);
            let tally = &explored.tally;
            let Some(finding) = explored.finding else {
                panic!(
                    "{}, {canary}: not found in {} states and {} runs",
                    entry.name, tally.states, tally.runs
                );
            };
            let (states, runs) = (tally.states, tally.runs);
            println!(
                "{}, {canary}: found after {states} states and {runs} runs: {}",
                entry.name, finding.wrong
            );
            let reduced = explored.reduced.unwrap();
            println!("reduced: {}\n{}", reduced.wrong, reduced.case);
            let requests: usize = reduced.case.0.iter().map(|segment| segment.requests.len()).sum();
            assert!(requests <= 40, "{requests} requests are left of it");
            found += 1;
        }
    }
    assert!(found >= 6, "{found} canaries");
}
