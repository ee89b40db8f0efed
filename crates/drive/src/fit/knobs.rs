//! Knobs: the figures of a drive that a fit may change, and their values.

use crate::spec::{ReadAhead, SeekCurve, Spec, WriteBack};

type Get = Box<dyn Fn(&Spec) -> f64>;
type Set = Box<dyn Fn(&mut Spec, f64)>;

/// A figure that a fit may change.
pub struct Knob {
    /// Key.
    pub name: String,
    get: Get,
    set: Set,
    /// Step sizes, coarsest first; for a choice, its values.
    pub turns: Turns,
}

/// How a figure is changed.
#[derive(Clone, Debug)]
pub enum Turns {
    /// By these steps up and down, from the first to the last.
    Steps(Vec<f64>),
    /// To one of these.
    Choices(Vec<f64>),
}

impl Knob {
    fn new(
        name: &str,
        turns: Turns,
        get: impl Fn(&Spec) -> f64 + 'static,
        set: impl Fn(&mut Spec, f64) + 'static,
    ) -> Knob {
        Knob { name: name.to_owned(), get: Box::new(get), set: Box::new(set), turns }
    }

    /// The current value.
    pub fn get(&self, spec: &Spec) -> f64 {
        (self.get)(spec)
    }

    /// Sets the value.
    pub fn set(&self, spec: &mut Spec, value: f64) {
        (self.set)(spec, value);
    }
}

/// A time in microseconds.
macro_rules! time {
    ($($part:ident).+, $least:expr) => {
        Knob::new(
            stringify!($($part).+),
            Turns::Steps(vec![300.0, 100.0, 30.0, 10.0, 3.0]),
            |spec| spec.$($part).+,
            |spec, value| spec.$($part).+ = value.clamp($least, 1e6),
        )
    };
}

/// A flag.
macro_rules! flag {
    ($($part:ident).+) => {
        Knob::new(
            stringify!($($part).+),
            Turns::Choices(vec![0.0, 1.0]),
            |spec| f64::from(u8::from(spec.$($part).+)),
            |spec, value| spec.$($part).+ = value > 0.5,
        )
    };
}

/// A number of sectors or segments.
macro_rules! count {
    ($($part:ident).+, $choices:expr) => {
        Knob::new(
            stringify!($($part).+),
            $choices,
            |spec| f64::from(spec.$($part).+),
            |spec, value| spec.$($part).+ = value.clamp(0.0, 1e6) as u32,
        )
    };
}

const READ_AHEAD: [ReadAhead; 5] =
    [ReadAhead::None, ReadAhead::Track, ReadAhead::Cylinder, ReadAhead::Segment, ReadAhead::NextTrack];
const WRITE_BACK: [WriteBack; 2] = [WriteBack::None, WriteBack::All];

/// All knobs; those on which others depend come first.
pub fn all(spec: &Spec) -> Vec<Knob> {
    let mut knobs = ways();
    knobs.extend(times());
    knobs.extend(bus());
    knobs.extend(seeks(spec));
    knobs.extend(angles(spec));
    knobs
}

/// The cache's policies.
fn ways() -> Vec<Knob> {
    let sizes = || Turns::Steps(vec![256.0, 64.0, 16.0, 4.0]);
    vec![
        Knob::new(
            "cache.read_ahead",
            Turns::Choices(vec![0.0, 1.0, 2.0, 3.0, 4.0]),
            |spec| READ_AHEAD.iter().position(|way| *way == spec.cache.read_ahead).unwrap_or(0) as f64,
            |spec, value| spec.cache.read_ahead = READ_AHEAD[(value as usize).min(4)],
        ),
        Knob::new(
            "cache.write_back",
            Turns::Choices(vec![0.0, 1.0]),
            |spec| WRITE_BACK.iter().position(|way| *way == spec.cache.write_back).unwrap_or(0) as f64,
            |spec, value| spec.cache.write_back = WRITE_BACK[(value as usize).min(1)],
        ),
        flag!(cache.read_on_arrival),
        flag!(cache.read_hits_on_writes),
        flag!(cache.almost_hits),
        flag!(cache.partial_hit_at_once),
        flag!(cache.read_ahead_on_hit),
        flag!(cache.zero_latency_read),
        flag!(cache.in_order_when_held),
        flag!(cache.stop_in_sector),
        flag!(cache.combine_writes),
        flag!(cache.separate_write_segment),
        count!(cache.segments, Turns::Steps(vec![4.0, 2.0, 1.0])),
        count!(cache.segment_sectors, sizes()),
        count!(cache.read_ahead_sectors, sizes()),
        count!(cache.read_ahead_minimum_sectors, sizes()),
    ]
}

