//! Conversion of DiskSim's blocks into a description: `disksim_disk` (controller and cache), `dm_disk` (`dm_mech_g1`,
//! `dm_layout_g1`), and the `disksim_bus` that the disk is attached to.
//!
//! Units: DiskSim's milliseconds become microseconds; its blocks are sectors of 512 bytes.

use std::collections::BTreeMap;
use std::path::Path;

use super::language::{self, Block, Document, Node, Place};
use super::reader::Reader;
use super::{ImportError, Imported};
use crate::spec::{
    BusSpec, CacheSpec, CommandSpec, ExtraDisconnect, FIGURES, LayoutSpec, Mapping, QueueSpec, ReadAhead,
    SeekCurve, Sparing, Spec, WriteBack, Zone,
};

/// The drive described by these files.
pub fn import(path: &Path, name: &str) -> Result<Imported, ImportError> {
    let document = language::read(path)?;
    let mut left_out = Vec::new();
    let disk = document.blocks.iter().find(|block| block.kind == "disksim_disk");
    let model = document.blocks.iter().find(|block| block.kind == "dm_disk");
    let (model, command, mut bus, cache) = match (disk, model) {
        (Some(disk), _) => {
            let reader = Reader::new(disk);
            let model = reader.block("Model")?;
            let parts = (model, command(&reader)?, interface(&reader)?, cache(&reader, &mut left_out)?);
            unmodelled(&reader, &mut left_out)?;
            reader.left_out(&mut left_out);
            parts
        }
        (None, Some(model)) => (
            model,
            CommandSpec::default(),
            BusSpec { mb_s: None, ..BusSpec::default() },
            CacheSpec::default(),
        ),
        (None, None) => {
            let place = Place { file: path.to_owned(), line: 1 };
            return Err(ImportError::new(&place, "no drive", "a block disksim_disk or dm_disk"));
        }
    };
    let bulk = bus.read_sector_us.unwrap_or(0.0);
    let (read, write) = match disk {
        Some(disk) => bus_times(&document, disk)?,
        None => (0.0, 0.0),
    };
    (bus.read_sector_us, bus.write_sector_us) = (Some(bulk.max(read)), Some(bulk.max(write)));
    let spec = drive(model, name, &(command, bus, cache), &mut left_out)?;
    let text = toml::to_string(&spec).unwrap_or_default();
    let spec = crate::spec::parse(&path.display().to_string(), &text)?;
    Ok(Imported { spec, left_out })
}

type Parts = (CommandSpec, BusSpec, CacheSpec);

fn drive(model: &Block, name: &str, parts: &Parts, left_out: &mut Vec<String>) -> Result<Spec, ImportError> {
    let reader = Reader::new(model);
    let mechanics = reader.block("Mechanical Model")?;
    let layout = reader.block("Layout Model")?;
    let heads = reader.whole("Number of data surfaces")?;
    // The zones are more precise; the block count is the host's view, or not even that.
    reader.ignore(&["Block count", "Number of cylinders"]);
    let (mapping, zone) = zones(layout, left_out)?;
    let cylinders = zone.last().map_or(1, |zone: &Zone| zone.first_cylinder.unwrap_or(0) + zone.cylinders);
    let moving = Reader::new(mechanics);
    if mechanics.kind != "dm_mech_g1" {
        return Err(ImportError::new(&mechanics.place, &mechanics.kind, "dm_mech_g1"));
    }
    let seek = seek(&moving, cylinders)?;
    let access = moving.word("Access time type")?.unwrap_or_default();
    if access != "trackSwitchPlusRotation" {
        return Err(moving.wrong("Access time type", &access, "trackSwitchPlusRotation"));
    }
    if moving.number_or_zero("Percent error in rpms")? != 0.0 {
        moving.report("Percent error in rpms", "the given speed is exact", left_out);
    }
    let (command, bus, cache) = *parts;
    let mut spec = Spec {
        name: name.to_owned(),
        title: model.name.replace('_', " "),
        sectors: 1,
        rpm: moving.some_number("Rotation speed (in rpms)")?,
        heads,
        head_switch_us: micros(moving.some_number("Head switch time")?),
        write_settle_us: micros(moving.number_or_zero("Add. write settling delay")?),
        command,
        bus,
        cache,
        queue: QueueSpec::default(),
        retries: None,
        shingled: None,
        actuators: 1,
        power: None,
        seek,
        write_seek: None,
        layout: mapping,
        zone,
        source: sources(model),
    };
    moving.left_out(left_out);
    reader.left_out(left_out);
    spec.sectors = crate::disk::layout::capacity(&spec).max(1);
    Ok(spec)
}

