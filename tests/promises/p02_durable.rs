//! Promise 2. Data that was flushed, or acknowledged with FUA, survives any crash, power cut or `kill -9`, at any
//! instant, also during recovery, and recovery of recovery.
//!
//! Fault model: the power is cut at any write or flush of any component, as it begins or ends, or only the process
//! dies and the components keep their caches until a later power cut. Of the data that was not durable any sectors
//! survive, in any order. The volume is opened on that, used, and loses power again, three times in a row. No sector is
//! damaged, and a component loses no durable data.

use seekless_lab::explore::Options;
use seekless_lab::explore::campaign::Campaign;
use seekless_lab::workload;
use seekless_promises as common;

/// States of each volume and workload; `make explore` has many more.
const STATES: u64 = 1_000;

#[test]
fn what_was_durable_survives_power_cuts_one_after_the_other() {
    for name in common::VOLUMES {
        for work in ["churn:flushes=3%,fua=3%", "churn:size=4KiB,fua=30%,discards=20%,hot=90%"] {
            let options =
                Options { plain: Some(0), states: STATES, each: 24, goes_on: 60, ..Options::default() };
            let tally = common::sound(name, work, 4, 0, options).tally;
            println!("{name}, {work}: {} states, {:?} by depth", tally.states, tally.by_depth);
            assert!(
                tally.states >= STATES && tally.by_depth.iter().all(|states| *states > 0),
                "{:?}",
                tally.by_depth
            );
        }
    }
}

/// Rare and dangerous places of the layers, named in their code, are reached.
#[test]
fn every_named_edge_is_reached() {
    let options = Options { plain: Some(20), states: 15_000, each: 24, fill: true, ..Options::default() };
    let explored = common::sound("mapper", "churn", 4, 60, options);
    assert!(explored.unreached.is_empty(), "never reached: {:?}", explored.unreached);
    let edges = &explored.tally.edges;
    assert!(edges.len() > 5, "{edges:?}");
}

/// All workloads of two requests to two pages, with every set of sectors that may survive.
#[test]
fn small_workloads_survive_whatever_survives_of_them() {
    let (volume, load) = (common::volume("mapper-small"), workload::parse("churn").unwrap());
    let options = Options { states: u64::MAX, depth: 1, ..Options::default() };
    let campaign = Campaign {
        description: &volume,
        load: Some(&load),
        requests: 0,
        commands: Some(0),
        clients: Some(1),
        fault_requests: 0,
        options,
        reduces: true,
    };
    let explored = common::found_nothing("mapper-small", campaign.explore_all(2, &|_| ()).unwrap());
    assert!(explored.tally.runs > 13 * 13 && explored.tally.states > 1_000, "{}", explored.tally.states);
}
