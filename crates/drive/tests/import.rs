//! Drives of DiskSim drawn at random, in files that include each other: every mapping, every sparing scheme, zones with
//! gaps between them. The imported layout is that of a list of places that is made here, one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use seekless_core::{Extent, Lba, Nanos, Op};
use seekless_drive::disk::Drive;
use seekless_drive::disk::layout::Layout;
use seekless_drive::disk::mechanics::Mechanics;
use seekless_drive::import::disksim;
use seekless_drive::spec::parse;

/// A zone as its file describes it.
#[derive(Clone, Debug)]
struct Zone {
    gap: u64,
    cylinders: u64,
    per_track: u64,
    front: u64,
    spares: u64,
    skews: [u64; 3],
    by_turn: bool,
    slips: Vec<u64>,
    remaps: Vec<(u64, u64)>,
}

/// A drive as its files describe it.
#[derive(Clone, Debug)]
struct Described {
    heads: u64,
    mapping: u64,
    scheme: u64,
    range: u64,
    seek: usize,
    held: u8,
    zones: Vec<Zone>,
}

fn zone() -> impl Strategy<Value = Zone> {
    let defects = (vec(0..260_u64, 0..5), vec((0..260_u64, 0..260_u64), 0..3));
    (0..3_u64, 1..6_u64, 4..20_u64, 0..6_u64, 0..4_u64, any::<[u8; 3]>(), any::<bool>(), defects).prop_map(
        |(gap, cylinders, per_track, front, spares, skews, by_turn, (slips, remaps))| {
            let skews = skews.map(u64::from);
            Zone { gap, cylinders, per_track, front, spares, skews, by_turn, slips, remaps }
        },
    )
}

fn described() -> impl Strategy<Value = Described> {
    let whole = (1..5_u64, 0..3_u64, 0..11_u64, 1..4_u64, 0..4_usize, 0..4_u8);
    (whole, vec(zone(), 1..4)).prop_map(|((heads, mapping, scheme, range, seek, held), zones)| Described {
        heads,
        mapping,
        scheme,
        range,
        seek,
        held,
        zones,
    })
}

const SEEKS: [&str; 4] = [
    "Seek type = extracted, Full seek curve = ../drawn.seek",
    "Seek type = hpl, HPL seek equation values = [ 5, 0.5, 0.2, 1.0, 0.01, -1.0 ]",
    "Seek type = hplplus10, HPL seek equation values = [ 12, 0.5, 0.2, 1.0, 0.01, 0.0 ],\n\
     First ten seek times = [ 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4 ]",
    "Seek type = constant, Constant seek time = 2.0",
];

impl Described {
    /// Its files, in a folder of their own; the first one includes the others, which include more.
    fn write(&self, folder: &std::path::Path) -> PathBuf {
        std::fs::create_dir_all(folder.join("parts")).unwrap();
        let list = |numbers: &mut dyn Iterator<Item = u64>| {
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
        };
        let (mut zones, mut next) = (String::new(), 0);
        for (number, zone) in self.zones.iter().enumerate() {
            let first = next + zone.gap;
            next = first + zone.cylinders;
            let [track, cylinder, offset] = zone.skews.map(|skew| {
                if zone.by_turn { format!("{:.6}", skew as f64 / 256.0) } else { format!("{skew}.0") }
            });
            let units = if zone.by_turn { "Skew units = revolutions," } else { "" };
            let slips = list(&mut zone.slips.iter().copied());
            let remaps = list(&mut zone.remaps.iter().flat_map(|&(from, to)| [from, to]));
            let text = format!(
                "dm_layout_g1_zone {{\n  First cylinder number = {first}, Last cylinder number = {},\n  \
                 Blocks per track = {}, {units}\n  Offset of first block = {offset}, Empty space at zone \
                 front = {},\n  Skew for track switch = {track}, Skew for cylinder switch = {cylinder},\n  \
                 Number of spares = {},\n  slips = [ {slips} ],\n  defects = [ {remaps} ]\n}}",
                next - 1,
                zone.per_track,
                zone.front,
                zone.spares,
            );
            writeln!(zones, "{}{text}", if number > 0 { "," } else { "" }).unwrap();
        }
        let model = format!(
            "dm_disk drawn_model {{\nNumber of data surfaces = {}, Number of cylinders = {next}, Block count = 1,\n\
             Mechanical Model = dm_mech_g1 {{\nAccess time type = trackSwitchPlusRotation, {},\n\
             Add. write settling delay = 0.2, Head switch time = 0.5, Rotation speed (in rpms) = 6000\n}},\n\
             Layout Model = dm_layout_g1 {{\nLBN-to-PBN mapping scheme = {}, Sparing scheme used = {},\n\
             Rangesize for sparing = {}, Zones = [\n{zones}] }}\n}}\n",
            self.heads, SEEKS[self.seek], self.mapping, self.scheme, self.range
        );
        let (hold, immediate) = (self.held & 1, self.held >> 1);
        let specs = format!(
            "disksim_disk DRAWN {{ Model = source drawn.model, Hold bus entire read xfer = {hold},\n\
             Immediate buffer read = {immediate}, Enable caching in buffer = 1, Number of buffer segments = 2,\n\
             Segment size (in blks) = 16, Buffer continuous read = 3 }}\n"
        );
        let first = folder.join("drawn.parv");
        for (file, text) in [
            ("drawn.parv", "source parts/drawn.diskspecs\ninstantiate [ disk0 ] as DRAWN\n"),
            ("parts/drawn.diskspecs", &specs),
            ("parts/drawn.model", &model),
            ("drawn.seek", "1, 1.0\n2, 1.5, 0.1\n30, 4.0\n"),
        ] {
            std::fs::write(folder.join(file), text).unwrap();
        }
        first
    }

