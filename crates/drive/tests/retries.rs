//! Accesses that do not succeed at once: how many, how long, and which.

use seekless_core::{Extent, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::spec::{RetrySpec, find, parse};

mod common;

use common::Lcg;

/// Service times of accesses somewhere, on a drive with these retries.
fn times(retries: Option<RetrySpec>, op: Op) -> Vec<u64> {
    let mut spec = find("wd-re3-1tb").unwrap();
    spec.retries = retries;
    let mut drive = Drive::new(&spec);
    let (mut rng, mut now) = (Lcg(5), Nanos(0));
    let mut time = || {
        let at = Extent::new(rng.below(drive.layout().sectors() / 8 - 1) * 8, 8);
        let took = drive.serve(op, at, now, false).total();
        // At the same angle whatever came before.
        now = Nanos((now + took).0.next_multiple_of(drive.mechanics().revolution().0 * 100));
        took.0
    };
    (0..2_000).map(|_| time()).collect()
}

#[test]
fn a_share_of_the_accesses_takes_whole_revolutions_more_the_same_ones_each_time() {
    let of = |seed| Some(RetrySpec { share: 0.05, revolutions: 4, seed });
    for op in [Op::Read, Op::Write] {
        let (without, with) = (times(None, op), times(of(1), op));
        let more: Vec<u64> = without.iter().zip(&with).map(|(without, with)| with - without).collect();
        let revolution = 60_000_000_000 / 7_200;
        let turns = |more: &u64| (more + revolution / 2) / revolution;
        // Less than a transfer over the bus beside whole revolutions, since the answer may have waited for that.
        assert!(more.iter().all(|more| more.abs_diff(turns(more) * revolution) < 50_000), "{more:?}");
        let mut counts = [0; 5];
        for more in &more {
            counts[turns(more) as usize] += 1;
        }
        let retried: u32 = counts[1..].iter().sum();
        assert!((60..140).contains(&retried), "about 100 of 2,000: {counts:?}");
        assert!(counts[1..].iter().all(|&count| count > 10), "each number of revolutions: {counts:?}");
        assert_eq!(with, times(of(1), op), "the same ones each time");
        assert_ne!(with, times(of(2), op), "others with another seed");
    }
}

#[test]
fn retries_that_no_drive_can_have_are_refused() {
    let mut spec = find("wd-re3-1tb").unwrap();
    for (share, revolutions, words) in
        [(1.5, 1, "retries.share: found 1.5, expected 0 to 1"), (0.1, 0, "retries.revolutions: found 0")]
    {
        spec.retries = Some(RetrySpec { share, revolutions, seed: 0 });
        let error = parse("d.toml", &toml::to_string(&spec).unwrap()).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(", line "), "{error}");
    }
}
