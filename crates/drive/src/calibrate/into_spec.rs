//! Conversion of a calibration into a drive's description.

use std::collections::BTreeMap;

use super::calibration::{Calibration, MeasuredZone};
use crate::disk::Drive;
use crate::spec::{
    BusSpec, CacheSpec, CommandSpec, LayoutSpec, QueueSpec, ReadAhead, SeekCurve, Sparing, Spec, Zone,
};

/// Granularity of the water mark: parts of a read tried.
const MARKS: u32 = 16;
/// The kinds of the sources.
const EXTRACTED: &str = "extracted: timed reads by seekless drive calibrate";
const WRITTEN: &str = "extracted: timed writes by seekless drive calibrate";

impl Calibration {
    /// The description, under a name. Values that reads cannot show are assumed, and marked as such in the sources.
    pub fn spec(&self, name: &str, title: &str) -> Spec {
        // A read of one block: handled and sent.
        let send_us = self.overhead.block_us.value.max(0.0);
        let bus_us = send_us / self.block_sectors as f64;
        let hit_us = (self.overhead.hit_us.value - send_us).max(0.0);
        let miss_us = (self.handling_us() - send_us).max(0.0);
        // A write is handled, and its data sent, before the block can pass; the angle is that of answers to reads.
        let write_us =
            self.write_handling_us.map_or(miss_us, |handling| (handling.value - 2.0 * send_us).max(0.0));
        let handling = self.handling_us();
        let points = self.seeks.iter().map(|seek| {
            let us = (seek.us.value - handling).max(0.0);
            (seek.cylinders as u32, (us * 10.0).round() / 10.0)
        });
        let switch = self.head_switch_us.map_or(0.0, |switch| (switch.value - handling).max(0.0));
        let mut spec = Spec {
            name: name.to_owned(),
            title: title.to_owned(),
            identities: Vec::new(),
            sectors: self.sectors,
            rpm: self.rpm.value,
            heads: self.heads.unwrap_or(1) as u32,
            actuators: 1,
            queue: QueueSpec::default(),
            retries: None,
            shingled: None,
            power: None,
            write_seek: None,
            head_switch_us: (switch * 10.0).round() / 10.0,
            write_settle_us: self.write_settle_us.map_or(0.0, |settle| (settle.value * 10.0).round() / 10.0),
            command: CommandSpec {
                read_hit_after_read_us: round(hit_us),
                read_hit_after_write_us: round(hit_us),
                read_miss_after_read_us: round(miss_us),
                read_miss_after_write_us: round(miss_us),
                write_miss_after_read_us: round(write_us),
                write_miss_after_write_us: round(write_us),
                write_hit_after_read_us: round(hit_us),
                write_hit_after_write_us: round(hit_us),
                ..CommandSpec::default()
            },
            bus: BusSpec {
                read_sector_us: Some((bus_us * 1e3).round() / 1e3),
                write_sector_us: Some((bus_us * 1e3).round() / 1e3),
                ..BusSpec::default()
            },
            cache: self.cache_spec(),
            seek: SeekCurve::Table { points: points.collect() },
            layout: self.layout_spec(),
            zone: self
                .zones
                .iter()
                .flat_map(|found| self.spec_zones(found))
                .map(|found| zone(&found))
                .collect(),
            source: self.sources(),
        };
        spec.cache.read_water_mark = self.water_mark(&spec);
        spec
    }

    /// The water mark that best explains the times of longer reads.
    fn water_mark(&self, spec: &Spec) -> f64 {
        let Some(zone) = spec.zone.first().filter(|_| self.ahead.is_some()) else { return 0.0 };
        let per_track = u64::from(zone.sectors_per_track);
        let off = |mark: f64| {
            let cache = CacheSpec { read_water_mark: mark, ..spec.cache };
            let drive = Drive::new(&Spec { cache, seek: SeekCurve::Constant { us: 0.0 }, ..spec.clone() });
            let takes =
                |blocks: u64| drive.passing_to_answer(blocks * self.block_sectors, per_track).0 as f64 / 1e3;
            let each = self.overhead.longer_us.iter();
            each.map(|(blocks, later)| (takes(*blocks) - takes(1) - later.value).abs()).sum::<f64>()
        };
        let (mut best, mut least) = (0.0, off(0.0));
        for part in 1..=MARKS {
            let mark = f64::from(part) / f64::from(MARKS);
            // A higher one has to explain clearly more.
            if off(mark) < 0.9 * least - 1.0 {
                (best, least) = (mark, off(mark));
            }
        }
        best
    }