fn sources(model: &Block) -> BTreeMap<String, String> {
    let file =
        model.place.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source = format!("extracted: {file} and the files that belong to it, of DiskSim");
    FIGURES.into_iter().map(|figure| (figure.to_owned(), source.clone())).collect()
}

/// DiskSim's milliseconds in microseconds, without binary rounding noise.
fn micros(millis: f64) -> f64 {
    (millis * 1e6).round() / 1e3
}

fn seek(reader: &Reader, cylinders: u32) -> Result<SeekCurve, ImportError> {
    let time = |key: &str| reader.some_number(key).map(micros);
    let kind = reader.word("Seek type")?.unwrap_or_default();
    let curve = match kind.as_str() {
        "extracted" => {
            let Some(file) = reader.file("Full seek curve")? else {
                return Err(reader.wrong("Seek type", "extracted", "a Full seek curve with it"));
            };
            SeekCurve::Table { points: points(&file)? }
        }
        "hpl" | "hplplus10" => {
            let values = reader.numbers("HPL seek equation values")?;
            let [divide, short, root, long, each, single] = values[..] else {
                let found = format!("{} numbers", values.len());
                return Err(reader.wrong("HPL seek equation values", &found, "six"));
            };
            let first = if kind == "hpl" { Vec::new() } else { reader.numbers("First ten seek times")? };
            SeekCurve::Hp {
                divide: divide as u32,
                short_us: micros(short),
                short_root_us: micros(root),
                long_us: micros(long),
                long_each_us: micros(each),
                single_us: (single >= 0.0 && first.is_empty()).then_some(micros(single)),
                first_us: first.into_iter().map(micros).collect(),
            }
        }
        "linear" => {
            let third = (cylinders / 3).max(2);
            let points = vec![
                (1, time("Single cylinder seek time")?),
                (third, time("Average seek time")?),
                (cylinders.max(third + 1), time("Full strobe seek time")?),
            ];
            SeekCurve::Table { points }
        }
        "curve" => SeekCurve::ThreePoint {
            track_us: time("Single cylinder seek time")?,
            average_us: time("Average seek time")?,
            full_us: time("Full strobe seek time")?,
        },
        "constant" => SeekCurve::Constant { us: time("Average seek time")? },
        other => {
            let known = "extracted, hpl, hplplus10, linear, curve or constant";
            return Err(reader.wrong("Seek type", other, known));
        }
    };
    // Keys that the curve does not use.
    reader.ignore(&[
        "Full seek curve",
        "HPL seek equation values",
        "First ten seek times",
        "Single cylinder seek time",
        "Average seek time",
        "Full strobe seek time",
    ]);
    Ok(curve)
}

/// `cylinders, milliseconds` per line, after a line with the number of lines.
fn points(file: &Path) -> Result<Vec<(u32, f64)>, ImportError> {
    let text = language::load(file)?;
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (number == 0 && line.contains(':')) {
            continue;
        }
        let wrong = || {
            let place = Place { file: file.to_owned(), line: number + 1 };
            ImportError::new(&place, &format!("\"{line}\""), "cylinders, milliseconds")
        };
        let (distance, time) = line.split_once(',').ok_or_else(wrong)?;
        let distance = distance.trim().parse().map_err(|_| wrong())?;
        let time: f64 = time.trim().parse().map_err(|_| wrong())?;
        if !time.is_finite() {
            return Err(wrong());
        }
        points.push((distance, micros(time)));
    }
    Ok(points)
}

