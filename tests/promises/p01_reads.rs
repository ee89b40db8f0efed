//! Promise 1. A read returns the last acknowledged write of each sector.
//!
//! Fault model: none. Many clients at once, requests of every kind and length over each other, components that
//! answer in any order; every sector that is read is judged against all possible orders of the requests.

use seekless_lab::explore::Options;
use seekless_promises as common;

#[test]
fn no_read_tells_anything_but_the_last_write() {
    for name in common::VOLUMES {
        for (work, clients) in
            [("churn", 1), ("churn:hot=90%,reads=40%", 8), ("churn:size=64KiB,fua=20%", 32)]
        {
            let options = Options { plain: Some(60), states: 1, seed: clients, ..Options::default() };
            let explored = common::sound(name, work, clients, 0, options);
            println!("{name}, {work}: {} runs", explored.tally.runs);
            assert!(explored.tally.runs >= 60, "{}", explored.tally.runs);
        }
    }
}
