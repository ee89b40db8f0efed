//! Known bugs, let loose one at a time: each has to be found, or what looks for such bugs is worth nothing.
//!
//! Needs the feature `canaries`.

use seekless_lab::explore::Options;
use seekless_layers::registry::LAYERS;
use seekless_promises as common;

/// States in which a bug has to be found.
const BUDGET: u64 = 100_000;
/// One step in so many is a command: what moves pages has most of BORG's.
const COMMANDS: u64 = 6;

#[test]
fn every_known_bug_is_found() {
    let mut found = 0;
    for entry in &LAYERS {
        for canary in entry.canaries {
            let volume = |name: &str| {
                let mut volume = common::volume(name);
                let layer = volume.layers.get_mut(entry.name).unwrap();
                layer.options.insert("canary".to_owned(), toml::Value::String((*canary).to_owned()));
                volume
            };
            let names = common::VOLUMES.into_iter().filter(|name| name.starts_with(entry.name)).rev();
            // In a small part of the volume requests meet; on a full one slots are soon used again.
            let tries = names.flat_map(|name| {
                [("churn:area=512KiB", false), ("churn", true)].map(|(work, fill)| (name, work, fill))
            });
            let mut explored = tries.map(|(name, work, fill)| {
                let options = Options { plain: Some(100), states: BUDGET, fill, ..Options::default() };
                common::explore(&volume(name), work, 4, COMMANDS, 20, options)
            });
            let explored = explored.find(|explored| explored.finding.is_some());
            let Some(explored) = explored else {
                panic!("{}, {canary}: not found in {BUDGET} states of any volume and workload", entry.name);
            };
            let (tally, finding) = (&explored.tally, explored.finding.unwrap());
            let (states, runs) = (tally.states, tally.runs);
            println!(
                "{}, {canary}: found after {states} states and {runs} runs: {}",
                entry.name, finding.wrong
            );
            let reduced = explored.reduced.unwrap();
            println!("reduced: {}\n{}", reduced.wrong, reduced.case);
            let requests: usize = reduced.case.0.iter().map(|segment| segment.steps.len()).sum();
            // What takes several crashes does not always become shorter; and a log has to come round.
            let most = if entry.name == "lld" { 200 } else { 40 };
            assert!(requests <= most || reduced.case.0.len() > 1, "{requests} requests are left of it");
            found += 1;
        }
    }
    assert!(found >= 19, "{found} canaries");
}
