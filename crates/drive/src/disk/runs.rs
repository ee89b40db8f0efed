//! Conversion of zones with spares, slips and remaps into runs of sectors.
//!
//! A zone's sectors are assigned in order: each sparing unit (a cylinder, say) takes its places less its spares,
//! leaving out the slipped ones; then remapped sectors are moved. Errors: more slips in a unit than it has spares; a
//! remap to the place of another sector.

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
pub fn of(spec: &Spec) -> Result<Vec<Run>, (usize, String)> {
    let mut runs = Vec::new();
    let mut lba = 0;
    for (number, zone) in spec.zone.iter().enumerate() {
        let filled = Filling::new(spec, zone).fill().map_err(|found| (number, found))?;
        if let Some(place) = held_twice(&filled) {
            return Err((number, format!("a remap to place {place}, which holds another sector")));
        }
        for (place, sectors) in filled {
            let shift = shift(spec, zone, place);
            runs.push(Run { lba, sectors, place, shift, zone: number as u32 });
            lba += sectors;
        }
    }
    Ok(runs)
}

/// A place that two runs hold.
fn held_twice(filled: &[(u64, u64)]) -> Option<u64> {
    let mut sorted = filled.to_vec();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0);
    twice.map(|pair| pair[1].0)
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
struct Filling<'a> {
    zone: &'a Zone,
    /// Places of a unit, and of all.
    unit: u64,
    all: u64,
    /// Spare places at the front and at the end of a unit.
    front: u64,
    end: u64,
    /// Whether slips of one unit push sectors into the next.
    overflows: bool,
    /// Places that hold nothing or something else.
    slips: Vec<u64>,
    remaps: BTreeMap<u64, u64>,
}

impl<'a> Filling<'a> {
    fn new(spec: &Spec, zone: &'a Zone) -> Filling<'a> {
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
        let mut slips: Vec<u64> = zone.slips.iter().flat_map(|&slip| places(slip)).collect();
        slips.sort_unstable();
        let moved = zone.remaps.iter().filter(|(from, to)| from != to);
        let remaps = moved.flat_map(|&(from, to)| places(from).zip(places(to))).collect();
        let overflows = matches!(spec.layout.sparing, Sparing::CylinderToEnd | Sparing::CylinderFrontToEnd);
        Filling { zone, unit, all, front, end, overflows, slips, remaps }
    }

    /// (Place, sectors) in the order of sectors.
    fn fill(&self) -> Result<Vec<(u64, u64)>, String> {
        let mut filled: Vec<(u64, u64)> = Vec::new();
        let mut slips = self.slips.iter().copied().peekable();
        // Sectors that slips of earlier units have pushed on.
        let mut pushed = 0;
        let mut start = 0;
        while start < self.all {
            let end = (start + self.unit).min(self.all);
            let spares = self.front + self.end;
            // The last unit of a zone may be short; it has its spares all the same.
            let holds = (end - start).saturating_sub(spares) + if self.overflows { pushed } else { 0 };
            let limit = if self.overflows { end - self.end.min(end - start) } else { end };
            let mut left = holds;
            let mut place = start + self.front;
            while left > 0 && place < limit {
                while slips.next_if(|&slip| slip < place).is_some() {}
                let next = slips.peek().copied().unwrap_or(u64::MAX).min(limit);
                let sectors = (next - place).min(left);
                self.put(&mut filled, place, sectors);
                (place, left) = (place + sectors, left - sectors);
                if slips.next_if_eq(&place).is_some() {
                    place += 1;
                }
            }
            if left > 0 && !self.overflows {
                return Err(format!("{} slips and {} spares", self.slips.len(), self.zone.spares));
            }
            pushed = left;
            start = end;
        }
        Ok(self.without_front(filled))
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
        let mut left_out = u64::from(self.zone.front);
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
