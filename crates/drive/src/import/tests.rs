//! A small handmade drive, in pieces as DiskSim's files come, whole and damaged.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::disk::layout::Layout;
use crate::disk::mechanics::Mechanics;
use crate::spec::{ReadAhead, SeekCurve, WriteBack};

const PARV: &str = "\
# A comment, { with a bracket
disksim_bus BUS1 {
   type = 1,
   Read block transfer time = 0.2, Write block transfer time = 0.05
}
source small.diskspecs
instantiate [ statfoo ] as Stats
instantiate [ bus1 ] as BUS1
instantiate [ disk0, disk1 ] as SMALL
topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_ctlr ctlr0 [
   disksim_bus bus1 [ disksim_disk disk0 [], disksim_disk disk1 [] ] # end of bus1
] ] ]
";

const SPECS: &str = "\
disksim_disk SMALL {
   Model = source small.model,
   Bulk sector transfer time = 0.1,
   Hold bus entire read xfer = 1,
   Number of buffer segments = 3, Segment size (in blks) = 100,
   Maximum number of write segments = 1,
   Enable caching in buffer = 1,
   Buffer continuous read = 4,
   Fast write level = 2,
   Preseeking level = 2,
   Read miss over. after read = 0.607730,
   Colour = red,
   Scheduler = disksim_ioqueue { Scheduling policy = 1 }
} # end
";

const MODEL: &str = "\
dm_disk SMALL_model {
   Number of data surfaces = 2, Number of cylinders = 30, Block count = 590,
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Full seek curve = small.seek,
      Add. write settling delay = -0.25, Head switch time = 0.5, Rotation speed (in rpms) = 6000
   },
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1, Sparing scheme used = 9, Rangesize for sparing = 1,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 9, Blocks per track = 20,
            Skew for track switch = 3.5, Skew for cylinder switch = 5, Number of spares = 4,
            slips = [ 77, 12 ], defects = [ 30, 398 ]
         },
         dm_layout_g1_zone { First cylinder number = 20, Last cylinder number = 29, Blocks per track = 10,
            Skew for track switch = 2, Skew for cylinder switch = 3, slips = [], defects = [] }
      ]
   }
}
";

const SEEK: &str = "Seek distances measured: 2\n1, 1.0\n\n3,\t2.0\n";

