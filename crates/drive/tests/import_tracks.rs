//! Layouts of DiskSim that list places (`dm_layout_g2`) or repeat patterns of tracks (`dm_layout_g4`): written from
//! drives drawn at random, and read again, each sector is where it was.

#[path = "common/mappings.rs"]
mod mappings;

use std::fmt::Write;

use mappings::MAPPINGS;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::{Extent, Lba};
use seekless_drive::disk::layout::Layout;
use seekless_drive::import::disksim;
use seekless_drive::spec::{LayoutSpec, Mapping, Sparing, Spec, Zone, find, parse};

/// Nanoseconds of a revolution, a multiple of most numbers of sectors.
const TURN: u64 = 720_720_000;

/// Cylinders, sectors per track, gap before, slips, remaps.
type Drawn = (u32, u32, u32, Vec<u64>, Vec<(u64, u64)>);

/// A drive of these zones, with two more spares than slips and remaps in each.
fn drive(mapping: Mapping, heads: u32, drawn: &[Drawn]) -> Option<Spec> {
    let mut spec = find("wd2500aaks").unwrap();
    spec.heads = heads;
    spec.layout = LayoutSpec { mapping, sparing: Sparing::Zone, ..LayoutSpec::default() };
    let mut next = 0;
    let zone = |(cylinders, per_track, gap, slips, remaps): &Drawn| {
        let size = u64::from(cylinders * per_track * heads);
        let mut slips = slips.clone();
        slips.sort_unstable();
        slips.dedup();
        let spares = (slips.len() + remaps.len()) as u64 + 2;
        // Remapped sectors are among the spares.
        let remaps: Vec<(u64, u64)> =
            (0..).zip(remaps).map(|(number, &(from, _))| (from, size - 1 - number)).collect();
        next += gap + cylinders;
        Zone {
            first_cylinder: Some(next - cylinders),
            cylinders: *cylinders,
            sectors_per_track: *per_track,
            track_skew: f64::from(per_track / 5),
            cylinder_skew: f64::from(per_track / 3),
            offset: f64::from(gap % per_track),
            spares: spares as u32,
            slips,
            remaps,
            ..Zone::default()
        }
    };
    spec.zone = drawn.iter().map(zone).collect();
    spec.sectors = spec
        .zone
        .iter()
        .map(|zone| u64::from(zone.cylinders * heads * zone.sectors_per_track - zone.spares))
        .sum();
    parse("drawn", &toml::to_string(&spec).unwrap()).ok()
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let zone = (3..7_u32, 8..20_u32, 0..3_u32, vec(0..40_u64, 0..3), vec((0..40_u64, Just(0)), 0..2));
    vec(zone, 1..4)
}

