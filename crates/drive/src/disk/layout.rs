//! Where a sector is: zones, cylinders, surfaces, skews. Pure arithmetic.
//!
//! Cylinder-ordered: the tracks of a cylinder from the first head to the last, then the next
//! cylinder inwards. `position` and `lba` are exact inverses.

use seekless_core::Lba;

use crate::spec::Spec;

/// A track, and how it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Counted from the outer edge.
    pub cylinder: u64,
    /// Which of its tracks.
    pub head: u64,
    /// The sector at its start.
    pub first: Lba,
    /// How many sectors.
    pub sectors: u64,
    /// How many sector times after the index mark its first sector starts.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_lba: u64,
    first_cylinder: u64,
    cylinders: u64,
    per_track: u64,
    track_skew: u64,
    cylinder_skew: u64,
}

/// A drive's layout.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    heads: u64,
    sectors: u64,
}

impl Layout {
    /// The layout that a description gives.
    pub fn new(spec: &Spec) -> Layout {
        let heads = u64::from(spec.heads);
        let (mut first_lba, mut first_cylinder) = (0, 0);
        let zones = spec.zone.iter().map(|zone| {
            let (cylinders, per_track) = (u64::from(zone.cylinders), u64::from(zone.sectors_per_track));
            let laid = Zone {
                first_lba,
                first_cylinder,
                cylinders,
                per_track,
                track_skew: u64::from(zone.track_skew),
                cylinder_skew: u64::from(zone.cylinder_skew),
            };
            first_lba += cylinders * heads * per_track;
            first_cylinder += cylinders;
            laid
        });
        Layout { zones: zones.collect(), heads, sectors: spec.sectors }
    }

    /// The drive's size.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The track that holds a sector.
    ///
    /// # Panics
    /// When the sector is beyond the zones; the volume's top has refused such requests.
    pub fn track(&self, lba: Lba) -> Track {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba.0);
        let zone = &self.zones[after - 1];
        let track = (lba.0 - zone.first_lba) / zone.per_track;
        let (cylinder, head) = (track / self.heads, track % self.heads);
        assert!(cylinder < zone.cylinders, "{lba} lies beyond the last zone");
        Track {
            cylinder: zone.first_cylinder + cylinder,
            head,
            first: Lba(zone.first_lba + track * zone.per_track),
            sectors: zone.per_track,
            offset: self.offset(zone, cylinder, head),
        }
    }

    /// Within a zone, each head switch and each step to the next cylinder adds its skew.
    fn offset(&self, zone: &Zone, cylinder: u64, head: u64) -> u64 {
        let a_cylinder = (self.heads - 1) * zone.track_skew + zone.cylinder_skew;
        (cylinder * a_cylinder + head * zone.track_skew) % zone.per_track
    }

    /// (cylinder, head, sector in the track) of a sector.
    pub fn position(&self, lba: Lba) -> (u64, u64, u64) {
        let track = self.track(lba);
        (track.cylinder, track.head, lba.0 - track.first.0)
    }

    /// The sector at (cylinder, head, sector in the track), if there is one.
    pub fn lba(&self, cylinder: u64, head: u64, sector: u64) -> Option<Lba> {
        let after = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder);
        let zone = self.zones.get(after.checked_sub(1)?)?;
        let cylinder = cylinder - zone.first_cylinder;
        if cylinder >= zone.cylinders || head >= self.heads || sector >= zone.per_track {
            return None;
        }
        let lba = zone.first_lba + (cylinder * self.heads + head) * zone.per_track + sector;
        (lba < self.sectors).then_some(Lba(lba))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_and_addresses_are_inverses(part in 0.0..1.0_f64) {
            for name in spec::shipped() {
                let layout = Layout::new(&spec::find(name).unwrap());
                let lba = Lba((layout.sectors() as f64 * part) as u64);
                let (cylinder, head, sector) = layout.position(lba);
                prop_assert_eq!(layout.lba(cylinder, head, sector), Some(lba));
            }
        }
    }

    #[test]
    fn the_atlas_lies_as_the_paper_says() {
        let spec = spec::find("quantum-atlas-10k").unwrap();
        let layout = Layout::new(&spec);
        assert_eq!((spec.cylinders(), layout.track(Lba(0)).sectors), (10_042, 334));
        let last = layout.track(Lba(spec.sectors - 1));
        assert!(last.cylinder > 10_000 && last.sectors == 229);
        assert_eq!(layout.lba(0, 6, 0), None);
        assert_eq!(layout.lba(20_000, 0, 0), None);
        // The second track starts 63 sector times later, the second cylinder 5 x 63 + 113.
        assert_eq!(layout.track(Lba(334)).offset, 63);
        assert_eq!(layout.track(Lba(334 * 6)).offset, (5 * 63 + 113) % 334);
    }
}
