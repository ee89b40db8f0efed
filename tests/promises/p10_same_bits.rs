//! Promise 10. Same seed, same bits.
//!
//! Fault model: none. The whole output of a run and an exploration, and the hash of a run's events are compared. (A
//! recorded live run that replays to the same actions: `tests/clients/replayed.rs`.)

use seekless_lab::explore::Options;
use seekless_lab::workload::{self, client::Limit};
use seekless_lab::{Run, run_workload};
use seekless_promises as common;

#[test]
fn an_exploration_tells_the_same_every_time() {
    for name in ["stack", "borg-paper"] {
        let hash_of_run = |seed| {
            let options =
                Options { plain: Some(4), states: 500, each: 16, goes_on: 60, seed, ..Options::default() };
            let explored = common::sound(name, "churn", 4, 20, options);
            format!("{:?} {:?}", explored.tally, explored.faults)
        };
        let first = hash_of_run(1);
        assert_eq!(first, hash_of_run(1));
        assert_ne!(first, hash_of_run(2));
    }
}

#[test]
fn a_run_on_simulated_drives_tells_the_same_every_time() {
    for name in ["stack", "borg"] {
        let volume = common::volume(name);
        let load = workload::parse("churn").unwrap();
        let hash = |seed| {
            let run = Run { limit: Limit { requests: Some(400), time: None }, seed, ..Run::default() };
            let (outcome, _) = run_workload(&load, &volume, &run, None).unwrap();
            (outcome.event_hash.clone(), outcome)
        };
        let first = hash(1);
        assert_eq!(first, hash(1));
        assert_ne!(first.0, hash(2).0);
    }
}
