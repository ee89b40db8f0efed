//! `dm_layout_g4`: a tree of repeated patterns of tracks, with slips and remaps.
//!
//! `TP` has patterns of tracks, three numbers each: the first and the last sector used, and the sectors of a track.
//! `IDX` has the nodes of the tree, the root last. An entry of a node has its first sector and cylinder, its angle; of
//! one instance, the sectors, cylinders and angle; of the whole run, the sectors and cylinders (backwards, if
//! negative); then `TRACK`, a pattern and a head, or `IDX` and a node. All are relative to the entry above, angles are
//! in revolutions.

use std::collections::{BTreeMap, BTreeSet};

use super::ImportError;
use super::language::{Block, Value};
use super::reader::Reader;
use super::tracks::{Stretch, bare, laid_out};
use super::zones::Laid;
use crate::disk::layout::Position;
use crate::spec::{LayoutSpec, Zone};

/// No tree is deeper.
const DEEPEST: usize = 16;
/// No drive has more tracks.
const MOST_TRACKS: usize = 1 << 23;

/// What an entry repeats.
#[derive(Clone, Copy, Debug)]
enum Child {
    /// A pattern of tracks, under a head.
    Track(usize, u64),
    /// A node.
    Node(usize),
}

/// An entry of a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lba: u64,
    cylinder: i64,
    angle: f64,
    each: u64,
    each_cylinders: i64,
    each_angle: f64,
    sectors: u64,
    cylinders: i64,
    child: Child,
}

/// A track of the drive: its sectors are counted with those that are slipped. Its `width` is its number of sectors.
#[derive(Clone, Copy, Debug)]
struct Track {
    stretch: Stretch,
    width: u64,
    /// Of its sector 0, in revolutions.
    angle: f64,
}

/// The layout of a `dm_layout_g4` block, of at most `most` sectors.
pub fn indexed(
    layout: &Block,
    heads: u32,
    most: Option<f64>,
    left_out: &mut Vec<String>,
) -> Result<Laid, ImportError> {
    let reader = Reader::new(layout);
    let patterns: Vec<u64> = reader.wholes("TP")?;
    let nodes = nodes(&reader, patterns.len() / 3)?;
    let mut tracks = Vec::new();
    let tree = Tree { reader: &reader, patterns: &patterns, nodes: &nodes };
    let root = nodes.len().checked_sub(1).ok_or_else(|| reader.wrong("IDX", "no nodes", "a root"))?;
    let from = Track {
        stretch: Stretch { lba: 0, sectors: u64::MAX, at: Position { cylinder: 0, head: 0, sector: 0 } },
        width: 0,
        angle: 0.0,
    };
    tree.expand(root, from, 0, &mut tracks)?;
    tracks.sort_by_key(|track| track.stretch.lba);
    if tracks.windows(2).any(|pair| pair[0].stretch.lba + pair[0].stretch.sectors > pair[1].stretch.lba) {
        return Err(reader.wrong("IDX", "sectors with two places", "one"));
    }
    // An entry of the root may have skews of its own.
    let starts = nodes[root].iter().filter_map(|entry| {
        let first = entry.cylinder + if entry.cylinders < 0 { entry.cylinders + 1 } else { 0 };
        u64::try_from(first).ok()
    });
    let mut zones = zones(&tracks, &starts.collect())
        .map_err(|found| reader.wrong("IDX", &found, "one number for a cylinder"))?;
    let stretches = remapped(slipped(&tracks, &reader, left_out)?, &reader)?;
    let (layout, found) = laid_out(&stretches, &zones, heads)
        .map_err(|(found, expected)| reader.wrong("IDX", &found, expected))?;
    skews(&tracks, layout, &mut zones, heads, &reader, left_out);
    for (zone, found) in zones.iter_mut().zip(found) {
        (zone.slips, zone.remaps, zone.spares) = (found.slips, found.remaps, found.spares);
    }
    let most = most.filter(|most| *most >= 1.0).map(|most| most as u64);
    reader.left_out(left_out);
    Ok(Laid { layout, zones, places: vec![("zone".to_owned(), reader.place("IDX"))], most })
}

