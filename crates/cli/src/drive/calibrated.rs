//! Text output of a calibration: each figure with its interval, and the true value where the drive is simulated.

use seekless_drive::Spec;
use seekless_drive::calibrate::{Calibration, Comparison, Estimate, true_seek_us};
use seekless_drive::disk::Drive;
use seekless_drive::spec::ReadAhead;

use crate::output::plain;
use crate::table::Table;
use crate::text::{count, number, percent, sectors, span};

/// Rows of the seek table, at most.
const SEEKS: usize = 24;

/// The whole text.
pub fn text(device: &str, found: &Calibration, truth: Option<&Spec>, near: Option<&Comparison>) -> String {
    let how = if truth.is_some() { "simulated" } else { "by direct reads" };
    let spent = span(found.seconds);
    let writes =
        if found.writes > 0 { format!(" and {} writes", count(found.writes)) } else { String::new() };
    let reads = count(found.reads);
    let mut out = format!("{}, {how}: {reads} reads{writes} in {spent} of its time\n\n", plain(device));
    out.push_str(&figures(found, truth, near));
    out.extend(["\nZones, from the outer edge to the inner; skews in sectors\n", &zones(found)]);
    out.extend(["\nSeeks, the handling of a command included; in milliseconds\n", &seeks(found, truth)]);
    if let Some(near) = near {
        out.extend(["\nHow near that is\n", &nearness(near)]);
    }
    out
}

/// A table of figures: quantity, found, interval, truth.
struct Figures {
    table: Table,
    true_too: bool,
}

impl Figures {
    fn row(&mut self, what: &str, unit: &str, decimals: usize, found: Estimate, truth: Option<f64>) {
        let cell = |value: f64| number(value, decimals);
        let interval = format!("{} to {}", cell(found.low), cell(found.high));
        self.cells(what, &cell(found.value), unit, &interval, truth.map(cell));
    }

    fn cells(&mut self, what: &str, found: &str, unit: &str, interval: &str, truth: Option<String>) {
        let mut row = vec![what.to_owned(), found.to_owned(), unit.to_owned(), interval.to_owned()];
        if self.true_too {
            row.push(truth.unwrap_or_default());
        }
        self.table.row(row);
    }
}

fn figures(found: &Calibration, truth: Option<&Spec>, near: Option<&Comparison>) -> String {
    let titles = ["quantity", ">found", "", ">95 % interval", ">true"];
    let true_too = truth.is_some();
    let mut figures = Figures { table: Table::new(&titles[..if true_too { 5 } else { 4 }]), true_too };
    let drive = truth.map(Drive::new);
    let turn = drive.as_ref().map(|drive| drive.mechanics().revolution().0 as f64 / 1e3);
    figures.row("revolution", "us", 4, found.turn_us, turn);
    figures.row("speed", "rpm", 4, found.rpm, truth.map(|spec| spec.rpm));
    figures.cells("capacity", &sectors(found.sectors), "", "", truth.map(|spec| sectors(spec.sectors)));
    let heads = found.heads.map_or("not found".to_owned(), |heads| heads.to_string());
    figures.cells("heads", &heads, "", "", truth.map(|spec| spec.heads.to_string()));
    let pieces = truth.map(|spec| spec.zone.len().to_string());
    figures.cells("zones or pieces of them", &found.zones.len().to_string(), "", "", pieces);
    let bus = truth.map(|spec| spec.bus_sector_us().0 * found.block_sectors as f64);
    let hit = truth.map(|spec| spec.command.each_us + spec.command.read_hit_after_read_us);
    let hit = hit.zip(bus).map(|(hit, bus)| hit + bus);
    figures.row("read of a block, in the cache", "us", 2, found.overhead.hit_us, hit);
    figures.row("each further block", "us", 3, found.overhead.block_us, bus);
    match found.overhead.media_us {
        Some(media) => figures.row("handling of a read off the media", "us", 1, media, None),
        None => figures.cells("handling of a read off the media", "not found", "", "", None),
    }
    if let Some(switch) = found.head_switch_us {
        let without = found.handling_us();
        let less = |value: f64| (value - without).max(0.0);
        let switch = Estimate { value: less(switch.value), low: less(switch.low), high: less(switch.high) };
        figures.row("head switch", "us", 1, switch, truth.map(|spec| spec.head_switch_us));
    }
    if let Some(handling) = found.write_handling_us {
        figures.row("handling of a write", "us", 1, handling, None);
    }
    match found.write_settle_us {
        Some(settle) => figures.row("write settle", "us", 1, settle, truth.map(|spec| spec.write_settle_us)),
        None if found.destructive => figures.cells("write settle", "not found", "", "", None),
        None => {}
    }
    let more = if found.more_segments { " or more" } else { "" };
    let segments = near.map(|near| near.segments.to_string());
    figures.cells("cache segments", &format!("{}{more}", found.segments), "", "", segments);
    if let Some(ahead) = &found.ahead {
        let size = truth.map(|spec| spec.cache.segment_sectors.to_string());
        figures.cells("sectors of a segment", &ahead.segment.to_string(), "", "", size);
        let until = match ahead.kind {
            ReadAhead::Track => "to the track's end",
            _ => "",
        };
        let blocks = near.map(|near| near.ahead.to_string());
        figures.cells("sectors read ahead", &ahead.blocks.to_string(), until, "", blocks);
    }
    let yes = |is: bool| if is { "yes" } else { "no" };
    let keeps = truth.map(|spec| yes(spec.cache.read_on_arrival).to_owned());
    figures.cells("keeps what passes before", yes(found.keeps_before), "", "", keeps);
    figures.table.text()
}

