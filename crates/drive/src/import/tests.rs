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
    assert!(reports(&["small.diskspecs, line 12", "Colour = red", "not known"]) && left_out.len() == 2);
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
        (
            "small.model",
            MODEL,
            "Blocks per track = 20",
            "Blocks per track = x",
            ["line 13", "\"x\"", "a number"],
        ),
        ("small.model", MODEL, "scheme = 1", "scheme = 9", ["line 10", "= 9", "0, 1 or 2"]),
        ("small.model", MODEL, "Zones = [", "Zones = {", ["small.model", "found", "expected"]),
        ("small.model", MODEL, "number = 20", "number = 5", ["zone 2", "found 5", "overlap"]),
        (
            "small.seek",
            SEEK,
            "3,\t2.0",
            "3 2.0",
            ["small.seek, line 4", "\"3 2.0\"", "cylinders, milliseconds"],
        ),
        ("small.diskspecs", SPECS, "level = 2,", "level = 7,", ["line 9", "= 7", "0, 1 or 2"]),
        ("small.parv", PARV, "source small", "source none", ["none.diskspecs", "No such file", ""]),
        ("small.parv", PARV, "small.diskspecs", "small.parv", ["line 6", "include each other", "eight deep"]),
        ("small.parv", PARV, "source small.diskspecs", "", ["line 1", "no drive", "disksim_disk"]),
    ]
    .into_iter()
    .enumerate()
    {
        let error = reports(&format!("wrong-{number}"), file, &text.replacen(from, to, 1));
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
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