    /// (Cylinder, head, sector) of each sector in order; `None` if DiskSim refuses it, or a zone holds nothing.
    fn places(&self) -> Option<Vec<(u64, u64, u64)>> {
        let (mut all, mut next) = (Vec::new(), 0);
        for zone in &self.zones {
            let first = next + zone.gap;
            next = first + zone.cylinders;
            let held = zone.places(self)?;
            if held.is_empty() {
                return None;
            }
            for place in held {
                let (track, sector) = (place / zone.per_track, place % zone.per_track);
                let (cylinder, head) = (track / self.heads, track % self.heads);
                let back = match self.mapping {
                    1 => cylinder % 2 == 1,
                    2 => (first + cylinder) % 2 == 1,
                    _ => false,
                };
                let head = if back { self.heads - 1 - head } else { head };
                all.push((first + cylinder, head, sector));
            }
        }
        Some(all)
    }
}

impl Zone {
    /// Its places, in the order of their sectors.
    fn places(&self, drive: &Described) -> Option<Vec<u64>> {
        let cylinder = self.per_track * drive.heads;
        let all = cylinder * self.cylinders;
        let width = if drive.scheme == 1 { self.per_track } else { 1 };
        let (slips, remaps) = self.defects(all / width);
        let blown = |places: u64| places * width..(places + 1) * width;
        let slipped: BTreeSet<u64> = slips.iter().flat_map(|&slip| blown(slip)).collect();
        let moved: BTreeMap<u64, u64> = remaps
            .iter()
            .filter(|(from, to)| from != to)
            .flat_map(|&(from, to)| blown(from).zip(blown(to)))
            .collect();
        if slips.len() as u64 * width >= all
            || (drive.scheme == 1 && (slips.len() + remaps.len()) as u64 > self.spares)
        {
            return None;
        }
        let taken = |place: &u64| slipped.contains(place) || moved.values().any(|to| to == place);
        let unit = match drive.scheme {
            2 | 4 | 5 | 6 => cylinder,
            3 => self.per_track,
            8 => cylinder * drive.range,
            _ => all,
        };
        let spares = match drive.scheme {
            0 | 7 => 0,
            1 => self.spares * self.per_track,
            10 => self.spares + slips.len() as u64,
            _ => self.spares,
        };
        let mut held = Vec::new();
        let mut start = 0;
        while start < all {
            let end = (start + unit).min(all);
            let spares = if end - start == unit { spares.min(unit) } else { 0 };
            let places: Vec<u64> = match drive.scheme {
                4 => (start..end - spares).collect(),
                6 => (start + spares..end).collect(),
                _ => (start..end).collect(),
            };
            let good: Vec<u64> = places.into_iter().filter(|place| !taken(place)).collect();
            let holds = ((end - start - spares) as usize).min(good.len());
            held.extend(match drive.scheme {
                5 => &good[good.len() - holds..],
                _ => &good[..holds],
            });
            start = end;
        }
        let there = held.into_iter().map(|place| moved.get(&place).copied().unwrap_or(place));
        Some(there.skip(self.front as usize).collect())
    }

    /// Slips and remaps in the zone, each place once.
    fn defects(&self, places: u64) -> (BTreeSet<u64>, Vec<(u64, u64)>) {
        let slips: BTreeSet<u64> = self.slips.iter().copied().filter(|&slip| slip < places).collect();
        let mut used = slips.clone();
        let mut remaps = Vec::new();
        for &(from, to) in &self.remaps {
            if from < places && to < places && !used.contains(&from) && !used.contains(&to) {
                used.extend([from, to]);
                remaps.push((from, to));
            }
        }
        (slips, remaps)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drawn_drives_have_the_places_of_their_files(described in described()) {
        let folder = std::env::temp_dir().join(format!("seekless-drawn-{}", std::process::id()));
        let imported = disksim(&described.write(&folder), "drawn");
        std::fs::remove_dir_all(&folder).unwrap();
        let Some(places) = described.places() else {
            let error = imported.unwrap_err().to_string();
            prop_assert!(error.contains("drawn.model, line ") && error.contains("slips"), "{}", error);
            return Ok(());
        };
        let spec = imported.unwrap().spec;
        prop_assert_eq!(spec.sectors, places.len() as u64);
        // Written and read again it is the same drive.
        prop_assert_eq!(&parse("again", &toml::to_string(&spec).unwrap()).unwrap(), &spec);
        let layout = Layout::new(&spec, Mechanics::new(&spec).revolution().0);
        let mut last = None;
        for (lba, &place) in (0..).zip(&places) {
            let at = layout.position(Lba(lba));
            prop_assert_eq!((at.cylinder, at.head, at.sector), place, "sector {}", lba);
            prop_assert_eq!(layout.lba(at), Some(Lba(lba)));
            let around = layout.around(Lba(lba));
            prop_assert!(around.start.0 <= lba && lba < around.end().0);
            // The pieces of a track follow each other on it.
            let piece = layout.piece(Extent::new(lba, around.end().0 - lba));
            prop_assert_eq!(piece.at.end(), around.end());
            if around.start.0 < lba {
                prop_assert_eq!(last, Some((at.cylinder, at.head, at.sector - 1)));
            }
            last = Some((at.cylinder, at.head, at.sector));
        }
        let mut drive = Drive::new(&spec);
        for op in [Op::Read, Op::Write] {
            drive.serve(op, Extent::new(spec.sectors - 1, 1), Nanos(0), false);
        }
        let held = described.held == 3;
        prop_assert_eq!(spec.cache.in_order_when_held, held);
    }
}
