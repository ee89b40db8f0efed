//! Conversion of zones with spares, slips and remaps into runs of sectors.
//!
//! A zone's sectors are assigned in order: each sparing unit (a cylinder, say) takes its places less its spares,
//! leaving out the slipped ones and those that remapped sectors have; then remapped sectors are moved. A unit with
//! fewer spares than slips and remaps holds fewer sectors.

use std::collections::BTreeMap;

use crate::spec::{Sparing, Spec, Zone};

/// Sectors whose places are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Place of the first: sectors from the zone's start in the order of tracks.
    pub place: u64,
    /// Number of slips that displace its track, where slips do.
    pub shift: u32,
    /// Zone.
    pub zone: u32,
}

/// The runs of a drive, in the order of their sectors.
pub fn of(spec: &Spec) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut lba = 0;
    for (number, zone) in spec.zone.iter().enumerate() {
        for (place, sectors) in Filling::new(spec, zone).fill() {
            let shift = shift(spec, zone, place);
            runs.push(Run { lba, sectors, place, shift, zone: number as u32 });
            lba += sectors;
        }
    }
    runs
}

/// Number of slips that displace the track of a place: with spares by cylinder all slips of earlier cylinders, by track
/// those of earlier tracks.
fn shift(spec: &Spec, zone: &Zone, place: u64) -> u32 {
    let per_track = u64::from(zone.sectors_per_track);
    let unit = match spec.layout.sparing {
        Sparing::Track => per_track,
        Sparing::Cylinder | Sparing::CylinderToEnd | Sparing::CylinderFront | Sparing::CylinderFrontToEnd => {
            per_track * u64::from(spec.heads)
        }
        _ => return 0,
    };
    let start = place / unit * unit;
    zone.slips.iter().filter(|&&slip| slip < start).count() as u32
}

/// A zone being filled.
struct Filling {
    /// Sectors at the zone's front that hold nothing.
    dead: u64,
    /// Places of a unit, and of all.
    unit: u64,
    all: u64,
    /// Spare places at the front and at the end of a unit.
    front: u64,
    end: u64,
    /// Whether slips of one unit push sectors into the next.
    overflows: bool,
    /// Slipped places, and those of remapped sectors, ascending.
    taken: Vec<u64>,
    /// Remapped sectors: from, to.
    remaps: BTreeMap<u64, u64>,
}

impl Filling {
    fn new(spec: &Spec, zone: &Zone) -> Filling {
        let per_track = u64::from(zone.sectors_per_track);
        let cylinder = per_track * u64::from(spec.heads);
        let all = cylinder * u64::from(zone.cylinders);
        let spares = u64::from(zone.spares);
        let (unit, front, end) = match spec.layout.sparing {
            Sparing::None => (all, 0, 0),
            Sparing::Tracks => (all, 0, spares * per_track),
            Sparing::Track => (per_track, 0, spares),
            Sparing::Cylinder | Sparing::CylinderToEnd => (cylinder, 0, spares),
            Sparing::CylinderFront | Sparing::CylinderFrontToEnd => (cylinder, spares, 0),
            Sparing::Range => (cylinder * u64::from(spec.layout.range_cylinders), 0, spares),
            Sparing::Zone => (all, 0, spares),
        };
        let tracks = spec.layout.sparing == Sparing::Tracks;
        let places = |unit: u64| {
            let (first, count) = if tracks { (unit * per_track, per_track) } else { (unit, 1) };
            first..first + count
        };
        let moved = zone.remaps.iter().filter(|(from, to)| from != to);
        let remaps: BTreeMap<u64, u64> = moved.flat_map(|&(from, to)| places(from).zip(places(to))).collect();
        let slips = zone.slips.iter().flat_map(|&slip| places(slip));
        let mut taken: Vec<u64> = slips.chain(remaps.values().copied()).collect();
        taken.sort_unstable();
        let overflows = matches!(spec.layout.sparing, Sparing::CylinderToEnd | Sparing::CylinderFrontToEnd);
        Filling { dead: u64::from(zone.front), unit, all, front, end, overflows, taken, remaps }
    }

    /// (Place, sectors) in the order of sectors.
    fn fill(&self) -> Vec<(u64, u64)> {
        let mut filled: Vec<(u64, u64)> = Vec::new();
        let mut taken = self.taken.iter().copied().peekable();
        // Sectors that slips of earlier units have pushed on.
        let mut pushed = 0;
        let mut start = 0;
        while start < self.all {
            let end = (start + self.unit).min(self.all);
            // What is left of a zone after its last whole unit has no spares.
            let whole = end - start == self.unit;
            let (front, behind) = if whole { (self.front, self.end) } else { (0, 0) };
            let mut left = (end - start).saturating_sub(front + behind) + pushed;
            let limit = if self.overflows { end.saturating_sub(behind) } else { end };
            let mut place = if self.overflows { start + front } else { self.begin(start, front, end) };
            while left > 0 && place < limit {
                while taken.next_if(|&taken| taken < place).is_some() {}
                let next = taken.peek().copied().unwrap_or(u64::MAX).min(limit);
                let sectors = (next - place).min(left);
                self.put(&mut filled, place, sectors);
                (place, left) = (place + sectors, left - sectors);
                if place < limit && taken.next_if_eq(&place).is_some() {
                    place += 1;
                }
            }
            // Without enough spares, the unit holds fewer.
            pushed = if self.overflows { left } else { 0 };
            start = end;
        }
        self.without_front(filled)
    }

    /// The first place of a unit with `front` spares at its front: slips use the last of these.
    fn begin(&self, start: u64, front: u64, end: u64) -> u64 {
        let taken = |place: u64| self.taken.partition_point(|&taken| taken < place);
        let mut lacking = taken(end) - taken(start + front);
        let mut place = start + front;
        while lacking > 0 && place > start {
            place -= 1;
            lacking -= usize::from(self.taken.binary_search(&place).is_err());
        }
        place
    }

    /// Adds a run, split where a sector is remapped.
    fn put(&self, filled: &mut Vec<(u64, u64)>, place: u64, sectors: u64) {
        let (mut from, end) = (place, place + sectors);
        for (&remapped, &to) in self.remaps.range(place..end) {
            if remapped > from {
                filled.push((from, remapped - from));
            }
            match filled.last_mut().filter(|last| last.0 + last.1 == to) {
                Some(last) => last.1 += 1,
                None => filled.push((to, 1)),
            }
            from = remapped + 1;
        }
        if end > from {
            filled.push((from, end - from));
        }
    }

    /// Leaves out the zone's first sectors, which hold nothing.
    fn without_front(&self, filled: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        let mut left_out = self.dead;
        let mut rest = Vec::new();
        for (place, sectors) in filled {
            let out = left_out.min(sectors);
            left_out -= out;
            if sectors > out {
                rest.push((place + out, sectors - out));
            }
        }
        rest
    }
}
