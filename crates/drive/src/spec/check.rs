//! Checks of a description: a value that no drive can have is refused, with its key.

use std::collections::BTreeMap;

use super::{PowerSpec, SeekCurve, Spec, Zone};

/// The largest drive, in sectors (256 TiB).
const MOST_SECTORS: u64 = 1 << 39;
/// The longest time of any part, in microseconds.
const SECOND: f64 = 1e6;

/// A value that no drive can have.
pub struct SpecFault {
    pub key: String,
    pub found: String,
    pub expected: String,
}

pub(super) type Checked = Result<(), SpecFault>;

pub(super) fn fault(
    key: impl Into<String>,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Checked {
    Err(SpecFault { key: key.into(), found: found.into(), expected: expected.into() })
}

pub(super) fn within(key: &str, value: f64, low: f64, high: f64) -> Checked {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    fault(key, value.to_string(), format!("{low} to {high}"))
}

/// Refuses what cannot be a drive.
pub fn check(spec: &Spec) -> Checked {
    identities(&spec.identities)?;
    within("rpm", spec.rpm, 300.0, 60_000.0)?;
    within("heads", spec.heads.into(), 1.0, 64.0)?;
    within("head_switch_us", spec.head_switch_us, 0.0, SECOND)?;
    within("write_settle_us", spec.write_settle_us, -SECOND, SECOND)?;
    times(spec)?;
    cache(spec)?;
    spec.queue.check()?;
    spec.retries.map_or(Ok(()), |retries| retries.check())?;
    spec.shingled.map_or(Ok(()), |shingled| shingled.check(spec.sectors))?;
    arms(spec)?;
    spec.power.as_ref().map_or(Ok(()), PowerSpec::check)?;
    zones(spec)?;
    one_arm(spec)?;
    seek("seek", &spec.seek)?;
    spec.write_seek.as_ref().map_or(Ok(()), |curve| seek("write_seek", curve))?;
    full_stroke("seek", &spec.seek, spec)?;
    spec.write_seek.as_ref().map_or(Ok(()), |curve| full_stroke("write_seek", curve, spec))?;
    sources(spec)
}

/// Model numbers are compared with the words that disks report, in capitals; a shorter one would fit others too.
fn identities(all: &[String]) -> Checked {
    let is_none = |known: &&String| {
        let letter = |letter: u8| letter.is_ascii_graphic() && !letter.is_ascii_lowercase();
        !(5..=16).contains(&known.len()) || !known.bytes().all(letter)
    };
    match all.iter().find(is_none) {
        Some(found) => fault(
            "identities",
            format!("'{found}'"),
            "5 to 16 capitals, digits and signs, such as WD2500AAKS",
        ),
        None => Ok(()),
    }
}

/// A full stroke takes at least `FASTEST_US`, unless seeks take no time: a shorter one is in another unit.
fn full_stroke(table: &str, curve: &SeekCurve, spec: &Spec) -> Checked {
    const FASTEST_US: f64 = 100.0;
    let farthest = spec.cylinders().saturating_sub(1).max(1);
    let us = crate::disk::seek::micros(curve, farthest, farthest);
    if us == 0.0 || us >= FASTEST_US {
        return Ok(());
    }
    let found = format!("{us:.3} over all {} cylinders", farthest + 1);
    fault(table, found, format!("0, or at least {FASTEST_US}: times are in microseconds"))
}

fn arms(spec: &Spec) -> Checked {
    within("actuators", spec.actuators.into(), 1.0, spec.heads.into())?;
    if spec.heads % spec.actuators != 0 || spec.sectors % u64::from(spec.actuators) != 0 {
        return fault("actuators", spec.actuators.to_string(), "a divisor of heads and sectors");
    }
    if spec.actuators > 1 && spec.shingled.is_some() {
        return fault("actuators", spec.actuators.to_string(), "one, if tracks are shingled");
    }
    Ok(())
}

/// Spares, slips and remaps belong to each arm: the zones under one arm have to hold its part of the sectors.
fn one_arm(spec: &Spec) -> Checked {
    if spec.actuators == 1 {
        return Ok(());
    }
    zones(&spec.arm()).map_err(|fault| SpecFault { found: format!("{} under one arm", fault.found), ..fault })
}

/// Every time of commands and bus.
fn times(spec: &Spec) -> Checked {
    let tables = [("command", toml::Value::try_from(spec.command)), ("bus", toml::Value::try_from(spec.bus))];
    for (table, values) in tables {
        let Ok(toml::Value::Table(values)) = values else { continue };
        let inner = values.iter().filter_map(|(key, value)| value.as_table().map(|inner| (key, inner)));
        let inner =
            inner.flat_map(|(key, inner)| inner.iter().map(move |(sub, v)| (format!("{key}.{sub}"), v)));
        let own = values.iter().map(|(key, value)| (key.clone(), value));
        for (key, value) in own.chain(inner).filter(|(key, _)| key.ends_with("_us")) {
            within(&format!("{table}.{key}"), value.as_float().unwrap_or(-1.0), 0.0, SECOND)?;
        }
    }
    match (spec.bus.mb_s, spec.bus.read_sector_us, spec.bus.write_sector_us) {
        (Some(mb_s), None, None) => within("bus.mb_s", mb_s, 0.1, 1e6),
        (None, Some(_), Some(_)) => Ok(()),
        _ => fault("bus", "neither or both", "either mb_s, or read_sector_us and write_sector_us"),
    }
}

fn cache(spec: &Spec) -> Checked {
    let cache = &spec.cache;
    within("cache.segments", cache.segments.into(), 0.0, 4096.0)?;
    within("cache.segment_sectors", cache.segment_sectors.into(), 0.0, f64::from(1 << 24))?;
    within("cache.write_buffer_sectors", cache.write_buffer_sectors.into(), 0.0, f64::from(1 << 24))?;
    within("cache.write_buffer_ranges", cache.write_buffer_ranges.into(), 0.0, f64::from(1 << 24))?;
    within("cache.destage_threshold", cache.destage_threshold, 0.0, 1.0)?;
    within("cache.destage_after_ms", cache.destage_after_ms, 0.0, SECOND)?;
    within("cache.destage_window", cache.destage_window.into(), 0.0, f64::from(1 << 24))?;
    within("cache.destage_starvation_ms", cache.destage_starvation_ms, 0.0, SECOND)?;
    within("cache.destage_overtakes", cache.destage_overtakes.into(), 0.0, f64::from(1 << 24))?;
    within("cache.read_water_mark", cache.read_water_mark, 0.0, 1.0)?;
    within("cache.read_ahead_sectors", cache.read_ahead_sectors.into(), 0.0, f64::from(1 << 24))?;
    within(
        "cache.read_ahead_minimum_sectors",
        cache.read_ahead_minimum_sectors.into(),
        0.0,
        f64::from(1 << 24),
    )
}

fn zones(spec: &Spec) -> Checked {
    if spec.zone.is_empty() {
        return fault("zone", "none", "at least one [[zone]]");
    }
    within("layout.range_cylinders", spec.layout.range_cylinders.into(), 1.0, f64::from(1 << 24))?;
    within("layout.band_cylinders", spec.layout.band_cylinders.into(), 0.0, f64::from(1 << 24))?;
    if spec.layout.band_cylinders > 0 && !spec.layout.mapping.by_surface() {
        let found = format!("{} with this mapping", spec.layout.band_cylinders);
        return fault("layout.band_cylinders", found, "0, or mapping 'surface' or 'surface-serpentine'");
    }
    let mut free = 0;
    for (number, (zone, first)) in spec.zone.iter().zip(spec.first_cylinders()).enumerate() {
        let key = |name: &str| format!("zone {}: {name}", number + 1);
        within(&key("cylinders"), zone.cylinders.into(), 1.0, f64::from(1 << 24))?;
        within(&key("sectors_per_track"), zone.sectors_per_track.into(), 1.0, f64::from(1 << 16))?;
        let most = f64::from(zone.sectors_per_track);
        within(&key("track_skew"), zone.track_skew, 0.0, most)?;
        within(&key("cylinder_skew"), zone.cylinder_skew, 0.0, most)?;
        within(&key("offset"), zone.offset, 0.0, most)?;
        within(&key("range_skew"), zone.range_skew, 0.0, most)?;
        if first < free {
            return fault(key("first_cylinder"), first.to_string(), format!("{free} or more: zones overlap"));
        }
        free = first + u64::from(zone.cylinders);
        lists(spec, zone, &key)?;
    }
    let physical =
        |zone: &Zone| u64::from(zone.cylinders) * u64::from(spec.heads) * u64::from(zone.sectors_per_track);
    let all: u64 = spec.zone.iter().map(physical).sum();
    if all > MOST_SECTORS || free > 1 << 26 {
        return fault(
            "zone",
            format!("{all} sectors on {free} cylinders"),
            "at most 256 TiB, 2^26 cylinders",
        );
    }
    let held = crate::disk::layout::capacities(spec);
    if let Some(number) = held.iter().position(|&held| held == 0) {
        let (zone, places) = (&spec.zone[number], physical(&spec.zone[number]));
        let (slips, remaps, spares) = (zone.slips.len(), zone.remaps.len(), zone.spares);
        let found = format!("{slips} slips, {remaps} remaps, {spares} spares, {} at the front", zone.front);
        let expected = format!("fewer than use up its {places} sectors");
        return fault(format!("zone {}: slips, remaps", number + 1), found, expected);
    }
    let held: u64 = held.iter().sum();
    let cache = spec.shingled.map_or(0, |shingled| shingled.media_cache_sectors);
    if spec.sectors == 0 || spec.sectors + cache > held {
        return fault(
            "sectors",
            spec.sectors.to_string(),
            format!("1 to what the zones hold, {}", held - cache.min(held)),
        );
    }
    Ok(())
}

/// Slips and remaps lie in their zone, and no place is named twice.
fn lists(spec: &Spec, zone: &Zone, key: &dyn Fn(&str) -> String) -> Checked {
    let tracks = u64::from(zone.cylinders) * u64::from(spec.heads);
    let units = match spec.layout.sparing {
        super::Sparing::Tracks => tracks,
        _ => tracks * u64::from(zone.sectors_per_track),
    };
    let remaps =
        zone.remaps.iter().flat_map(|&(from, to)| [from].into_iter().chain((from != to).then_some(to)));
    let mut named: Vec<u64> = zone.slips.iter().copied().chain(remaps).collect();
    named.sort_unstable();
    if let Some(&far) = named.last().filter(|&&far| far >= units) {
        return fault(key("slips, remaps"), far.to_string(), format!("less than {units}, the zone's end"));
    }
    match named.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => fault(key("slips, remaps"), format!("{} twice", pair[0]), "each place once"),
        None => Ok(()),
    }
}

