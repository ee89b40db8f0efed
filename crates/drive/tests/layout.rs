//! Every mapping and every way of sparing: each sector has one place, and each place at most one sector.

#[path = "common/mappings.rs"]
mod mappings;

use std::collections::BTreeSet;

use mappings::MAPPINGS;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::{Extent, Lba};
use seekless_drive::disk::layout::Layout;
use seekless_drive::disk::mechanics::{Head, Mechanics};
use seekless_drive::spec::{LayoutSpec, Mapping, Sparing, Spec, Zone, find, parse};

const SPARINGS: [Sparing; 9] = [
    Sparing::None,
    Sparing::Tracks,
    Sparing::Track,
    Sparing::Cylinder,
    Sparing::CylinderToEnd,
    Sparing::CylinderFront,
    Sparing::CylinderFrontToEnd,
    Sparing::Range,
    Sparing::Zone,
];

/// Cylinders, sectors per track, spares, sectors at the front that hold nothing, slips and remaps.
type Made = (u32, u32, u32, u32, Vec<u64>, Vec<(u64, u64)>);

/// A small drive, if slips and spares are consistent.
fn drive(mapping: usize, band: u32, sparing: usize, zones: &[Made]) -> Option<Spec> {
    let mut spec = find("quantum-atlas-10k").unwrap();
    spec.heads = 3;
    spec.layout = LayoutSpec {
        mapping: MAPPINGS[mapping],
        band_cylinders: if MAPPINGS[mapping].by_surface() { band } else { 0 },
        sparing: SPARINGS[sparing],
        range_cylinders: 2,
    };
    spec.zone = zones
        .iter()
        .map(|(cylinders, per_track, spares, front, slips, remaps)| Zone {
            cylinders: *cylinders,
            sectors_per_track: *per_track,
            track_skew: f64::from(per_track / 5) + 0.25,
            cylinder_skew: f64::from(per_track / 3),
            spares: *spares,
            front: *front,
            slips: slips.clone(),
            remaps: remaps.clone(),
            ..Zone::default()
        })
        .collect();
    // As many as fit: the error of too many gives the maximum.
    spec.sectors = 1 << 40;
    let error = parse("made", &toml::to_string(&spec).unwrap()).unwrap_err().to_string();
    spec.sectors = error.rsplit("hold, ").next()?.trim().parse().ok()?;
    parse("made", &toml::to_string(&spec).unwrap()).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn sectors_and_places_are_inverses(
        mapping in 0..5_usize,
        band in 0..5_u32,
        sparing in 0..9_usize,
        zones in vec(
            (1..7_u32, 6..20_u32, 0..4_u32, 0..5_u32, vec(0..60_u64, 0..3), vec((0..60_u64, 60..120_u64), 0..2)),
            1..3,
        ),
    ) {
        let Some(spec) = drive(mapping, band, sparing, &zones) else { return Ok(()) };
        let mechanics = Mechanics::new(&spec);
        let layout = Layout::new(&spec, mechanics.revolution().0);
        let mut places = BTreeSet::new();
        for lba in 0..spec.sectors {
            let place = layout.position(Lba(lba));
            prop_assert_eq!(layout.lba(place), Some(Lba(lba)), "{:?}", place);
            prop_assert!(places.insert(place), "{:?} holds two sectors", place);
        }
        // Every place that holds a sector was listed; the others hold none.
        let mut held = 0;
        for (zone, first) in spec.zone.iter().zip(spec.first_cylinders()) {
            for cylinder in first..first + u64::from(zone.cylinders) {
                for head in 0..u64::from(spec.heads) {
                    for sector in 0..u64::from(zone.sectors_per_track) {
                        let place = seekless_drive::disk::layout::Position { cylinder, head, sector };
                        held += u64::from(layout.lba(place).is_some());
                    }
                }
            }
        }
        prop_assert_eq!(held, spec.sectors);
        // A read of everything passes everything, piece by piece.
        let mut rest = Extent { start: Lba(0), sectors: spec.sectors };
        while rest.sectors > 0 {
            let piece = layout.piece(rest);
            prop_assert!(piece.at.start == rest.start && piece.at.sectors > 0 && piece.angle < mechanics.revolution().0);
            let around = layout.around(rest.start);
            prop_assert!(around.start <= rest.start && around.end() == piece.at.end() || rest.sectors == piece.at.sectors);
            rest = Extent { start: piece.at.end(), sectors: rest.sectors - piece.at.sectors };
        }
        let all = Extent { start: Lba(0), sectors: spec.sectors };
        let (took, _) = mechanics.access(&layout, Head::default(), seekless_core::Nanos(0), all, false);
        prop_assert!(took.transfer.0 > 0);
    }
}

