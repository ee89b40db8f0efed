//! Layouts that are given as the places of their sectors, track by track: the order of the tracks, slips and remaps are
//! found from them.
//!
//! The tracks of a zone are tried in every order that a description knows. In the right one, places ascend with their
//! sectors, but for remapped ones; places that are passed over are slips, or spares at the zone's end.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::layout::{Layout, Position};
use crate::spec::{LayoutSpec, Mapping, Sparing, Spec, Zone, find};

/// The most places that are passed over within zones.
const MOST_SLIPS: usize = 1 << 20;

/// Consecutive sectors on a track.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// The place of the first one.
    pub at: Position,
}

/// A layout whose zones hold these sectors, which are in ascending order; `zones` have no defects yet. On failure,
/// what was found and what was expected.
pub fn laid_out(
    stretches: &[Stretch],
    zones: &[Zone],
    heads: u32,
) -> Result<(LayoutSpec, Vec<Zone>), (String, &'static str)> {
    let all: u64 = stretches.iter().map(|stretch| stretch.sectors).sum();
    if all == 0 {
        return Err(("no sectors".to_owned(), "some"));
    }
    let mut tried = Vec::new();
    for layout in orders(stretches) {
        let Some(places) = places(stretches, layout, zones, heads) else {
            return Err(("a place in no zone".to_owned(), "places in the zones"));
        };
        let stay = ascending(stretches, &places);
        let moved = all - stay.iter().map(|&number| stretches[number].sectors).sum::<u64>();
        tried.push((moved, layout, places, stay));
    }
    // Of orders in which equally many sectors are moved, the first one.
    tried.sort_by_key(|(moved, ..)| *moved);
    let most = tried.first().map_or(0, |(moved, ..)| *moved);
    let found = format!("{most} of {all} sectors in another order");
    let mut failed = (found, "tracks by cylinder or by surface, one zone after another");
    for (_, layout, places, stay) in tried.into_iter().filter(|(moved, ..)| moved * 10 <= all) {
        let mut zones = zones.to_vec();
        match defects(stretches, &places, &stay, &mut zones, heads) {
            Ok(()) => return Ok((layout, zones)),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// The orders to try: by cylinder, and by surface, in whole zones or in the bands that the first stretches show.
fn orders(stretches: &[Stretch]) -> Vec<LayoutSpec> {
    let band = stretches.iter().take_while(|one| one.at.head == stretches[0].at.head);
    let mut cylinders: Vec<u64> = band.map(|one| one.at.cylinder).collect();
    cylinders.sort_unstable();
    cylinders.dedup();
    let band = cylinders.len() as u32;
    let of = |mapping: Mapping, band_cylinders| LayoutSpec {
        mapping,
        sparing: Sparing::Zone,
        band_cylinders,
        ..LayoutSpec::default()
    };
    let by_cylinder = [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine];
    let by_surface = [Mapping::Surface, Mapping::SurfaceSerpentine];
    let bands = [0, band].into_iter().flat_map(|band| by_surface.map(|mapping| of(mapping, band)));
    by_cylinder.map(|mapping| of(mapping, 0)).into_iter().chain(bands).collect()
}

/// A drive of these zones without defects; only its layout is used.
pub fn bare(layout: LayoutSpec, zones: &[Zone], heads: u32) -> Option<Layout> {
    let mut spec: Spec = find("wd2500aaks").ok()?;
    (spec.layout, spec.zone, spec.heads) = (layout, zones.to_vec(), heads);
    spec.sectors = zones.iter().map(|zone| size(zone, heads)).sum();
    Some(Layout::new(&spec, 1))
}

/// Sectors of a zone without defects.
fn size(zone: &Zone, heads: u32) -> u64 {
    u64::from(zone.cylinders) * u64::from(heads) * u64::from(zone.sectors_per_track)
}

/// The place of each stretch, counted over all zones.
fn places(stretches: &[Stretch], layout: LayoutSpec, zones: &[Zone], heads: u32) -> Option<Vec<u64>> {
    let layout = bare(layout, zones, heads)?;
    stretches.iter().map(|one| layout.lba(one.at).map(|place| place.0)).collect()
}

/// The ascending selection with the most sectors, by the numbers of its stretches.
fn ascending(stretches: &[Stretch], places: &[u64]) -> Vec<usize> {
    // By the last place of a selection: its sectors, and the number of its last stretch. Both ascend.
    let mut best: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(places.len());
    for (number, (&place, stretch)) in places.iter().zip(stretches).enumerate() {
        let last = best.range(..place).next_back().map(|(_, &last)| last);
        before.push(last.map(|(_, last)| last));
        let sectors = last.map_or(0, |(sectors, _)| sectors) + stretch.sectors;
        // Of equally long ones, the nearer.
        while let Some((&farther, _)) = best.range(place..).next().filter(|(_, worse)| worse.0 <= sectors) {
            best.remove(&farther);
        }
        best.entry(place).or_insert((sectors, number));
    }
    let mut chosen = Vec::new();
    let mut next = best.last_key_value().map(|(_, &(_, number))| number);
    while let Some(number) = next {
        chosen.push(number);
        next = before[number];
    }
    chosen.reverse();
    chosen
}

/// Slips, remaps and spares of all zones. Stretches that do not `stay` in order are remapped from the places that were
/// passed over before the next one that does.
fn defects(
    stretches: &[Stretch],
    places: &[u64],
    stay: &[usize],
    zones: &mut [Zone],
    heads: u32,
) -> Result<(), (String, &'static str)> {
    let mut starts: Vec<u64> = Vec::new();
    let mut all = 0;
    for zone in &*zones {
        starts.push(all);
        all += size(zone, heads);
    }
    let zone_of = |place: u64| starts.partition_point(|&start| start <= place) - 1;
    let (mut number, mut place, mut slips) = (0, 0, 0);
    for &next in stay.iter().chain([&stretches.len()]) {
        let end = places.get(next).copied().unwrap_or(all);
        // Remapped sectors come from the first places that are passed over.
        while number < next {
            let moved = stretches[number];
            // What is left of the zone before holds nothing.
            let zone = zone_of(places[number]);
            if zone > zone_of(place.min(all - 1)) && starts[zone] < end {
                place = starts[zone];
            }
            for sector in 0..moved.sectors {
                let (from, to) = (place, places[number] + sector);
                if from >= end || zone_of(from) != zone_of(to) {
                    let found = format!("sector {} far from its neighbours", moved.lba + sector);
                    return Err((found, "remapped sectors from places that are passed over, in one zone"));
                }
                let start = starts[zone_of(from)];
                zones[zone_of(from)].remaps.push((from - start, to - start));
                place += 1;
            }
            number += 1;
        }
        while place < end {
            let zone = zone_of(place);
            let zone_end = starts.get(zone + 1).copied().unwrap_or(all);
            if end >= zone_end {
                // Spares: nothing follows in this zone.
                place = zone_end;
                continue;
            }
            zones[zone].slips.push(place - starts[zone]);
            slips += 1;
            place += 1;
            if slips > MOST_SLIPS {
                return Err((format!("more than {MOST_SLIPS} places that hold nothing"), "fewer"));
            }
        }
        if let Some(stretch) = stretches.get(next) {
            (number, place) = (next + 1, end + stretch.sectors);
        }
    }
    let mut held = vec![0; zones.len()];
    for (stretch, &place) in stretches.iter().zip(places) {
        held[zone_of(place)] += stretch.sectors;
    }
    for (zone, held) in zones.iter_mut().zip(held) {
        zone.spares = u32::try_from(size(zone, heads) - held).unwrap_or(u32::MAX);
        // No place of a remapped sector is a slip.
        let to: BTreeSet<u64> = zone.remaps.iter().map(|&(_, to)| to).collect();
        zone.slips.retain(|slip| !to.contains(slip));
    }
    Ok(())
}
