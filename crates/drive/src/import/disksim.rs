//! Conversion of DiskSim's blocks into a description: `disksim_disk` (controller and cache), `dm_disk` (`dm_mech_g1`,
//! `dm_layout_g1`), and the `disksim_bus` that the disk is attached to.
//!
//! Units: DiskSim's milliseconds become microseconds; its blocks are sectors of 512 bytes.

use std::collections::BTreeMap;
use std::path::Path;

use super::curve::{self, micros};
use super::language::{self, Block, Document, Node, Place};
use super::reader::Reader;
use super::zones::{self, Laid};
use super::{ImportError, Imported, index, map};
use crate::spec::{
    BusSpec, CacheSpec, CommandSpec, ExtraDisconnect, FIGURES, QueueSpec, ReadAhead, Spec, WriteBack, Zone,
};

/// The drive described by these files.
pub fn import(path: &Path, name: &str) -> Result<Imported, ImportError> {
    let document = language::read(path)?;
    let mut left_out = Vec::new();
    let disk = document.disk();
    let model = document.blocks.iter().find(|block| block.kind == "dm_disk");
    let (model, command, mut bus, cache) = match (disk, model) {
        (Some(disk), _) => {
            let reader = Reader::new(disk);
            let model = reader.block("Model")?;
            let bus = interface(&reader)?;
            let parts = (model, command(&reader)?, bus, cache(&reader, &bus, &mut left_out)?);
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
    let (spec, places) = drive(model, name, language::folder(path), &(command, bus, cache), &mut left_out)?;
    if let Some((key, found, expected)) = crate::spec::fault(&spec) {
        let place = match key.as_str() {
            key if key.starts_with("command") || key.starts_with("bus") || key.starts_with("cache") => {
                disk.map_or(&model.place, |disk| &disk.place)
            }
            key => place_of(key, &places).unwrap_or(&model.place),
        };
        return Err(ImportError::new(place, &format!("{key}: {found}"), &expected));
    }
    Ok(Imported { spec, left_out })
}

/// The place of a key, as a check names it: that of the longest key that begins it.
fn place_of<'a>(key: &str, places: &'a [(String, Place)]) -> Option<&'a Place> {
    let begins = places.iter().filter(|(begin, _)| key.starts_with(begin.as_str()));
    begins.max_by_key(|(begin, _)| begin.len()).map(|(_, place)| place)
}

type Parts = (CommandSpec, BusSpec, CacheSpec);
type Places = Vec<(String, Place)>;

/// The drive of a model, and where its values are.
fn drive(
    model: &Block,
    name: &str,
    root: &Path,
    parts: &Parts,
    left_out: &mut Vec<String>,
) -> Result<(Spec, Places), ImportError> {
    let reader = Reader::new(model);
    let mechanics = reader.block("Mechanical Model")?;
    let layout = reader.block("Layout Model")?;
    let heads = reader.whole("Number of data surfaces")?;
    if heads == 0 {
        return Err(reader.wrong("Number of data surfaces", "none", "1 or more"));
    }
    // The zones are more precise; the block count is the host's view, or not even that.
    reader.ignore(&["Block count", "Number of cylinders"]);
    let Laid { layout, zones: zone, mut places, most } = match layout.kind.as_str() {
        "dm_layout_g1" => zones::zones(layout, heads, left_out)?,
        "dm_layout_g2" => map::mapped(layout, heads, root, left_out)?,
        "dm_layout_g4" => index::indexed(layout, heads, reader.number("Block count")?, left_out)?,
        other => return Err(ImportError::new(&layout.place, other, "dm_layout_g1, g2 or g4")),
    };
    let cylinders = zone.last().map_or(1, |zone: &Zone| zone.first_cylinder.unwrap_or(0) + zone.cylinders);
    let moving = Reader::new(mechanics);
    if mechanics.kind != "dm_mech_g1" {
        return Err(ImportError::new(&mechanics.place, &mechanics.kind, "dm_mech_g1"));
    }
    let (seek, curve) = curve::seek(&moving, root, cylinders, left_out)?;
    places.extend([
        ("seek".to_owned(), curve),
        ("rpm".to_owned(), moving.place("Rotation speed (in rpms)")),
        ("head_switch_us".to_owned(), moving.place("Head switch time")),
        ("write_settle_us".to_owned(), moving.place("Add. write settling delay")),
        ("heads".to_owned(), reader.place("Number of data surfaces")),
    ]);
    access(&moving, left_out)?;
    let (command, bus, cache) = *parts;
    let mut spec = Spec {
        name: name.to_owned(),
        title: model.name.replace('_', " "),
        identities: Vec::new(),
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
        layout,
        zone,
        source: sources(model),
    };
    moving.left_out(left_out);
    reader.left_out(left_out);
    if small_enough(&spec) {
        spec.sectors = crate::disk::layout::capacity(&spec).min(most.unwrap_or(u64::MAX)).max(1);
    }
    Ok((spec, places))
}