/// The nodes of the tree.
fn nodes(reader: &Reader, patterns: usize) -> Result<Vec<Vec<Entry>>, ImportError> {
    let lists = reader.lists("IDX")?;
    let wrong = |number: usize, found: &str| {
        let expected = "entries of eight numbers, and TRACK, pattern, head or IDX, node";
        reader.wrong("IDX", &format!("in node {number}: {found}"), expected)
    };
    let node = |(number, list): (usize, &Vec<Value>)| {
        let words: Option<Vec<&str>> = list.iter().map(Value::word).collect();
        let words = words.ok_or_else(|| wrong(number, "a list or block"))?;
        let mut entries = Vec::new();
        let mut rest = &words[..];
        while !rest.is_empty() {
            let (entry, read) =
                entry(rest).ok_or_else(|| wrong(number, &rest[..rest.len().min(11)].join(", ")))?;
            let inside = match entry.child {
                Child::Track(pattern, _) => pattern < patterns,
                Child::Node(node) => node < lists.len(),
            };
            if !inside || entry.each == 0 || entry.each_cylinders <= 0 {
                return Err(wrong(number, &rest[..read].join(", ")));
            }
            entries.push(entry);
            rest = &rest[read..];
        }
        Ok(entries)
    };
    lists.iter().enumerate().map(|(number, list)| node((number, list))).collect()
}

/// The first entry of some words, and the number of its words.
fn entry(words: &[&str]) -> Option<(Entry, usize)> {
    let whole = |place: usize| words.get(place)?.parse::<u32>().ok().map(u64::from);
    let signed = |place: usize| words.get(place)?.parse::<i32>().ok().map(i64::from);
    let angle = |place: usize| words.get(place)?.parse::<f64>().ok().filter(|angle| angle.is_finite());
    let number = whole(9)? as usize;
    let (child, read) = match *words.get(8)? {
        "TRACK" => (Child::Track(number, whole(10)?), 11),
        "IDX" => (Child::Node(number), 10),
        _ => return None,
    };
    let entry = Entry {
        lba: whole(0)?,
        cylinder: signed(1)?,
        angle: angle(2)?,
        each: whole(3)?,
        each_cylinders: signed(4)?,
        each_angle: angle(5)?,
        sectors: whole(6)?,
        cylinders: signed(7)?,
        child,
    };
    Some((entry, read))
}

/// A number that is at most 2^33 here, as all of a file are.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The tree being expanded into tracks.
struct Tree<'a> {
    reader: &'a Reader<'a>,
    patterns: &'a [u64],
    nodes: &'a [Vec<Entry>],
}

impl Tree<'_> {
    /// Adds the tracks of a node whose instance begins at `from`, and has at most its sectors.
    fn expand(
        &self,
        node: usize,
        from: Track,
        depth: usize,
        tracks: &mut Vec<Track>,
    ) -> Result<(), ImportError> {
        if depth > DEEPEST {
            return Err(self.reader.wrong("IDX", "nodes that contain each other", "at most 16 deep"));
        }
        for entry in &self.nodes[node] {
            let sectors = entry.sectors.min(from.stretch.sectors.saturating_sub(entry.lba));
            for instance in 0..sectors.div_ceil(entry.each) {
                let step = signed(instance) * entry.each_cylinders * entry.cylinders.signum();
                let cylinder = signed(from.stretch.at.cylinder) + entry.cylinder + step;
                if cylinder < 0 || tracks.len() >= MOST_TRACKS {
                    let expected = format!("cylinders from 0 on, and at most {MOST_TRACKS} tracks");
                    return Err(self.reader.wrong("IDX", &format!("cylinder {cylinder}"), &expected));
                }
                let stretch = Stretch {
                    lba: from.stretch.lba + entry.lba + instance * entry.each,
                    sectors: entry.each.min(sectors - instance * entry.each),
                    at: Position { cylinder: cylinder as u64, ..from.stretch.at },
                };
                let angle = from.angle + entry.angle + instance as f64 * entry.each_angle;
                let track = Track { stretch, angle, ..from };
                match entry.child {
                    Child::Node(node) => self.expand(node, track, depth + 1, tracks)?,
                    Child::Track(pattern, head) => tracks.push(self.track(track, pattern, head)?),
                }
            }
        }
        Ok(())
    }

    /// A track of a pattern.
    fn track(&self, from: Track, pattern: usize, head: u64) -> Result<Track, ImportError> {
        let [low, high, per_track] = self.patterns[3 * pattern..3 * pattern + 3] else {
            return Err(self.reader.wrong("TP", "a part of a pattern", "three numbers each"));
        };
        if low > high || high >= per_track {
            let found = format!("{low}, {high}, {per_track}");
            return Err(self.reader.wrong("TP", &found, "first <= last < sectors of a track"));
        }
        let at = Position { head, sector: low, ..from.stretch.at };
        let stretch = Stretch { sectors: from.stretch.sectors.min(high - low + 1), at, ..from.stretch };
        Ok(Track { stretch, width: per_track, angle: from.angle - low as f64 / per_track as f64 })
    }
}

