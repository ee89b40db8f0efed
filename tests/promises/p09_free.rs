//! Promise 9. Free work is free: the foreground's schedule is identical with and without it.
//!
//! Fault model: none; idle time is not used, and the head behaves as the model predicts. The times of every request
//! and every answer of the recordings that ship are compared, on a drive with its cache on, under five schedulers,
//! beside a scan of the whole drive. (Random loads on every drive that ships: the tests of
//! `crates/drive`.)

use std::path::Path;

use seekless_core::Nanos;
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Policy, spec};
use seekless_lab::Pace;
use seekless_lab::mining::{Foreground, Mining, mine};
use seekless_trace::ReadOptions;

/// For each recording.
const REQUESTS: usize = 6_000;

#[test]
fn recorded_foregrounds_are_the_same_to_the_nanosecond() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let policies = [Policy::Fcfs, Policy::CLook, Policy::Sstf, Policy::Sptf, Policy::SptfSw(40)];
    for name in ["appstart2", "mail", "svnserver2"] {
        let trace = seekless_trace::load(&[data.join(name)], &ReadOptions::default()).unwrap();
        let records = &trace.records[..REQUESTS.min(trace.records.len())];
        for (number, policy) in policies.into_iter().enumerate() {
            let open = number % 2 == 1;
            let pace = if open { Pace::Open { speed: 4.0 } } else { Pace::Closed { outstanding: 8 } };
            let mining = Mining {
                drive: spec::find("wd2500aaks").unwrap(),
                policy,
                foreground: Foreground::Trace(records.into(), pace),
                free: FreeOptions::default(),
                block: 8,
                scans: 1,
                scrub: None,
                time: None,
                seed: 1,
            };
            let (mined, alone) = (mine(&mining, None).unwrap(), mine(&mining, Some(0)).unwrap());
            assert_eq!((mined.hash, mined.waited), (alone.hash, alone.waited), "{name}, {policy}");
            assert_eq!(mined.requests, alone.requests);
            assert!(mined.blocks > 10_000, "{name}, {policy}: {}", mined.blocks);
        }
    }
}

/// As above, beside a scrub, whose reads go through a layer and a queue.
#[test]
fn a_free_scrub_changes_nothing_either() {
    for drive in ["wd2500aaks", "quantum-atlas-10k-disksim"] {
        let mining = Mining {
            drive: spec::find(drive).unwrap(),
            policy: Policy::CLook,
            foreground: Foreground::Load("oltp:mpl=7".to_owned()),
            free: FreeOptions::default(),
            block: 8,
            scans: 1,
            scrub: Some(toml::from_str("class = 'free'").unwrap()),
            time: Some(Nanos::from_millis(300_000)),
            seed: 1,
        };
        let mined = mine(&mining, None).unwrap();
        let alone = mine(&mining, Some(mined.requests)).unwrap();
        assert_eq!((mined.hash, mined.waited), (alone.hash, alone.waited), "{drive}");
        assert!(mined.freed.bytes > 1 << 28, "{drive}: {}", mined.freed.bytes);
    }
}

/// On large current drives, with one arm and with two, each of which scans its part.
#[test]
fn the_largest_drives_are_scanned_for_free_by_all_their_arms() {
    for drive in ["wd-re3-1tb", "hgst-ultrastar-7k8-8tb", "seagate-exos-2x18-18tb"] {
        let mining = Mining {
            drive: spec::find(drive).unwrap(),
            policy: Policy::Sptf,
            foreground: Foreground::Load("oltp:mpl=7".to_owned()),
            free: FreeOptions::default(),
            block: 8,
            scans: 1,
            scrub: None,
            time: Some(Nanos::from_millis(30_000)),
            seed: 1,
        };
        let mined = mine(&mining, None).unwrap();
        let alone = mine(&mining, Some(mined.requests)).unwrap();
        assert_eq!((mined.hash, mined.waited), (alone.hash, alone.waited), "{drive}");
        assert!(mined.requests > 2_000 && mined.blocks > 200_000, "{drive}: {}", mined.blocks);
    }
}
