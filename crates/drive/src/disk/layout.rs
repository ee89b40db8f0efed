//! Sector placement: zones, cylinders, surfaces, skews, spares, slips and remaps. Pure arithmetic.
//!
//! Invariants: `position` and `lba` are exact inverses on every drive. Sectors are numbered without a gap in *runs* of
//! adjacent physical places. Slips, spares and remaps only begin new runs, so a drive without them has one run per
//! zone.

use seekless_core::{Extent, Lba};

use super::runs::{self, Run};
use crate::spec::{Mapping, Spec};

/// Fixed-point units of a skew, per sector.
const PARTS: u64 = 1 << 16;

/// Physical position of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Cylinder, counted from the outer edge.
    pub cylinder: u64,
    /// Track of the cylinder.
    pub head: u64,
    /// Sector of the track, counted from its first, which the skew displaces.
    pub sector: u64,
}

/// Consecutive sectors on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Cylinder.
    pub cylinder: u64,
    /// Surface.
    pub head: u64,
    /// Sectors per track.
    pub per_track: u64,
    /// When the first sector passes under the head, in nanoseconds after the index mark.
    pub angle: u64,
    /// The sectors.
    pub at: Extent,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_cylinder: u64,
    cylinders: u64,
    /// Cylinders of a band, for the mappings by surface.
    band: u64,
    per_track: u64,
    /// In `PARTS` of a sector, less than a track.
    offset: u64,
    track_skew: u64,
    cylinder_skew: u64,
    range_skew: u64,
}

/// Distance of a sector from its zone's first, in the steps that determine its angle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Zone.
    pub zone: usize,
    /// Steps from head to head.
    pub heads: u64,
    /// Steps from cylinder to cylinder.
    pub cylinders: u64,
    /// Steps from range to range of cylinders.
    pub ranges: u64,
    /// Sectors on its track, including those by which slips have moved it.
    pub sectors: u64,
}

/// A drive's layout.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    /// In the order of their sectors.
    runs: Vec<Run>,
    /// Indices of `runs`, in the order of their places.
    by_place: Vec<u32>,
    mapping: Mapping,
    heads: u64,
    range: u64,
    sectors: u64,
    revolution: u64,
}

/// Capacity of each zone in sectors.
pub(crate) fn capacities(spec: &Spec) -> Vec<u64> {
    let mut held = vec![0; spec.zone.len()];
    for run in runs::of(spec) {
        held[run.zone as usize] += run.sectors;
    }
    held
}

/// Capacity of all zones in sectors.
pub(crate) fn capacity(spec: &Spec) -> u64 {
    capacities(spec).iter().sum()
}

impl Layout {
    /// The layout of a checked description; `revolution` is in nanoseconds.
    pub fn new(spec: &Spec, revolution: u64) -> Layout {
        let runs = runs::of(spec);
        let mut by_place: Vec<u32> = (0..runs.len() as u32).collect();
        by_place.sort_unstable_by_key(|&run| (runs[run as usize].zone, runs[run as usize].place));
        let zone = |(zone, first_cylinder): (&crate::spec::Zone, u64)| {
            let per_track = u64::from(zone.sectors_per_track);
            let parts = |sectors: f64| (sectors * PARTS as f64).round() as u64 % (per_track * PARTS);
            Zone {
                first_cylinder,
                cylinders: u64::from(zone.cylinders),
                band: u64::from(spec.layout.band(zone)),
                per_track,
                offset: parts(zone.offset),
                track_skew: parts(zone.track_skew),
                cylinder_skew: parts(zone.cylinder_skew),
                range_skew: parts(zone.range_skew),
            }
        };
        Layout {
            zones: spec.zone.iter().zip(spec.first_cylinders()).map(zone).collect(),
            runs,
            by_place,
            mapping: spec.layout.mapping,
            heads: u64::from(spec.heads),
            range: u64::from(spec.layout.range_cylinders),
            sectors: spec.sectors,
            revolution,
        }
    }