/// The zones of some tracks: adjacent cylinders with equally many sectors per track, up to the next of the `starts`.
fn zones(tracks: &[Track], starts: &BTreeSet<u64>) -> Result<Vec<Zone>, String> {
    let mut cylinders: BTreeMap<u64, u64> = BTreeMap::new();
    for track in tracks {
        let cylinder = track.stretch.at.cylinder;
        let there = *cylinders.entry(cylinder).or_insert(track.width);
        if there != track.width {
            return Err(format!("{there} and {} sectors per track on cylinder {cylinder}", track.width));
        }
    }
    let mut zones: Vec<Zone> = Vec::new();
    let mut next = 0;
    for (cylinder, per_track) in cylinders {
        match zones.last_mut() {
            Some(zone)
                if cylinder == next
                    && u64::from(zone.sectors_per_track) == per_track
                    && !starts.contains(&cylinder) =>
            {
                zone.cylinders += 1;
            }
            _ => zones.push(Zone {
                first_cylinder: Some(u32::try_from(cylinder).map_err(|_| format!("cylinder {cylinder}"))?),
                cylinders: 1,
                sectors_per_track: per_track as u32,
                ..Zone::default()
            }),
        }
        next = cylinder + 1;
    }
    Ok(zones)
}

/// The tracks without slips, numbered anew. `Slips` has a sector, and how many are slipped there; a negative number
/// returns to spares, which have no sectors of their own here.
fn slipped(
    tracks: &[Track],
    reader: &Reader,
    left_out: &mut Vec<String>,
) -> Result<Vec<Stretch>, ImportError> {
    let mut slips: Vec<(u64, u64)> = Vec::new();
    for pair in reader.numbers("Slips")?.chunks(2) {
        match *pair {
            [at, count] if at >= 0.0 && count > 0.0 => slips.push((at as u64, count as u64)),
            [at, count] if count <= 0.0 => {
                reader.report_value("Slips", &format!("{at}, {count}"), "no slip", left_out);
            }
            _ => {
                return Err(reader.wrong(
                    "Slips",
                    "a part of a pair, or a negative sector",
                    "sector, number",
                ));
            }
        }
    }
    slips.sort_unstable();
    let mut slips = slips.into_iter().peekable();
    let (mut lba, mut free) = (0, 0);
    let mut stretches = Vec::new();
    for track in tracks {
        let (mut at, end) = (track.stretch.lba, track.stretch.lba + track.stretch.sectors);
        while at < end {
            while let Some((slip, count)) = slips.next_if(|&(slip, _)| slip <= at) {
                free = free.max(slip + count);
            }
            if at < free {
                at = free.min(end);
                continue;
            }
            let until = slips.peek().map_or(end, |&(slip, _)| slip.min(end));
            let sector = track.stretch.at.sector + (at - track.stretch.lba);
            let place = Position { sector, ..track.stretch.at };
            stretches.push(Stretch { lba, sectors: until - at, at: place });
            (lba, at) = (lba + until - at, until);
        }
    }
    Ok(stretches)
}

