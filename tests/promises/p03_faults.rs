//! Promise 3. One I/O that fails, once or for ever, never yields wrong data; it fails that request, not the volume.
//!
//! Fault model: the n-th request to a component fails and has no effect, once or from then on, for every n until the
//! run has no n-th; after it the power is cut at any moment, and the volume is opened without the fault.

use seekless_lab::explore::Options;
use seekless_lab::explore::replay::Line;
use seekless_promises as common;

#[test]
fn no_request_that_fails_yields_wrong_data() {
    for name in common::VOLUMES {
        let options =
            Options { plain: Some(0), states: 1, one_in: common::FEW_CUTS, seed: 3, ..Options::default() };
        // A request to an array is several to its members, and one to that of `flash-mirror` hundreds.
        let is_mirror = name.contains("mirror");
        let requests = match name {
            "flash-mirror" => 2,
            _ if name.starts_with("raid") || is_mirror => 8,
            _ => 50,
        };
        let explored = common::sound(name, "churn:flushes=10%", 4, requests, options);
        let faults = explored.faults;
        println!("{name}: {faults:?}");
        // Once and for ever, for each request to a component. Clients got the errors, except where another member of a
        // mirror did what the one did not.
        assert!(faults.runs >= 2 * 20 && (is_mirror || faults.errors > 0), "{faults:?}");
        assert!(name != "mirror" || faults.errors == 0, "{faults:?}");
    }
}

/// One request fails, and only that one: all others succeed.
#[test]
fn a_read_that_fails_fails_alone() {
    use seekless_lab::check::history::Event;
    use seekless_lab::explore::case::Case;
    use seekless_lab::explore::replay::replay;
    let text = "seekless crash 1\nrun clients 1 seed 1\nfail component 0 request 8\n\
                write 0+8\nflush\nread 0+8\nread 0+8\nread 0+8\nflush\nwrite 8+8\nflush\ncrash 40\n";
    let case: Case = text.parse().unwrap();
    let replayed = replay(&common::volume("powercut"), &case);
    assert!(replayed.finding.is_none());
    let failed = |line: &&Line| matches!(line, Line::Event(Event::Failed { .. }));
    assert_eq!(replayed.history.iter().filter(failed).count(), 1, "{:?}", replayed.history);
}