    /// The drive's size.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The run that holds a sector.
    fn run(&self, lba: Lba) -> &Run {
        // Requests past the last one were refused at the top of the volume.
        let after = self.runs.partition_point(|run| run.lba <= lba.0);
        &self.runs[after - 1]
    }

    /// The consecutive sectors from the first of `at` on that lie on one track.
    pub fn piece(&self, at: Extent) -> Piece {
        let run = self.run(at.start);
        let zone = &self.zones[run.zone as usize];
        let into = at.start.0 - run.lba;
        let place = run.place + into;
        let (track, sector) = (place / zone.per_track, place % zone.per_track);
        let sectors = at.sectors.min(run.sectors - into).min(zone.per_track - sector);
        let (cylinder, head) = self.track_at(zone, track);
        Piece {
            cylinder: zone.first_cylinder + cylinder,
            head,
            per_track: zone.per_track,
            angle: self.angle(zone, track, run.shift, sector),
            at: Extent { start: at.start, sectors },
        }
    }

    /// The consecutive sectors around `lba` that lie on its track.
    pub fn around(&self, lba: Lba) -> Extent {
        let run = self.run(lba);
        let zone = &self.zones[run.zone as usize];
        let into = lba.0 - run.lba;
        let sector = (run.place + into) % zone.per_track;
        let before = sector.min(into);
        let behind = (zone.per_track - sector).min(run.sectors - into);
        Extent { start: Lba(lba.0 - before), sectors: before + behind }
    }

    /// The end of the consecutive sectors from `lba` on that lie on its cylinder.
    pub fn cylinder_end(&self, lba: Lba) -> u64 {
        let cylinder = self.position(lba).cylinder;
        let mut end = self.around(lba).end();
        while end.0 < self.sectors() && self.position(end).cylinder == cylinder {
            end = self.around(end).end();
        }
        end.0
    }

    /// (Zone-relative cylinder, head) of a zone's track, by its number in the order of the sectors.
    fn track_at(&self, zone: &Zone, track: u64) -> (u64, u64) {
        if self.mapping.by_surface() {
            return self.track_by_surface(zone, track);
        }
        let (cylinder, head) = (track / self.heads, track % self.heads);
        match self.mapping {
            Mapping::SerpentineZone if cylinder % 2 == 1 => (cylinder, self.heads - 1 - head),
            Mapping::Serpentine if (zone.first_cylinder + cylinder) % 2 == 1 => {
                (cylinder, self.heads - 1 - head)
            }
            _ => (cylinder, head),
        }
    }

    /// As `track_at`, for the mappings by surface.
    fn track_by_surface(&self, zone: &Zone, track: u64) -> (u64, u64) {
        let (begins, width, inside) = self.band_of(zone, track);
        let (head, cylinder) = (inside / width, inside % width);
        let back = self.mapping == Mapping::SurfaceSerpentine && head % 2 == 1;
        (begins + if back { width - 1 - cylinder } else { cylinder }, head)
    }

    /// The band that holds a zone's track: its first cylinder, its width, and the track's number in it.
    fn band_of(&self, zone: &Zone, track: u64) -> (u64, u64, u64) {
        let all = zone.band * self.heads;
        let begins = track / all * zone.band;
        (begins, zone.band.min(zone.cylinders - begins), track % all)
    }

    /// Steps to the next head, cylinder and range before a zone's track.
    fn steps_to(&self, zone: &Zone, track: u64) -> (u64, u64, u64) {
        match self.mapping {
            // The last step before the next head is one of the head alone; to the next band the arm moves.
            Mapping::Surface | Mapping::SurfaceSerpentine => {
                let (begins, width, inside) = self.band_of(zone, track);
                let heads = begins / zone.band * (self.heads - 1) + inside / width;
                (heads, track - heads, 0)
            }
            _ => {
                let cylinder = track / self.heads;
                (track - cylinder, cylinder, cylinder / self.range)
            }
        }
    }

