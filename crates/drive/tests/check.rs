//! Public measurements beside the models: what a fitted drive gives for what it was fitted to, and for the rest.

use seekless_drive::Model;
use seekless_drive::check::{Compared, Figure, Job, Use, compare, known};

#[test]
fn measurements_name_models_and_sources() {
    let known = known().unwrap();
    assert!(known.len() >= 15);
    for measurement in &known {
        assert!(measurement.real > 0.0 && measurement.source.contains(": "), "{measurement:?}");
        assert!(measurement.drives.iter().all(|drive| Model::find(drive).is_ok()), "{measurement:?}");
        assert!(measurement.fitted.iter().all(|drive| measurement.drives.contains(drive)), "{measurement:?}");
    }
}

fn of(drive: &str) -> Vec<Compared> {
    let compared = compare(&known().unwrap(), Some(drive)).unwrap();
    for one in &compared {
        println!("{}: {:.2} {}, measured {} ({:+.1} %)", one.what, one.ours, one.unit, one.real, one.off_pct);
    }
    compared
}

#[test]
fn a_fitted_drive_predicts_what_it_was_not_fitted_to_within_15_per_cent() {
    let compared = of("seagate-st2000dm006-2");
    let predicted: Vec<&Compared> = compared.iter().filter(|one| one.used == Use::Predicted).collect();
    assert_eq!((compared.len(), predicted.len()), (10, 4));
    assert!(compared.iter().all(|one| one.off_pct.abs() < 15.0));
}

#[test]
fn the_drive_that_was_not_fitted_is_off_by_as_much_as_ever() {
    let compared = of("seagate-st2000dm006");
    assert!(compared.iter().all(|one| one.used == Use::Predicted));
    let queued = compared.iter().find(|one| one.what.contains("32 in the drive")).unwrap();
    assert!(queued.off_pct > 100.0, "it reorders its whole queue");
}

#[test]
fn what_a_drive_was_fitted_to_it_gives() {
    for one in compare(&known().unwrap(), None).unwrap() {
        println!("{}, {}: {:.4} {}", one.drive, one.what, one.ours, one.unit);
        assert!(one.used == Use::Predicted || one.off_pct.abs() < 15.0, "{one:?}");
    }
}

#[test]
fn a_job_counts_what_it_did() {
    let model = Model::find("wd-re3-1tb").unwrap();
    let flush = |after, further| Job::Flush { after, further }.on(&model).unwrap().figure(Figure::MeanMs);
    assert_eq!(flush(8, 2).to_bits(), flush(10, 0).to_bits());
    assert!(flush(10, 0) > flush(2, 0) * 2.0);
    let reads = Job::Reads { outstanding: 1 }.on(&model).unwrap();
    let mean = reads.figure(Figure::MeanMs);
    assert!((reads.figure(Figure::PerS) * mean / 1e3 - 1.0).abs() < 0.01, "one at a time, without a break");
    assert!(reads.figure(Figure::P50Ms) < reads.figure(Figure::P99Ms));
    let stream = Job::StreamOfReads.on(&model).unwrap().figure(Figure::MbS);
    assert!((70.0..113.0).contains(&stream), "between the published edge and the inner one: {stream}");
}
