//! The zones of `dm_layout_g1`: cylinders with equally many sectors per track, spares, slips and remaps.
//!
//! What DiskSim loads is loaded: defects that its arithmetic passes over are left out and reported. Zones have to be in
//! ascending order, and skews may not be negative. Errors are at the key in its own file.

use std::collections::BTreeSet;

use super::ImportError;
use super::language::{Block, Place};
use super::reader::Reader;
use crate::spec::{LayoutSpec, Mapping, Sparing, Zone};

/// A layout, its zones, and their places for errors.
pub struct Laid {
    pub layout: LayoutSpec,
    pub zones: Vec<Zone>,
    /// (The key of a value as a check names it, its place.)
    pub places: Vec<(String, Place)>,
    /// The most sectors, if the model says so.
    pub most: Option<u64>,
}

/// How DiskSim places spares.
#[derive(Clone, Copy)]
struct Scheme {
    number: u32,
    sparing: Sparing,
    heads: u32,
}

/// The layout of a `dm_layout_g1` block.
pub fn zones(layout: &Block, heads: u32, left_out: &mut Vec<String>) -> Result<Laid, ImportError> {
    let reader = Reader::new(layout);
    let mapping = match reader.needed_whole("LBN-to-PBN mapping scheme")? {
        0 => Mapping::Cylinder,
        1 => Mapping::SerpentineZone,
        2 => Mapping::Serpentine,
        other => return Err(reader.wrong("LBN-to-PBN mapping scheme", &other.to_string(), "0, 1 or 2")),
    };
    let number = reader.needed_whole("Sparing scheme used")?;
    let sparing = match number {
        0 => Sparing::None,
        1 => Sparing::Tracks,
        2 => Sparing::Cylinder,
        3 => Sparing::Track,
        4 => Sparing::CylinderToEnd,
        5 => Sparing::CylinderFront,
        6 => Sparing::CylinderFrontToEnd,
        8 => Sparing::Range,
        7 | 9 | 10 => Sparing::Zone,
        other => return Err(reader.wrong("Sparing scheme used", &other.to_string(), "0 to 10")),
    };
    let scheme = Scheme { number, sparing, heads };
    let range_cylinders = reader.whole("Rangesize for sparing")?.max(1);
    let by_turn = in_revolutions(&reader)?.unwrap_or(false);
    let mut laid = Laid {
        layout: LayoutSpec { mapping, sparing, range_cylinders, ..LayoutSpec::default() },
        zones: Vec::new(),
        places: vec![("layout".to_owned(), reader.place("Rangesize for sparing"))],
        most: None,
    };
    let mut free = 0;
    for block in reader.blocks("Zones")? {
        let reader = Reader::new(block);
        let zone = one_zone(&reader, scheme, by_turn, free, left_out)?;
        free = zone.first_cylinder.unwrap_or(0) + zone.cylinders;
        laid.places_of(&reader);
        reader.left_out(left_out);
        laid.zones.push(zone);
    }
    if laid.zones.is_empty() {
        return Err(reader.wrong("Zones", "none", "at least one dm_layout_g1_zone"));
    }
    reader.left_out(left_out);
    Ok(laid)
}

impl Laid {
    /// Records where the values of the next zone are.
    fn places_of(&mut self, reader: &Reader) {
        let number = self.zones.len() + 1;
        for (key, theirs) in [
            ("cylinders", "Last cylinder number"),
            ("first_cylinder", "First cylinder number"),
            ("sectors_per_track", "Blocks per track"),
            ("track_skew", "Skew for track switch"),
            ("cylinder_skew", "Skew for cylinder switch"),
            ("offset", "Offset of first block"),
            ("slips", "slips"),
            ("", "First cylinder number"),
        ] {
            self.places.push((format!("zone {number}: {key}"), reader.place(theirs)));
        }
    }
}

/// Whether skews are in revolutions rather than in sectors, if a block says so.
pub fn in_revolutions(reader: &Reader) -> Result<Option<bool>, ImportError> {
    match reader.word("Skew units")?.as_deref() {
        None => Ok(None),
        Some("sectors") => Ok(Some(false)),
        Some("revolutions") => Ok(Some(true)),
        Some(other) => Err(reader.wrong("Skew units", other, "sectors or revolutions")),
    }
}