/// The model of a drive with this layout, in a folder of its own; imported.
fn imported(name: &str, spec: &Spec, layout: &str, map: &str) -> Spec {
    let folder = std::env::temp_dir().join(format!("seekless-tracks-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = format!(
        "dm_disk drawn {{\nNumber of data surfaces = {}, Number of cylinders = {}, Block count = {},\n\
         Mechanical Model = dm_mech_g1 {{ Access time type = trackSwitchPlusRotation, Seek type = constant,\n\
         Constant seek time = 2.0, Add. write settling delay = 0.0, Head switch time = 0.5,\n\
         Rotation speed (in rpms) = 6000 }},\nLayout Model = {layout} }}\n",
        spec.heads,
        spec.cylinders(),
        spec.sectors
    );
    std::fs::write(folder.join("drawn.model"), model).unwrap();
    std::fs::write(folder.join("drawn.map"), map).unwrap();
    let imported = disksim(&folder.join("drawn.model"), "drawn");
    std::fs::remove_dir_all(&folder).unwrap();
    imported.unwrap_or_else(|error| panic!("{error}")).spec
}

/// All sectors are where they were, at the same angles.
fn same(spec: &Spec, again: &Spec) -> Result<(), TestCaseError> {
    prop_assert_eq!(spec.sectors, again.sectors);
    let (one, other) = (Layout::new(spec, TURN), Layout::new(again, TURN));
    for lba in 0..spec.sectors {
        prop_assert_eq!(one.position(Lba(lba)), other.position(Lba(lba)), "sector {}", lba);
        let angles = [&one, &other].map(|layout| layout.piece(Extent::new(lba, 1)).angle);
        let off = angles[0].abs_diff(angles[1]);
        prop_assert!(off.min(TURN - off) < TURN / 100_000, "{:?} at {}", angles, lba);
    }
    Ok(())
}

/// The file of places of a layout.
fn map(spec: &Spec, layout: &Layout) -> String {
    let mut map =
        format!("A drive\nof no vendor\n{} cylinders, 6000 rot, {} heads\n", spec.cylinders(), spec.heads);
    let mut lba = 0;
    while lba < spec.sectors {
        let at = layout.position(Lba(lba));
        let sectors = layout.piece(Extent::new(lba, spec.sectors - lba)).at.sectors;
        let (cylinder, head, sector) = (at.cylinder, at.head, at.sector);
        let count = if lba % 2 == 0 { format!("seqcnt {}", sectors - 1) } else { format!("count {sectors}") };
        writeln!(map, "lbn {lba} --> cyl {cylinder}, head {head}, sect {sector}, {count}").unwrap();
        lba += sectors;
    }
    map + "Defect at cyl 0, head 0, sect 7\n"
}

fn mapped_zones(spec: &Spec) -> String {
    let zone = |zone: &Zone| {
        let first = zone.first_cylinder.unwrap();
        format!(
            "dm_layout_g2_zone {{ First cylinder number = {first}, Last cylinder number = {}, First LBN = 0,\n\
             Last LBN = 0, Blocks per track = {}, Zone Skew = {:.1}, Skew for track switch = {:.1},\n\
             Skew for cylinder switch = {:.1} }}",
            first + zone.cylinders - 1,
            zone.sectors_per_track,
            zone.offset,
            zone.track_skew,
            zone.cylinder_skew
        )
    };
    let zones: Vec<String> = spec.zone.iter().map(zone).collect();
    format!("dm_layout_g2 {{ Layout Map File = drawn.map, Zones = [ {} ] }}", zones.join(",\n"))
}

/// The tree of a layout: two cylinders of a zone, or all of it under each head; slips and remaps.
fn tree(spec: &Spec) -> String {
    let (heads, by_surface) = (u64::from(spec.heads), spec.layout.mapping.by_surface());
    let (mut patterns, mut nodes, mut root) = (String::new(), Vec::new(), Vec::new());
    let (mut slips, mut remaps) = (Vec::new(), Vec::new());
    let (mut base, mut lba) = (0, 0);
    for (number, zone) in spec.zone.iter().enumerate() {
        let (cylinders, per_track) = (u64::from(zone.cylinders), u64::from(zone.sectors_per_track));
        let first = u64::from(zone.first_cylinder.unwrap());
        let part = |sectors: f64| sectors / per_track as f64;
        let (track, cylinder) = (part(zone.track_skew), part(zone.cylinder_skew));
        write!(patterns, "{}0, {}, {per_track}", if number > 0 { ", " } else { "" }, per_track - 1).unwrap();
        let size = cylinders * heads * per_track;
        let mut node = Vec::new();
        if by_surface {
            for head in 0..heads {
                let back = spec.layout.mapping == Mapping::SurfaceSerpentine && head % 2 == 1;
                let (from, way) = if back { (cylinders - 1, -1) } else { (0, 1) };
                let angle = head as f64 * (track + (cylinders - 1) as f64 * cylinder);
                node.push(format!(
                    "{}, {from}, {angle:.9}, {per_track}, 1, {cylinder:.9}, {}, {}, TRACK, {number}, {head}",
                    head * cylinders * per_track,
                    cylinders * per_track,
                    way * i64::from(zone.cylinders),
                ));
            }
            root.push(format!(
                "{base}, {first}, {:.9}, {size}, {cylinders}, 0.0, {size}, {cylinders}, IDX, {number}",
                part(zone.offset)
            ));
        } else {
            for step in 0..2 * heads {
                let (at, head) = (step / heads, step % heads);
                let back = match spec.layout.mapping {
                    Mapping::SerpentineZone => at == 1,
                    Mapping::Serpentine => (first + at) % 2 == 1,
                    _ => false,
                };
                let there = if back { heads - 1 - head } else { head };
                let angle = (at * (heads - 1) + head) as f64 * track + at as f64 * cylinder;
                node.push(format!(
                    "{}, {at}, {angle:.9}, {per_track}, 1, 0.0, {per_track}, 1, TRACK, {number}, {there}",
                    step * per_track
                ));
            }
            root.push(format!(
                "{base}, {first}, {:.9}, {}, 2, {:.9}, {size}, {cylinders}, IDX, {number}",
                part(zone.offset),
                2 * heads * per_track,
                2.0 * ((heads - 1) as f64 * track + cylinder)
            ));
        }
        nodes.push(node);
        // Slips and spares are passed over in the order of the tree; a remapped sector is none of them.
        let held = size - u64::from(zone.spares);
        let mut place = 0;
        for _ in 0..held {
            while zone.slips.contains(&place) {
                slips.push(format!("{}, 1", base + place));
                place += 1;
            }
            if let Some(&(_, to)) = zone.remaps.iter().find(|(from, _)| *from == place) {
                let (track, sector) = (to / per_track, to % per_track);
                let spot = Layout::new(spec, TURN).position(Lba(lba));
                assert_eq!(sector, spot.sector, "of track {track}");
                remaps.push(format!("{lba}, 1, {}, {}, {sector}, {per_track}", spot.cylinder, spot.head));
            }
            (place, lba) = (place + 1, lba + 1);
        }
        slips.push(format!("{}, {}", base + place, size - place));
        base += size;
    }
    nodes.push(root);
    let nodes: Vec<String> = nodes.iter().map(|node| format!("[ {} ]", node.join(",\n"))).collect();
    format!(
        "dm_layout_g4 {{ TP = [ {patterns} ],\nIDX = [ {} ],\nSlips = [ {} ],\nRemaps = [ {} ] }}",
        nodes.join(",\n"),
        slips.join(", "),
        remaps.join(", ")
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn lists_of_places_are_read_again(mapping in 0..5_usize, heads in 2..4_u32, drawn in drawn()) {
        let Some(spec) = drive(MAPPINGS[mapping], heads, &drawn) else { return Ok(()) };
        let map = map(&spec, &Layout::new(&spec, TURN));
        same(&spec, &imported("map", &spec, &mapped_zones(&spec), &map))?;
    }

    #[test]
    fn trees_of_tracks_are_read_again(mapping in 0..5_usize, heads in 2..4_u32, drawn in drawn()) {
        let Some(spec) = drive(MAPPINGS[mapping], heads, &drawn) else { return Ok(()) };
        same(&spec, &imported("tree", &spec, &tree(&spec), ""))?;
    }
}