    /// The angle of a sector: each step to the next track adds its skew, each earlier slip a sector.
    fn angle(&self, zone: &Zone, track: u64, shift: u32, sector: u64) -> u64 {
        let (heads, cylinders, ranges) = self.steps_to(zone, track);
        let whole = zone.per_track * PARTS;
        let skew = zone.offset + heads * zone.track_skew + cylinders * zone.cylinder_skew;
        let skew = skew + ranges * zone.range_skew;
        let parts = (skew + (sector + u64::from(shift)) * PARTS) % whole;
        // Less than 2^32 parts, and less than 2^28 nanoseconds.
        parts * self.revolution / whole
    }

    /// The steps that make up the angle of a sector.
    pub fn steps(&self, lba: Lba) -> Steps {
        self.steps_with_gap(lba, 0)
    }

    /// As `steps`, if `tracks` more tracks before it held nothing.
    pub fn steps_with_gap(&self, lba: Lba, tracks: u64) -> Steps {
        let run = self.run(lba);
        let zone = &self.zones[run.zone as usize];
        let place = run.place + (lba.0 - run.lba);
        let (heads, cylinders, ranges) = self.steps_to(zone, place / zone.per_track + tracks);
        let sectors = place % zone.per_track + u64::from(run.shift);
        Steps { zone: run.zone as usize, heads, cylinders, ranges, sectors }
    }

    /// The position of a sector.
    pub fn position(&self, lba: Lba) -> Position {
        let run = self.run(lba);
        let zone = &self.zones[run.zone as usize];
        let place = run.place + (lba.0 - run.lba);
        let (cylinder, head) = self.track_at(zone, place / zone.per_track);
        Position { cylinder: zone.first_cylinder + cylinder, head, sector: place % zone.per_track }
    }

    /// The sector at a position, if there is one.
    pub fn lba(&self, at: Position) -> Option<Lba> {
        let number = self.zones.partition_point(|zone| zone.first_cylinder <= at.cylinder).checked_sub(1)?;
        let zone = &self.zones[number];
        let cylinder = at.cylinder - zone.first_cylinder;
        if cylinder >= zone.cylinders || at.head >= self.heads || at.sector >= zone.per_track {
            return None;
        }
        let place = self.track_number(zone, cylinder, at.head) * zone.per_track + at.sector;
        let key = |&run: &u32| {
            let run = &self.runs[run as usize];
            (run.zone as usize, run.place)
        };
        let after = self.by_place.partition_point(|run| key(run) <= (number, place));
        let run = &self.runs[self.by_place[after.checked_sub(1)?] as usize];
        let device_queue = run.zone as usize == number && place - run.place < run.sectors;
        let lba = run.lba + (place.checked_sub(run.place)?);
        (device_queue && lba < self.sectors).then_some(Lba(lba))
    }

    /// The inverse of `track_at`.
    fn track_number(&self, zone: &Zone, cylinder: u64, head: u64) -> u64 {
        match self.mapping {
            Mapping::Surface | Mapping::SurfaceSerpentine => {
                let begins = cylinder / zone.band * zone.band;
                let (width, inside) = (zone.band.min(zone.cylinders - begins), cylinder - begins);
                let back = self.mapping == Mapping::SurfaceSerpentine && head % 2 == 1;
                let inside = if back { width - 1 - inside } else { inside };
                begins * self.heads + head * width + inside
            }
            Mapping::SerpentineZone if cylinder % 2 == 1 => cylinder * self.heads + (self.heads - 1 - head),
            Mapping::Serpentine if (zone.first_cylinder + cylinder) % 2 == 1 => {
                cylinder * self.heads + (self.heads - 1 - head)
            }
            _ => cylinder * self.heads + head,
        }
    }
}