/// A zone; cylinders before `free` belong to others.
fn one_zone(
    reader: &Reader,
    scheme: Scheme,
    by_turn: bool,
    free: u32,
    left_out: &mut Vec<String>,
) -> Result<Zone, ImportError> {
    let key = "First cylinder number";
    let (first, last) = (reader.needed_whole(key)?, reader.needed_whole("Last cylinder number")?);
    if first < free {
        let expected = format!("{free} or more: zones in ascending order");
        return Err(reader.wrong(key, &first.to_string(), &expected));
    }
    if last < first {
        let found = format!("{last}, after {key} = {first}");
        return Err(reader.wrong("Last cylinder number", &found, "no less than the first"));
    }
    let sectors_per_track = reader.needed_whole("Blocks per track")?;
    if sectors_per_track == 0 {
        return Err(reader.wrong("Blocks per track", "0", "1 or more"));
    }
    let by_turn = in_revolutions(reader)?.unwrap_or(by_turn);
    let mut skew = |key: &str| skew(reader, key, sectors_per_track, by_turn, left_out);
    let mut zone = Zone {
        first_cylinder: Some(first),
        cylinders: (last - first).saturating_add(1),
        sectors_per_track,
        track_skew: skew("Skew for track switch")?,
        cylinder_skew: skew("Skew for cylinder switch")?,
        offset: skew("Offset of first block")?,
        front: reader.whole("Empty space at zone front")?,
        spares: reader.whole("Number of spares")?,
        ..Zone::default()
    };
    defects(reader, scheme, &mut zone, left_out)?;
    match scheme.number {
        // The spares are at the end of the disk.
        7 => {
            if zone.spares > 0 {
                reader.report("Number of spares", "spares at the end of the disk are in no zone", left_out);
            }
            zone.spares = 0;
        }
        // Slips do not use the zone's spares, but others at the end of the disk.
        10 => zone.spares = zone.spares.saturating_add(zone.slips.len() as u32),
        _ => {}
    }
    Ok(zone)
}

/// A skew or offset in sectors, less than a track. DiskSim takes whole sectors only.
pub fn skew(
    reader: &Reader,
    key: &str,
    per_track: u32,
    by_turn: bool,
    left_out: &mut Vec<String>,
) -> Result<f64, ImportError> {
    let value = reader.number_or_zero(key)?;
    if value < 0.0 {
        return Err(reader.wrong(key, &value.to_string(), "0 or more"));
    }
    let most = f64::from(per_track.max(1));
    if by_turn {
        return Ok((value.fract() * most * 1e6).round() / 1e6 % most);
    }
    if value.fract() != 0.0 {
        reader.report(key, &format!("taken as {}: DiskSim drops parts of a sector", value.trunc()), left_out);
    }
    Ok(value.trunc() % most)
}

/// Slips and remaps of a zone.
fn defects(
    reader: &Reader,
    scheme: Scheme,
    zone: &mut Zone,
    left_out: &mut Vec<String>,
) -> Result<(), ImportError> {
    let tracks = u64::from(zone.cylinders) * u64::from(scheme.heads);
    let (by_track, unit) = match scheme.sparing {
        Sparing::Tracks => (true, "tracks"),
        _ => (false, "sectors"),
    };
    let places = if by_track { tracks } else { tracks * u64::from(zone.sectors_per_track) };
    let mut used = BTreeSet::new();
    let mut drop = |key: &str, found: String| {
        reader.report_value(key, &found, "not in its zone, or there before", left_out);
    };
    for slip in reader.wholes("slips")? {
        if slip >= places || !used.insert(slip) {
            drop("slips", slip.to_string());
        }
    }
    zone.slips = used.iter().copied().collect();
    let pairs = reader.wholes("defects")?;
    if pairs.len() % 2 != 0 {
        return Err(reader.wrong("defects", &format!("{} numbers", pairs.len()), "pairs: from, to"));
    }
    for (from, to) in pairs.chunks(2).map(|pair| (pair[0], pair[1])) {
        let outside = from.max(to) >= places;
        if outside || used.contains(&from) || (from != to && used.contains(&to)) {
            drop("defects", format!("{from}, {to}"));
            continue;
        }
        used.extend([from, to]);
        zone.remaps.push((from, to));
    }
    let (slips, remaps) = (zone.slips.len() as u64, zone.remaps.len() as u64);
    if slips >= places {
        let expected = format!("fewer than the zone's {places} {unit}");
        return Err(reader.wrong("slips", &format!("{slips} of them"), &expected));
    }
    if by_track && slips + remaps > u64::from(zone.spares) {
        let found = format!("{slips} of them, and {remaps} remaps");
        let expected = format!("no more than the spare tracks, {}", zone.spares);
        return Err(reader.wrong("slips", &found, &expected));
    }
    Ok(())
}