fn zones(found: &Calibration) -> String {
    let mut table = Table::new(&[
        ">first sector",
        ">cylinders",
        ">sectors a track",
        ">track skew",
        ">95 % interval",
        ">cylinder skew",
        ">95 % interval",
        ">spares",
    ]);
    let skew = |value: f64| number(value, usize::from(value.fract() != 0.0) * 3);
    let interval = |skew: Estimate| format!("{} to {}", number(skew.low, 2), number(skew.high, 2));
    for zone in &found.zones {
        let spares = match zone.range_cylinders {
            Some(cylinders) => format!("{} per {cylinders} cylinders", zone.spares),
            None => count(zone.spares),
        };
        table.row([
            count(zone.first),
            count(zone.cylinders),
            zone.sectors_per_track.to_string(),
            skew(zone.track_skew.value),
            interval(zone.track_skew),
            skew(zone.cylinder_skew.value),
            interval(zone.cylinder_skew),
            spares,
        ]);
    }
    table.text()
}

fn seeks(found: &Calibration, truth: Option<&Spec>) -> String {
    let titles = [">cylinders", ">found", ">95 % interval", ">true"];
    let mut table = Table::new(&titles[..if truth.is_some() { 4 } else { 3 }]);
    let drive = truth.map(Drive::new);
    let ms = |us: f64| number(us / 1e3, 3);
    let step = found.seeks.len().div_ceil(SEEKS).max(1);
    let last = found.seeks.len().saturating_sub(1);
    for (_, seek) in found.seeks.iter().enumerate().filter(|(index, _)| index % step == 0 || *index == last) {
        let mut row = vec![count(seek.cylinders), ms(seek.us.value)];
        row.push(format!("{} to {}", ms(seek.us.low), ms(seek.us.high)));
        if let (Some(drive), Some(spec)) = (&drive, truth) {
            let us = true_seek_us(drive, spec, found, seek.cylinders);
            row.push(us.map_or(String::new(), |us| ms(us + found.handling_us())));
        }
        table.row(row);
    }
    table.text()
}

fn nearness(near: &Comparison) -> String {
    let mut table = Table::new(&["", ">", ""]);
    let replay = &near.replay;
    let of = |found: usize| format!("{found} of {}", near.zones);
    for (what, value, unit) in [
        ("revolution off by", number(near.turn_ppm, 3), "parts per million"),
        ("zones with their sectors a track", of(near.tracks_right), ""),
        ("zones with both skews", of(near.skews_right), "within a sector"),
        ("begins of zones off by at most", number(near.begins_off_tracks, 2), "tracks"),
        ("seeks off by", number(near.seek_off_ms, 3), "ms, the median"),
        ("at most by", number(near.seek_off_most_ms, 3), "ms"),
        (
            "random reads on both, mean",
            number(replay.mean_simulated_ms, 3),
            &format!("ms, true {}", number(replay.mean_measured_ms, 3)),
        ),
        ("within 0.5 ms of each other", percent(replay.within_half_ms_pct), "of them"),
    ] {
        table.row([what, &value, unit]);
    }
    table.text()
}