/// Whether a layout can be laid out before it is checked: no list of runs is too long.
fn small_enough(spec: &Spec) -> bool {
    spec.heads <= 64 && spec.zone.iter().all(|zone| zone.cylinders <= 1 << 24 && zone.sectors_per_track > 0)
}

/// How DiskSim computes access times: here, they always are.
fn access(moving: &Reader, left_out: &mut Vec<String>) -> Result<(), ImportError> {
    let key = "Access time type";
    match moving.word(key)?.unwrap_or_default().as_str() {
        "trackSwitchPlusRotation" => {}
        "constant" | "averageRotation" => moving.report(key, "access times are computed", left_out),
        other => {
            let known = "constant, averageRotation or trackSwitchPlusRotation";
            return Err(moving.wrong(key, other, known));
        }
    }
    moving.ignore(&["Constant access time"]);
    if moving.number_or_zero("Percent error in rpms")? != 0.0 {
        moving.report("Percent error in rpms", "the given speed is exact", left_out);
    }
    Ok(())
}

fn sources(model: &Block) -> BTreeMap<String, String> {
    let file =
        model.place.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source = format!("extracted: {file} and the files that belong to it, of DiskSim");
    FIGURES.into_iter().map(|figure| (figure.to_owned(), source.clone())).collect()
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

fn cache(reader: &Reader, bus: &BusSpec, left_out: &mut Vec<String>) -> Result<CacheSpec, ImportError> {
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
    let read_on_arrival = reader.flag("Read any free blocks")?;
    let zero_latency_read = up_to_two("Immediate buffer read")?;
    let in_order_when_held = bus.holds_read() && (read_on_arrival || zero_latency_read);
    let enabled = up_to_two("Enable caching in buffer")?;
    let zero_latency_write = up_to_two("Immediate buffer write")?;
    if in_order_when_held {
        let key = if bus.hold_read { "Hold bus entire read xfer" } else { "Never disconnect" };
        let why = "sectors are read in order while the bus is held, as in DiskSim (in_order_when_held)";
        reader.report(key, why, left_out);
    }
    Ok(CacheSpec {
        enabled,
        segments,
        segment_sectors: reader.whole("Segment size (in blks)")?,
        separate_write_segment: reader.flag("Use separate write segment")?,
        read_ahead,
        read_ahead_sectors: reader.whole("Maximum read-ahead (blks)")?,
        read_ahead_minimum_sectors: reader.whole("Minimum read-ahead (blks)")?,
        read_ahead_over_request: over_requested != 0.0,
        forget_requested: over_requested < 0.0,
        read_ahead_on_hit: reader.flag("Read-ahead on idle hit")?,
        read_on_arrival,
        zero_latency_read,
        in_order_when_held,
        zero_latency_write,
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

impl Document {
    /// The disk: the first one that is used, if any is.
    fn disk(&self) -> Option<&Block> {
        let used = |block: &&Block| self.instances.iter().any(|(_, of)| *of == block.name);
        let disks = || self.blocks.iter().filter(|block| block.kind == "disksim_disk");
        disks().find(used).or_else(|| disks().next())
    }

    /// Whether a part of the topology is an instance of a block.
    fn is(&self, node: &Node, block: &Block) -> bool {
        self.instances.iter().any(|(name, of)| *name == node.name && *of == block.name)
    }
}

/// Times of a sector for the disk, in microseconds, to read and to write: the longest of those of the buses and
/// controllers to which it is attached.
fn bus_times(document: &Document, disk: &Block) -> Result<(f64, f64), ImportError> {
    let (mut read, mut write) = (0.0_f64, 0.0_f64);
    for block in &document.blocks {
        let keys = match block.kind.as_str() {
            "disksim_bus" => ["Read block transfer time", "Write block transfer time"],
            "disksim_ctlr" => ["Bulk sector transfer time"; 2],
            _ => continue,
        };
        let above = |node: &Node| {
            let disk = |below: &Node| document.is(below, disk);
            document.is(node, block) && any(&node.below, &disk)
        };
        // The bus of the disk itself; further up, transfers overlap.
        let bus =
            |node: &Node| document.is(node, block) && node.below.iter().any(|below| document.is(below, disk));
        let counts = match block.kind.as_str() {
            "disksim_bus" => any(&document.topology, &bus),
            _ => any(&document.topology, &above),
        };
        if counts {
            let reader = Reader::new(block);
            let time = |key: &str| reader.number_or_zero(key).map(micros);
            (read, write) = (read.max(time(keys[0])?), write.max(time(keys[1])?));
        }
    }
    Ok((read, write))
}

fn any(nodes: &[Node], matches: &dyn Fn(&Node) -> bool) -> bool {
    nodes.iter().any(|node| matches(node) || any(&node.below, matches))
}