#[test]
fn a_band_is_filled_surface_by_surface_before_the_next() {
    let mut spec = find("quantum-atlas-10k").unwrap();
    spec.heads = 2;
    spec.layout = LayoutSpec { mapping: Mapping::SurfaceSerpentine, band_cylinders: 3, ..spec.layout };
    spec.layout.sparing = Sparing::None;
    let zone =
        Zone { cylinders: 5, sectors_per_track: 10, track_skew: 1.0, cylinder_skew: 2.0, ..Zone::default() };
    (spec.zone, spec.sectors) = (vec![zone], 100);
    let spec = parse("made", &toml::to_string(&spec).unwrap()).unwrap();
    let layout = Layout::new(&spec, 6_000_000);
    let tracks: Vec<(u64, u64)> = (0..10)
        .map(|track| layout.position(Lba(track * 10)))
        .map(|place| (place.cylinder, place.head))
        .collect();
    let expected = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1), (3, 0), (4, 0), (4, 1), (3, 1)];
    assert_eq!(tracks, expected);
    // Skews: 2 for each step of the arm, 1 where only the head changes.
    let angles = [0, 2, 4, 5, 7, 9, 11, 13, 14, 16].map(|sectors| sectors % 10 * 600_000);
    let found = (0..10).map(|track| layout.piece(Extent::new(track * 10, 1)).angle).collect::<Vec<_>>();
    assert_eq!(found, angles);
    let narrow = toml::to_string(&spec).unwrap().replace("surface-serpentine", "serpentine");
    let error = parse("made", &narrow).unwrap_err().to_string();
    assert!(error.contains("layout.band_cylinders: found 3 with this mapping, expected 0"), "{error}");
}

/// A cylinder of two tracks of ten sectors, repeated, with spares, slips and remaps; the places in order.
fn places(sparing: Sparing, cylinders: u32, zone: Zone) -> Vec<u64> {
    let mut spec = find("quantum-atlas-10k").unwrap();
    spec.heads = 2;
    spec.layout = LayoutSpec { sparing, range_cylinders: 2, ..LayoutSpec::default() };
    spec.zone = vec![Zone { cylinders, sectors_per_track: 10, ..zone }];
    spec.sectors = 1 << 40;
    let error = parse("made", &toml::to_string(&spec).unwrap()).unwrap_err().to_string();
    spec.sectors = error.rsplit("hold, ").next().unwrap().trim().parse().unwrap();
    let layout = Layout::new(&spec, 6_000_000);
    let place = |lba| {
        let at = layout.position(Lba(lba));
        (at.cylinder * 2 + at.head) * 10 + at.sector
    };
    (0..spec.sectors).map(place).collect()
}

fn defects(spares: u32, slips: &[u64], remaps: &[(u64, u64)]) -> Zone {
    Zone { spares, slips: slips.to_vec(), remaps: remaps.to_vec(), ..Zone::default() }
}

#[test]
fn defects_without_spares_shorten_their_unit() {
    // Two slips and a remap, and one spare: the remapped sector has place 39, and sectors up to 38 are there.
    let found = places(Sparing::Zone, 2, defects(1, &[3, 4], &[(7, 39)]));
    let expected: Vec<u64> = [0, 1, 2, 5, 6, 39].into_iter().chain(8..39).collect();
    assert_eq!(found, expected);
    // Without spares a remap in the middle takes the place of the sector that would be there.
    let found = places(Sparing::None, 1, defects(0, &[], &[(2, 9)]));
    let expected: Vec<u64> = [0, 1, 9].into_iter().chain(3..9).chain(10..20).collect();
    assert_eq!(found, expected);
    // By cylinder, each is as long as it can be.
    let found = places(Sparing::Cylinder, 2, defects(1, &[0, 1, 20], &[]));
    let expected: Vec<u64> = (2..20).chain(21..40).collect();
    assert_eq!(found, expected);
}

#[test]
fn spares_at_the_front_are_used_from_the_last_on() {
    let found = places(Sparing::CylinderFront, 2, defects(3, &[2, 8, 15, 21, 33], &[]));
    let expected: Vec<u64> = [1]
        .into_iter()
        .chain(3..8)
        .chain(9..15)
        .chain(16..20)
        .chain([22])
        .chain(23..33)
        .chain(34..40)
        .collect();
    assert_eq!(found, [0].into_iter().chain(expected).collect::<Vec<_>>());
}

#[test]
fn the_rest_of_a_zone_after_its_last_range_has_no_spares() {
    let found = places(Sparing::Range, 3, defects(4, &[45], &[]));
    let expected: Vec<u64> = (0..36).chain(40..45).chain(46..60).collect();
    assert_eq!(found, expected);
}