fn seek(table: &str, curve: &SeekCurve) -> Checked {
    let key = |key: &str| format!("{table}.{key}");
    match curve {
        SeekCurve::Table { points } => {
            let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if points.first().is_none_or(|point| point.0 != 1) || !ascending {
                return fault(
                    key("points"),
                    format!("{} points", points.len()),
                    "ascending distances from 1",
                );
            }
            points.iter().try_for_each(|&(_, time)| within(&key("points"), time, 0.0, SECOND))
        }
        SeekCurve::ThreePoint { track_us, average_us, full_us } => {
            if *track_us >= 0.0 && track_us <= average_us && average_us <= full_us && *full_us <= SECOND {
                return Ok(());
            }
            let found = format!("{track_us}, {average_us}, {full_us}");
            fault(table, found, "track_us <= average_us <= full_us <= 1000000")
        }
        SeekCurve::Hp { short_us, short_root_us, long_us, long_each_us, single_us, first_us, .. } => {
            for (name, value) in [
                ("short_us", short_us),
                ("short_root_us", short_root_us),
                ("long_us", long_us),
                ("long_each_us", long_each_us),
            ] {
                within(&key(name), *value, 0.0, SECOND)?;
            }
            single_us.iter().chain(first_us).try_for_each(|&time| within(&key("first_us"), time, 0.0, SECOND))
        }
        SeekCurve::Settle { settle_us, root_us, each_us, .. } => {
            within(&key("settle_us"), *settle_us, 0.0, SECOND)?;
            within(&key("root_us"), *root_us, 0.0, SECOND)?;
            within(&key("each_us"), *each_us, 0.0, SECOND)
        }
        SeekCurve::Constant { us } => within(&key("us"), *us, 0.0, SECOND),
    }
}