fn zones(layout: &Block, left_out: &mut Vec<String>) -> Result<(LayoutSpec, Vec<Zone>), ImportError> {
    if layout.kind != "dm_layout_g1" {
        return Err(ImportError::new(&layout.place, &layout.kind, "dm_layout_g1"));
    }
    let reader = Reader::new(layout);
    let mapping = match reader.whole("LBN-to-PBN mapping scheme")? {
        0 => Mapping::Cylinder,
        1 => Mapping::SerpentineZone,
        2 => Mapping::Serpentine,
        other => return Err(reader.wrong("LBN-to-PBN mapping scheme", &other.to_string(), "0, 1 or 2")),
    };
    let sparing = match reader.whole("Sparing scheme used")? {
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
    let range_cylinders = reader.whole("Rangesize for sparing")?.max(1);
    let zones = reader.blocks("Zones")?;
    let zones = zones.into_iter().map(|zone| one_zone(zone, left_out)).collect::<Result<_, _>>()?;
    reader.left_out(left_out);
    Ok((LayoutSpec { mapping, sparing, range_cylinders, ..LayoutSpec::default() }, zones))
}

fn one_zone(zone: &Block, left_out: &mut Vec<String>) -> Result<Zone, ImportError> {
    let reader = Reader::new(zone);
    let (first, last) = (reader.whole("First cylinder number")?, reader.whole("Last cylinder number")?);
    if last < first {
        let found = format!("{last}, after First cylinder number = {first}");
        return Err(reader.wrong("Last cylinder number", &found, "no less than the first"));
    }
    let mut slips = reader.wholes("slips")?;
    slips.sort_unstable();
    let defects = reader.wholes("defects")?;
    if defects.len() % 2 != 0 {
        return Err(reader.wrong("defects", &format!("{} numbers", defects.len()), "pairs: from, to"));
    }
    let taken = Zone {
        first_cylinder: Some(first),
        cylinders: last - first + 1,
        sectors_per_track: reader.some_number("Blocks per track")? as u32,
        track_skew: reader.number_or_zero("Skew for track switch")?,
        cylinder_skew: reader.number_or_zero("Skew for cylinder switch")?,
        range_skew: 0.0,
        offset: reader.number_or_zero("Offset of first block")?,
        front: reader.whole("Empty space at zone front")?,
        spares: reader.whole("Number of spares")?,
        slips,
        remaps: defects.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
    };
    reader.left_out(left_out);
    Ok(taken)
}

fn command(reader: &Reader) -> Result<CommandSpec, ImportError> {
    let scale = reader.number("Time scale for overheads")?.unwrap_or(1.0);
    let time = |key: &str| reader.number_or_zero(key).map(|time| micros(time * scale));
    Ok(CommandSpec {
        each_us: time("Per-request overhead time")?,
        read_hit_after_read_us: time("Read hit over. after read")?,
        read_hit_after_write_us: time("Read hit over. after write")?,
        read_miss_after_read_us: time("Read miss over. after read")?,
        read_miss_after_write_us: time("Read miss over. after write")?,
        write_hit_after_read_us: time("Write hit over. after read")?,
        write_hit_after_write_us: time("Write hit over. after write")?,
        write_miss_after_read_us: time("Write miss over. after read")?,
        write_miss_after_write_us: time("Write miss over. after write")?,
        read_completion_us: time("Read completion overhead")?,
        write_completion_us: time("Write completion overhead")?,
        data_preparation_us: time("Data preparation overhead")?,
        minimum_write_seek_us: micros(reader.number_or_zero("Minimum seek delay")?),
        // DiskSim has none.
        turn_round_us: 0.0,
    })
}

fn interface(reader: &Reader) -> Result<BusSpec, ImportError> {
    let scale = reader.number("Time scale for overheads")?.unwrap_or(1.0);
    let time = |key: &str| reader.number_or_zero(key).map(|time| micros(time * scale));
    let extra = ExtraDisconnect {
        command_us: time("Extradisc command overhead")?,
        disconnect_us: time("Extradisc disconnect overhead")?,
        between_us: micros(reader.number_or_zero("Extradisc inter-disconnect delay")?),
        second_disconnect_us: time("Extradisc 2nd disconnect overhead")?,
        seek_delay_us: time("Extradisc seek delta")?,
    };
    let bulk = micros(reader.number_or_zero("Bulk sector transfer time")?);
    Ok(BusSpec {
        mb_s: None,
        read_sector_us: Some(bulk),
        write_sector_us: Some(bulk),
        hold_read: reader.flag("Hold bus entire read xfer")?,
        never_disconnect: reader.flag("Never disconnect")?,
        first_reselect_us: time("First reselect overhead")?,
        other_reselect_us: time("Other reselect overhead")?,
        read_disconnect_after_read_us: time("Read disconnect afterread")?,
        read_disconnect_after_write_us: time("Read disconnect afterwrite")?,
        write_disconnect_us: time("Write disconnect overhead")?,
        extra_write_disconnect: reader.flag("Extra write disconnect")?.then_some(extra),
    })
}

fn cache(reader: &Reader, left_out: &mut Vec<String>) -> Result<CacheSpec, ImportError> {
    let read_ahead = match reader.whole("Buffer continuous read")? {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 => ReadAhead::Segment,
        4 => ReadAhead::NextTrack,
        other => return Err(reader.wrong("Buffer continuous read", &other.to_string(), "0 to 4")),
    };
    let write_back = match reader.whole("Fast write level")? {
        0 => WriteBack::None,
        // Level 1 differs only with several requests queued.
        1 | 2 => WriteBack::All,
        other => return Err(reader.wrong("Fast write level", &other.to_string(), "0, 1 or 2")),
    };
    let segments = reader.whole("Number of buffer segments")?;
    let write_segments = reader.whole("Maximum number of write segments")?;
    if write_segments > 1 {
        reader.report("Maximum number of write segments", "one write at a time goes to the media", left_out);
    }
    let over_requested = reader.number_or_zero("Read-ahead over requested")?;
    if ![-1.0, 0.0, 1.0].contains(&over_requested) {
        return Err(reader.wrong("Read-ahead over requested", &over_requested.to_string(), "-1, 0 or 1"));
    }
    let mut up_to_two = |key: &str| match reader.whole(key)? {
        2 => {
            reader.report(key, "taken as 1", left_out);
            Ok(true)
        }
        _ => reader.flag(key),
    };
    Ok(CacheSpec {
        enabled: up_to_two("Enable caching in buffer")?,
        segments,
        segment_sectors: reader.whole("Segment size (in blks)")?,
        separate_write_segment: reader.flag("Use separate write segment")?,
        read_ahead,
        read_ahead_sectors: reader.whole("Maximum read-ahead (blks)")?,
        read_ahead_minimum_sectors: reader.whole("Minimum read-ahead (blks)")?,
        read_ahead_over_request: over_requested != 0.0,
        forget_requested: over_requested < 0.0,
        read_ahead_on_hit: reader.flag("Read-ahead on idle hit")?,
        read_on_arrival: reader.flag("Read any free blocks")?,
        zero_latency_read: up_to_two("Immediate buffer read")?,
        zero_latency_write: up_to_two("Immediate buffer write")?,
        read_hits_on_writes: reader.flag("Allow read hits on write data")?,
        write_back,
        combine_writes: reader.flag("Combine seq writes")?,
        stop_in_sector: reader.flag("Stop prefetch in sector")?,
        partial_hit_at_once: reader.flag("Immed transfer partial hit")?,
        almost_hits: reader.flag("Allow almost read hits")?,
        read_water_mark: reader.number_or_zero("High (read) water mark")?,
        water_mark_by_request: reader.flag("Set watermark by reqsize")?,
        ..CacheSpec::default()
    })
}

/// Known keys that are not modelled, reported where they are set.
fn unmodelled(reader: &Reader, left_out: &mut Vec<String>) -> Result<(), ImportError> {
    const UNMODELLED: [(&str, &str); 9] = [
        ("Hold bus entire write xfer", "a write's data come without a pause anyway"),
        ("Allow sneaky full read hits", "a read waits for the head though the cache has it"),
        ("Allow sneaky partial read hits", "a read waits for the head though the cache has its start"),
        ("Allow sneaky intermediate read hits", "a waiting read waits on though the cache has it by now"),
        ("Allow write prebuffering", "a write's data wait for the head"),
        ("Low (write) water mark", "a write's data come as soon as the bus is free"),
        ("Preseeking level", "the head waits for the end of a command"),
        ("Disconnect write if seek", "a seek that has begun ends"),
        ("Constant access time", "access times are computed"),
    ];
    for (key, why) in UNMODELLED {
        if reader.number_or_zero(key)? != 0.0 {
            reader.report(key, why, left_out);
        }
    }
    if reader.number("Max queue length")?.is_some_and(|length| length > 1.0) {
        reader.report("Max queue length", "the queue in front of the drive is an option of a run", left_out);
    }
    // These have no effect, or none for one request at a time.
    reader.ignore(&[
        "Print stats",
        "Avg sectors per cylinder",
        "Calc sector by sector",
        "Read directly to buffer",
        "Write hit stop prefetch",
        "Scheduler",
        "Command overhead",
        "Bus transaction latency",
    ]);
    Ok(())
}

/// Bus times of a block for the disk, in microseconds: to read, to write.
fn bus_times(document: &Document, disk: &Block) -> Result<(f64, f64), ImportError> {
    let is = |instance: &str, block: &str| {
        document.instances.iter().any(|(name, of)| name == instance && of == block)
    };
    let hangs = |bus: &Block| {
        let on = |node: &Node| {
            is(&node.name, &bus.name) && node.below.iter().any(|below| is(&below.name, &disk.name))
        };
        any(&document.topology, &on)
    };
    let mut buses = document.blocks.iter().filter(|block| block.kind == "disksim_bus");
    let Some(bus) = buses.find(|bus| hangs(bus)) else { return Ok((0.0, 0.0)) };
    let reader = Reader::new(bus);
    let time = |key: &str| reader.number_or_zero(key).map(micros);
    Ok((time("Read block transfer time")?, time("Write block transfer time")?))
}

fn any(nodes: &[Node], matches: &dyn Fn(&Node) -> bool) -> bool {
    nodes.iter().any(|node| matches(node) || any(&node.below, matches))
}
