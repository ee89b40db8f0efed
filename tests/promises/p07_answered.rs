//! Promise 7. Every request is answered once; in bounded time once faults stop.
//!
//! Fault model: a request to a component fails, once or for ever, or takes a long time; any power cut; any number
//! of clients. Every request has one answer, with or without an error, within the bound that is printed.

mod common;

use seekless_core::Nanos;
use seekless_lab::explore::Options;

/// A component answers within 0.2 ms, and one that is delayed within 1.2 ms; a request waits for the few hundred
/// that a flush of what others wrote takes, one after the other.
const BOUND: Nanos = Nanos::from_millis(1_000);

#[test]
fn every_request_is_answered_within_a_bound() {
    for name in common::VOLUMES {
        let options = Options { plain: 40, states: 1, clients: 16, seed: 5, ..Options::default() };
        let explored = common::sound(name, "churn:flushes=10%", 40, options);
        let longest = explored.tally.longest.max(explored.faults.longest);
        println!("{name}: the longest answer took {longest}, the bound is {BOUND}");
        assert!(longest > Nanos::ZERO && longest <= BOUND, "{name}: {longest}");
    }
}