/// Kinds of sources.
const KINDS: [&str; 5] = ["published", "measured", "extracted", "fitted", "assumed"];

/// Values of a disk that must have a source.
pub(crate) const FIGURES: [&str; 10] = [
    "sectors",
    "rpm",
    "heads",
    "head_switch_us",
    "write_settle_us",
    "command",
    "bus",
    "cache",
    "seek",
    "zone",
];

fn sources(spec: &Spec) -> Checked {
    check_sources(FIGURES.into_iter(), &spec.source)
}

/// Checks that each of these values has a source, and each source a kind.
pub(super) fn check_sources<'a>(
    mut figures: impl Iterator<Item = &'a str>,
    sources: &BTreeMap<String, String>,
) -> Checked {
    if let Some(figure) = figures.find(|figure| !sources.contains_key(*figure)) {
        return fault("source", format!("nothing for {figure}"), "where each figure comes from");
    }
    for (figure, source) in sources {
        let kind =
            source.split_once(": ").is_some_and(|(kind, rest)| KINDS.contains(&kind) && !rest.is_empty());
        if !kind {
            let expected =
                "'published: ...', 'measured: ...', 'extracted: ...', 'fitted: ...' or 'assumed: ...'";
            return fault(format!("source.{figure}"), format!("'{source}'"), expected);
        }
    }
    Ok(())
}