fn folder(name: &str, changed: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("seekless-import-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files =
        [("small.parv", PARV), ("small.diskspecs", SPECS), ("small.model", MODEL), ("small.seek", SEEK)];
    for (file, text) in files {
        let text = changed.iter().find(|(changed, _)| *changed == file).map_or(text, |(_, text)| text);
        std::fs::write(folder.join(file), text).unwrap();
    }
    folder
}

fn import(name: &str, changed: &[(&str, &str)]) -> Result<Imported, ImportError> {
    let folder = folder(name, changed);
    let imported = disksim(&folder.join("small.parv"), "small");
    std::fs::remove_dir_all(folder).unwrap();
    imported
}

#[test]
fn every_piece_is_taken_over() {
    let Imported { spec, left_out } = import("whole", &[]).unwrap();
    assert_eq!((spec.heads, spec.head_switch_us, spec.write_settle_us), (2, 500.0, -250.0));
    assert_eq!((spec.bus.read_sector_us, spec.bus.write_sector_us), (Some(200.0), Some(100.0)));
    assert_eq!((spec.cache.read_ahead, spec.cache.write_back), (ReadAhead::NextTrack, WriteBack::All));
    assert!((spec.command.read_miss_after_read_us - 607.73).abs() < 1e-9);
    assert_eq!(spec.seek, SeekCurve::Table { points: vec![(1, 1000.0), (3, 2000.0)] });
    // Two tracks of ten cylinders each, less four spares, of which two are slips and one a remap.
    assert_eq!(spec.sectors, 400 - 4 + 200);
    let reports = |words: &[&str]| left_out.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(
        reports(&["small.diskspecs, line 10", "Preseeking level = 2", "the end of a command"]),
        "{left_out:?}"
    );
    assert!(reports(&["small.diskspecs, line 12", "Colour = red", "not known"]) && left_out.len() == 3);
    assert!(reports(&["small.model, line 14", "track switch = 3.5", "taken as 3"]), "{left_out:?}");
    assert!((spec.zone[0].track_skew - 3.0).abs() < 1e-9);
}

#[test]
fn figures_of_three_values_are_known() {
    let text = SPECS.replacen("Enable caching in buffer = 1", "Enable caching in buffer = 2", 1).replacen(
        "Colour = red",
        "Read-ahead over requested = -1, Immediate buffer read = 2",
        1,
    );
    let Imported { spec, left_out } = import("three", &[("small.diskspecs", &text)]).unwrap();
    assert!(
        spec.cache.forget_requested && spec.cache.read_ahead_over_request && spec.cache.zero_latency_read
    );
    assert_eq!(left_out.iter().filter(|line| line.contains("taken as 1")).count(), 2, "{left_out:?}");
    let text = text.replacen("requested = -1", "requested = -2", 1);
    let error = import("four", &[("small.diskspecs", &text)]).unwrap_err().to_string();
    assert!(error.contains("line 12") && error.contains("-1, 0 or 1"), "{error}");
}

#[test]
fn slips_and_remaps_are_placed_as_in_the_file() {
    let spec = import("layout", &[]).unwrap().spec;
    let layout = Layout::new(&spec, Mechanics::new(&spec).revolution().0);
    let at = |lba| {
        let position = layout.position(seekless_core::Lba(lba));
        (position.cylinder, position.head, position.sector)
    };
    assert_eq!((at(11), at(12)), ((0, 0, 11), (0, 0, 13)));
    // The sector of place 30 lies at place 398; the second cylinder goes from the last head to the first.
    assert_eq!((at(28), at(29), at(30)), ((0, 1, 9), (9, 0, 18), (0, 1, 11)));
    assert_eq!(at(39), (1, 1, 0));
    assert_eq!(at(396), (20, 0, 0));
}

#[test]
fn errors_give_file_and_line() {
    let reports = |name: &str, file: &str, text: &str| import(name, &[(file, text)]).unwrap_err().to_string();
    for (number, (file, text, from, to, words)) in [
        ("small.model", MODEL, "track = 20", "track = x", ["small.model, line 13", "\"x\"", "a number"]),
        ("small.model", MODEL, "track = 20", "track = 0", ["small.model, line 13", "track = 0", "1 or more"]),
        ("small.model", MODEL, "scheme = 1", "scheme = 9", ["line 10", "= 9", "0, 1 or 2"]),
        ("small.model", MODEL, "used = 9", "used = 11", ["line 10", "used = 11", "0 to 10"]),
        ("small.model", MODEL, "Zones = [", "Zones = {", ["small.model", "found", "expected"]),
        (
            "small.model",
            MODEL,
            "number = 20",
            "number = 5",
            ["small.model, line 17", "number = 5,", "10 or more: zones in ascending order"],
        ),
        (
            "small.model",
            MODEL,
            "Last cylinder number = 9",
            "Last cylinder number = -9",
            ["line 13", "-9", "0"],
        ),
        ("small.model", MODEL, "= 3.5", "= -1", ["small.model, line 14", "track switch = -1", "0 or more"]),
        ("small.model", MODEL, "switch = 5", "switch = -5", ["line 14", "cylinder switch = -5", "0 or more"]),
        (
            "small.model",
            MODEL,
            "used = 9",
            "used = 1",
            ["line 15", "1 of them, and 0 remaps", "than the spare tracks, 0"],
        ),
        (
            "small.model",
            MODEL,
            "30, 398 ",
            "30 ",
            ["small.model, line 15", "defects = 1 numbers", "pairs: from, to"],
        ),
        ("small.model", MODEL, "6000", "60", ["small.model, line 7", "rpm: 60", "300 to 60000"]),
        ("small.model", MODEL, "surfaces = 2", "surfaces = 0", ["small.model, line 2", "none", "1 or more"]),
        ("small.model", MODEL, "surfaces = 2", "surfaces = 99", ["small.model, line 2", "99", "1 to 64"]),
        (
            "small.model",
            MODEL,
            "dm_layout_g1 {",
            "dm_layout_g9 {",
            ["line 9", "dm_layout_g9", "dm_layout_g1"],
        ),
        ("small.model", MODEL, "small.seek", "none.seek", ["none.seek", "named in", "small.model, line 6"]),
        (
            "small.seek",
            SEEK,
            "3,\t2.0",
            "3 2.0",
            ["small.seek, line 4", "\"3 2.0\"", "cylinders, milliseconds"],
        ),
        ("small.seek", SEEK, "2.0", "2e9", ["small.seek, line 1", "seek.points: 2", "0 to 1000000"]),
        ("small.diskspecs", SPECS, "level = 2,", "level = 7,", ["line 9", "= 7", "0, 1 or 2"]),
        (
            "small.diskspecs",
            SPECS,
            "read = 0.607730",
            "read = -1",
            ["small.diskspecs, line 1:", "command.read_miss_after_read_us: -1000", "0 to 1000000"],
        ),
        (
            "small.diskspecs",
            SPECS,
            "small.model",
            "none.model",
            ["none.model", "diskspecs, line 2", "named in"],
        ),
        ("small.parv", PARV, "source small", "source none", ["none.diskspecs", "No such file", "line 6)"]),
        ("small.parv", PARV, "small.diskspecs", "small.parv", ["line 6", "include each other", "eight deep"]),
        ("small.parv", PARV, "source small.diskspecs", "", ["line 1", "no drive", "disksim_disk"]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut text = text.replacen(from, to, 1);
        if to == "used = 1" {
            text = text.replacen("spares = 4", "spares = 0", 1).replacen("30, 398", "", 1);
        }
        let error = reports(&format!("wrong-{number}"), file, &text);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn more_slips_than_sectors_are_refused_where_they_are() {
    let slips: Vec<String> = (0..400).map(|slip| slip.to_string()).collect();
    let text = MODEL.replacen("slips = [ 77, 12 ]", &format!("\nslips = [ {} ]", slips.join(", ")), 1);
    let error = import("slips", &[("small.model", &text)]).unwrap_err().to_string();
    let words = ["small.model, line 16", "slips = 400 of them", "fewer than the zone's 400 sectors"];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn defects_that_disksim_passes_over_are_reported() {
    let text =
        MODEL.replacen("77, 12 ]", "77, 12, 77, 4000 ]", 1).replacen("30, 398", "30, 398, 5, 5, 6, 12", 1);
    let Imported { spec, left_out } = import("odd", &[("small.model", &text)]).unwrap();
    assert_eq!((&spec.zone[0].slips, &spec.zone[0].remaps), (&vec![12, 77], &vec![(30, 398), (5, 5)]));
    for value in ["slips = 77", "slips = 4000", "defects = 6, 12"] {
        assert!(left_out.iter().any(|line| line.contains(value) && line.contains("line 15")), "{left_out:?}");
    }
}

#[test]
fn skews_may_be_parts_of_a_revolution() {
    let text = MODEL.replacen("used = 9,", "used = 9, Skew units = revolutions,", 1);
    let text = text.replacen("switch = 3.5", "switch = 1.25", 1).replacen("switch = 5", "switch = 0.5", 1);
    let text = text.replacen("switch = 2,", "switch = 2, Skew units = sectors,", 1);
    let spec = import("turns", &[("small.model", &text)]).unwrap().spec;
    let skews = |zone: usize| (spec.zone[zone].track_skew, spec.zone[zone].cylinder_skew);
    assert_eq!((skews(0), skews(1)), ((5.0, 10.0), (2.0, 3.0)));
}

#[test]
fn a_seek_curve_is_read_as_disksim_reads_it() {
    let curve = "2, 1.0, 0.1\n4, 2.0, 0.3\nmeasured twice:\n3, 9.0\n8, 3.0\n";
    let Imported { spec, left_out } = import("curve", &[("small.seek", curve)]).unwrap();
    let points = vec![(1, 500.0), (2, 1000.0), (4, 2000.0), (8, 3000.0)];
    assert_eq!(spec.seek, SeekCurve::Table { points });
    for line in ["small.seek, line 3: \"measured twice:\"", "small.seek, line 4: \"3, 9.0\""] {
        assert!(left_out.iter().any(|found| found.contains(line)), "{left_out:?}");
    }
    let constant = MODEL.replacen("extracted", "constant, Constant seek time = 2.5", 1);
    let spec = import("constant", &[("small.model", &constant)]).unwrap().spec;
    assert_eq!(spec.seek, SeekCurve::Constant { us: 2500.0 });
}

#[test]
fn blocks_may_have_names_and_parents() {
    let specs = SPECS.replacen("Segment size (in blks) = 100", "Segment size (in blks) = 0x64", 1).replacen(
        "source small.model",
        MODEL.replacen("dm_disk SMALL_model", "dm_disk named", 1).trim_end(),
        1,
    );
    let child = format!("{specs}\nSMALL CHILD {{ Segment size (in blks) = 50 }}\n");
    let parv = PARV.replacen("as SMALL", "as CHILD", 1);
    let own = import("parent", &[("small.diskspecs", &specs)]).unwrap().spec;
    let derived = import("child", &[("small.diskspecs", &child), ("small.parv", &parv)]).unwrap().spec;
    assert_eq!((own.cache.segment_sectors, derived.cache.segment_sectors), (100, 50));
    assert_eq!((own.sectors, own.title.as_str()), (derived.sectors, "named"));
}

#[test]
fn a_controller_may_be_slower_than_the_bus() {
    let parv = format!("disksim_ctlr CTLR0 {{ Bulk sector transfer time = 0.15 }}\n{PARV}").replacen(
        "instantiate [ bus1 ]",
        "instantiate [ ctlr0 ] as CTLR0 instantiate [ bus1 ]",
        1,
    );
    let bus = import("slow", &[("small.parv", &parv)]).unwrap().spec.bus;
    assert_eq!((bus.read_sector_us, bus.write_sector_us), (Some(200.0), Some(150.0)));
}

#[test]
fn reads_on_a_held_bus_are_in_order() {
    let specs = SPECS.replacen("Colour = red", "Immediate buffer read = 1", 1);
    let Imported { spec, left_out } = import("held", &[("small.diskspecs", &specs)]).unwrap();
    assert!(spec.cache.zero_latency_read && !spec.cache.reads_any_order(spec.bus.holds_read()));
    assert!(left_out.iter().any(|line| line.contains("in_order_when_held")), "{left_out:?}");
    // A track, from any angle.
    let took = |in_order: bool, start: u64| {
        let mut spec = spec.clone();
        spec.cache.in_order_when_held = in_order;
        let (at, start) = (seekless_core::Extent::new(396, 10), seekless_core::Nanos(start));
        crate::disk::Drive::new(&spec).serve(seekless_core::Op::Read, at, start, false).total().0
    };
    let more = (0..10).map(|ms| took(true, ms * 1_000_000).saturating_sub(took(false, ms * 1_000_000)));
    let more: Vec<u64> = more.collect();
    assert!(more.iter().max() > Some(&4_000_000), "{more:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any files are a working drive or an error.
    #[test]
    fn mutated_files_are_a_drive_or_an_error(
        file in 0..4_usize,
        at in any::<prop::sample::Index>(),
        insert in "\\PC{0,6}|[{}\\[\\]=,#\\n]{1,3}|-?[0-9]{1,12}",
        remove in 0..8_usize,
    ) {
        let (name, text) =
            [("small.parv", PARV), ("small.diskspecs", SPECS), ("small.model", MODEL), ("small.seek", SEEK)][file];
        let mut letters: Vec<char> = text.chars().collect();
        let at = at.index(letters.len());
        let end = (at + remove).min(letters.len());
        letters.splice(at..end, insert.chars());
        let text: String = letters.into_iter().collect();
        if let Ok(Imported { spec, .. }) = import("mutated", &[(name, &text)]) {
            let mut drive = crate::disk::Drive::new(&spec);
            let last = seekless_core::Extent::new(spec.sectors - 1, 1);
            for op in [seekless_core::Op::Read, seekless_core::Op::Write] {
                drive.serve(op, last, seekless_core::Nanos(0), false);
            }
        }
    }
}
