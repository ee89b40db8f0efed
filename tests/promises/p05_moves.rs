//! Promise 5. Moving data neither loses nor duplicates a page; movers end.
//!
//! Fault model: the power is cut at any write or flush of any component while BORG absorbs, drains, reconfigures
//! itself, is detached or attached, or while parts of a hybrid drive move, with clients that write to moving pages;
//! three times in a row. Then every page is read. A command ends within the bound of every request. It does not fail,
//! except by a timeout when clients write faster than it moves.

use seekless_core::Nanos;
use seekless_lab::explore::Options;
use seekless_lab::explore::campaign::Campaign;
use seekless_lab::workload;
use seekless_promises as common;

#[test]
fn what_moves_is_neither_lost_nor_doubled_and_movers_end() {
    for (name, work) in [("borg", "churn:reads=40%"), ("borg-paper", "churn:reads=60%,size=8KiB,area=1MiB")] {
        let (volume, load) = (common::volume(name), workload::parse(work).unwrap());
        let bound = Nanos::from_millis(4_000);
        let options =
            Options { plain: Some(30), states: 6_000, each: 24, goes_on: 60, bound, ..Options::default() };
        let (requests, commands, fault_requests) = (150, 6, 0);
        let campaign = Campaign {
            description: &volume,
            load: Some(&load),
            requests,
            commands: Some(commands),
            clients: Some(4),
            fault_requests,
            options,
            reduces: true,
        };
        let explored = common::found_nothing(name, campaign.explore(&|_| ()).unwrap());
        let (tally, moved) = (&explored.tally, "a page is used while it is copied: its move is abandoned");
        let abandoned = tally.edges.get(moved).copied().unwrap_or(0);
        println!(
            "{name}: {} states, {} commands, the longest took {}; {abandoned} times a page was used as it moved",
            tally.states, tally.commands, tally.longest_command
        );
        assert!(tally.states >= 6_000 && tally.commands > 200 && abandoned > 0, "{tally:?}");
        assert!(tally.longest_command <= bound);
    }
}

#[test]
fn parts_of_a_hybrid_drive_move_while_clients_write() {
    let options = Options { plain: Some(30), states: 6_000, each: 24, goes_on: 60, ..Options::default() };
    let explored = common::sound("hybrid", "churn:reads=40%", 4, 0, options);
    let edges = &explored.tally.edges;
    for edge in ["a unit moves to a fast slot", "a unit moves away from a fast slot"] {
        assert!(edges.get(edge).is_some_and(|times| *times > 50), "{edge}: {edges:?}");
    }
}