    /// Cylinders per range, if all zones have such ranges or no spares at all.
    fn range(&self) -> Option<u64> {
        let range = self.zones.iter().find_map(|zone| zone.range_cylinders)?;
        let fits = |zone: &MeasuredZone| match zone.range_cylinders {
            Some(cylinders) => cylinders == range,
            None => zone.spares == 0 && zone.front == 0,
        };
        self.zones.iter().all(fits).then_some(range)
    }

    /// A zone in the description's terms: if only some zones have ranges, each range is a zone.
    fn spec_zones(&self, zone: &MeasuredZone) -> Vec<MeasuredZone> {
        let Some(cylinders) = zone.range_cylinders.filter(|_| self.range().is_none()) else {
            return vec![*zone];
        };
        let heads = self.heads.unwrap_or(1);
        let cylinder = heads * zone.sectors_per_track;
        let sectors = cylinders * cylinder - zone.spares;
        let step = (heads - 1) as f64 * zone.track_skew.value + zone.cylinder_skew.value;
        let range = |number: u64| {
            let first = zone.first + number * sectors;
            let end = (first + sectors).min(zone.end);
            let turned = number as f64 * (cylinders as f64 * step + zone.range_skew);
            let cylinders = (end - first).div_ceil(cylinder);
            MeasuredZone {
                first,
                end,
                cylinders,
                offset: (zone.offset + turned).rem_euclid(zone.sectors_per_track as f64),
                spares: cylinders * cylinder - (end - first),
                range_skew: 0.0,
                range_cylinders: None,
                ..*zone
            }
        };
        (0..(zone.end - zone.first).div_ceil(sectors)).map(range).collect()
    }

    fn layout_spec(&self) -> LayoutSpec {
        let range = self.range();
        let sparing = if range.is_some() { Sparing::Range } else { Sparing::Zone };
        LayoutSpec { sparing, range_cylinders: range.unwrap_or(1) as u32, ..LayoutSpec::default() }
    }

    fn cache_spec(&self) -> CacheSpec {
        let Some(ahead) = &self.ahead else { return CacheSpec { enabled: false, ..CacheSpec::default() } };
        CacheSpec {
            segments: self.segments as u32,
            segment_sectors: ahead.segment as u32,
            read_ahead: ahead.kind,
            read_ahead_sectors: if ahead.kind == ReadAhead::Segment { ahead.blocks as u32 } else { 0 },
            read_ahead_over_request: ahead.over_request,
            read_on_arrival: self.keeps_before,
            ..CacheSpec::default()
        }
    }

    fn sources(&self) -> BTreeMap<String, String> {
        let mut sources: BTreeMap<String, String> =
            ["sectors", "rpm", "bus", "cache", "command", "head_switch_us", "heads", "seek", "zone"]
                .into_iter()
                .map(|key| (key.to_owned(), EXTRACTED.to_owned()))
                .collect();
        let mut say = |key: &str, what: &str| sources.insert(key.to_owned(), what.to_owned());
        match self.write_settle_us {
            Some(_) => say("write_settle_us", WRITTEN),
            None if self.destructive => say(
                "write_settle_us",
                "assumed: seeks of writes cannot be separated from their overhead; zero",
            ),
            None => {
                say("write_settle_us", "assumed: reads do not show the extra settle time of writes; zero")
            }
        };
        if self.heads.is_none() {
            say(
                "heads",
                "assumed: tracks of a cylinder cannot be distinguished from others; each track is a cylinder",
            );
            say("head_switch_us", "assumed: as heads");
        }
        if self.ahead.is_none() {
            say("cache", "extracted: no read was found in a cache, by seekless drive calibrate");
        }
        sources
    }
}

fn round(us: f64) -> f64 {
    (us * 100.0).round() / 100.0
}

fn zone(zone: &MeasuredZone) -> Zone {
    let limit = zone.sectors_per_track as f64;
    let sectors = |value: f64| ((value * 1e6).round() / 1e6).min(limit);
    Zone {
        cylinders: zone.cylinders as u32,
        sectors_per_track: zone.sectors_per_track as u32,
        track_skew: sectors(zone.track_skew.value),
        cylinder_skew: sectors(zone.cylinder_skew.value),
        range_skew: sectors(zone.range_skew),
        offset: sectors(zone.offset),
        front: zone.front as u32,
        spares: zone.spares as u32,
        ..Zone::default()
    }
}