fn times() -> Vec<Knob> {
    vec![
        time!(command.read_hit_after_read_us, 0.0),
        time!(command.read_hit_after_write_us, 0.0),
        time!(command.read_miss_after_read_us, 0.0),
        time!(command.read_miss_after_write_us, 0.0),
        time!(command.write_hit_after_read_us, 0.0),
        time!(command.write_hit_after_write_us, 0.0),
        time!(command.write_miss_after_read_us, 0.0),
        time!(command.write_miss_after_write_us, 0.0),
        time!(command.read_completion_us, 0.0),
        time!(command.write_completion_us, 0.0),
        time!(command.minimum_write_seek_us, 0.0),
        time!(head_switch_us, 0.0),
        time!(write_settle_us, -1e6),
    ]
}

fn bus() -> Vec<Knob> {
    let steps = || Turns::Steps(vec![10.0, 3.0, 1.0, 0.3, 0.1]);
    let of = |value: f64| Some(value.clamp(0.0, 1e6));
    vec![
        Knob::new(
            "bus.read_sector_us",
            steps(),
            |spec| spec.bus_sector_us().0,
            move |spec, value| {
                let write = spec.bus_sector_us().1;
                (spec.bus.mb_s, spec.bus.read_sector_us, spec.bus.write_sector_us) =
                    (None, of(value), Some(write));
            },
        ),
        Knob::new(
            "bus.write_sector_us",
            steps(),
            |spec| spec.bus_sector_us().1,
            move |spec, value| {
                let read = spec.bus_sector_us().0;
                (spec.bus.mb_s, spec.bus.read_sector_us, spec.bus.write_sector_us) =
                    (None, Some(read), of(value));
            },
        ),
    ]
}

/// Seek times around a distance: a hat function over the curve, zero at the neighbouring knots.
fn seeks(spec: &Spec) -> Vec<Knob> {
    let farthest = spec.cylinders().max(2) - 1;
    let mut knots: Vec<u64> = Vec::new();
    let mut distance = 1.0_f64;
    while (distance as u64) < farthest {
        if knots.last() != Some(&(distance as u64)) {
            knots.push(distance as u64);
        }
        distance = (distance * 1.6).max(distance + 1.0).min(distance + farthest as f64 / 10.0);
    }
    knots.push(farthest);
    let knob = |place: usize| {
        let here = knots[place];
        let before = place.checked_sub(1).map_or(0, |before| knots[before]);
        let behind = knots.get(place + 1).copied().unwrap_or(farthest + 1);
        let sum = move |spec: &Spec| match &spec.seek {
            SeekCurve::Table { points } => crate::disk::seek::at(points, here),
            _ => 0.0,
        };
        let turn = move |spec: &mut Spec, value: f64| {
            let more = value - sum(spec);
            let SeekCurve::Table { points } = &mut spec.seek else { return };
            for (distance, time) in points.iter_mut() {
                let distance = u64::from(*distance);
                let part = if distance <= here {
                    distance.saturating_sub(before) as f64 / (here - before) as f64
                } else {
                    behind.saturating_sub(distance) as f64 / (behind - here) as f64
                };
                *time = (*time + part * more).max(0.0);
            }
        };
        let turns = Turns::Steps(vec![800.0, 400.0, 200.0, 100.0, 50.0, 20.0]);
        Knob::new(&format!("seek at {here}"), turns, sum, turn)
    };
    (0..knots.len()).map(knob).collect()
}

/// Adds points at every knot's distance and between, so that a curve can be changed locally.
pub fn tabulate(spec: &mut Spec) {
    let cylinders = spec.cylinders();
    let table = crate::disk::seek::tabulate(&spec.seek, cylinders);
    let mut distances: Vec<u64> = match &spec.seek {
        SeekCurve::Table { points } => points.iter().map(|&(distance, _)| u64::from(distance)).collect(),
        _ => Vec::new(),
    };
    let mut distance = 1.0_f64;
    while (distance as u64) < cylinders.max(2) {
        distances.push(distance as u64);
        distance = (distance * 1.12).max(distance + 1.0).min(distance + cylinders as f64 / 60.0);
    }
    distances.push(cylinders.max(2) - 1);
    distances.sort_unstable();
    distances.dedup();
    let point =
        |distance: u64| table.get(distance as usize).map(|&nanos| (distance as u32, f64::from(nanos) / 1e3));
    spec.seek = SeekCurve::Table { points: distances.into_iter().filter_map(point).collect() };
}

/// Offsets of the zones.
fn angles(spec: &Spec) -> Vec<Knob> {
    let knob = |number: usize| {
        let most = f64::from(spec.zone[number].sectors_per_track);
        Knob::new(
            &format!("zone {}: offset", number + 1),
            Turns::Steps(vec![8.0, 3.0, 1.0, 0.3]),
            move |spec| spec.zone[number].offset,
            move |spec, value| spec.zone[number].offset = (value.rem_euclid(most) * 1e4).round() / 1e4 % most,
        )
    };
    (0..spec.zone.len()).map(knob).collect()
}