/// Moves remapped sectors: `Remaps` has a sector, their number, cylinder, head, sector and sectors per track of each.
fn remapped(stretches: Vec<Stretch>, reader: &Reader) -> Result<Vec<Stretch>, ImportError> {
    let numbers = reader.wholes("Remaps")?;
    let mut remaps: BTreeMap<u64, (u64, Position)> = BTreeMap::new();
    for remap in numbers.chunks(6) {
        let [lba, count, cylinder, head, sector, _] = *remap else {
            return Err(reader.wrong("Remaps", "a part of a remap", "six numbers each"));
        };
        remaps.insert(lba, (lba + count, Position { cylinder, head, sector }));
    }
    let mut moved = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let (mut lba, end) = (stretch.lba, stretch.lba + stretch.sectors);
        while lba < end {
            let (at, until) = match remaps.range(..=lba).next_back() {
                Some((first, (until, at))) if *until > lba => {
                    (Position { sector: at.sector + (lba - first), ..*at }, end.min(*until))
                }
                _ => {
                    let next = remaps.range(lba..).next().map_or(end, |(first, _)| end.min(*first));
                    let sector = stretch.at.sector + (lba - stretch.lba);
                    (Position { sector, ..stretch.at }, next)
                }
            };
            moved.push(Stretch { lba, sectors: until - lba, at });
            lba = until;
        }
    }
    Ok(moved)
}

/// Offset and skews of each zone, from the angles of its first tracks; other tracks that differ are reported.
fn skews(
    tracks: &[Track],
    layout: LayoutSpec,
    zones: &mut [Zone],
    heads: u32,
    reader: &Reader,
    left_out: &mut Vec<String>,
) {
    let Some(bare) = bare(layout, zones, heads) else { return };
    let steps = |track: &Track| {
        let at = Position { sector: 0, ..track.stretch.at };
        bare.lba(at).map(|lba| (bare.steps(lba), track.angle))
    };
    let mut known: Vec<_> = tracks.iter().filter_map(steps).collect();
    known.sort_by_key(|(steps, _)| (steps.zone, steps.cylinders + steps.heads));
    for (number, zone) in zones.iter_mut().enumerate() {
        let most = f64::from(zone.sectors_per_track);
        let here = || known.iter().filter(|(steps, _)| steps.zone == number);
        let sectors = |angle: f64| (angle.rem_euclid(1.0) * most * 1e6).round() / 1e6 % most;
        let Some((first, angle)) = here().next() else { continue };
        // Each step to the next track is one of the head or one of the arm.
        let step = |heads: u64, cylinders: u64| {
            let pairs = here().zip(here().skip(1));
            let mut such = pairs.filter(|((one, _), (next, _))| {
                (one.heads + heads, one.cylinders + cylinders) == (next.heads, next.cylinders)
            });
            such.next().map_or(0.0, |((_, from), (_, to))| (to - from).rem_euclid(1.0))
        };
        let (track, cylinder) = (step(1, 0), step(0, 1));
        let start = angle - first.heads as f64 * track - first.cylinders as f64 * cylinder;
        zone.offset = sectors(start);
        (zone.track_skew, zone.cylinder_skew) = (sectors(track), sectors(cylinder));
        let off = |(at, there): &(crate::disk::layout::Steps, f64)| {
            let expected = start + at.heads as f64 * track + at.cylinders as f64 * cylinder;
            let off = (there - expected).rem_euclid(1.0);
            off.min(1.0 - off) * most
        };
        let worst = here().map(off).fold(0.0, f64::max);
        if worst > 0.5 {
            let why = format!("{worst:.1} sectors off the zone's skews, at most");
            reader.report_value("IDX", &format!("angles of zone {}", number + 1), &why, left_out);
        }
    }
}
