//! Which units have copies and where, in memory and on the device.
//!
//! The zone has bands of as many slots each. A unit has one *place*, a number within a band, and its copies are in the
//! slots of that number, one in each band. Invariants: a copy has what the unit's own place has, for reads that hold
//! the unit's lock; a place that is left is not taken while requests use its slots. On the device the map is void, that
//! is, it names no copies, before a write is issued to the units or to the slots; it names copies that were durable
//! before it was written. So a crash leaves a void map, or one from which nothing has changed since.

use std::collections::{BTreeMap, BTreeSet};

use seekless_core::{Buffer, Extent, IoError, mutant};

use crate::durable::table::Table;
use crate::placed::{NONE, Shape, beside};

/// What the map on the device says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDevice {
    Void,
    Names,
    /// A write of it has begun, and has not ended or has failed.
    Unknown,
}

/// See the file's header.
pub struct Copies {
    pub shape: Shape,
    table: Table,
    on_device: OnDevice,
    /// The unit of each place, and the bands in which it has a copy there, as bits.
    units: Vec<u32>,
    bands: Vec<u8>,
    /// The place of a unit.
    places: BTreeMap<u32, u32>,
    free: BTreeSet<u32>,
    /// Slots that could not be written or read. A write that failed may be carried out later: they are not used again.
    avoided: BTreeSet<u32>,
    /// Requests in flight that use the slots of a place.
    users: BTreeMap<u32, u32>,
}

/// Where copies of what a request reads lie, next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first place, and the number of places.
    pub first: u32,
    pub count: u32,
    /// Bands that have all of it, as bits.
    pub bands: u8,
}

impl Copies {
    /// # Errors
    /// A map that names two units in one place, or one in two.
    pub fn new(shape: Shape, table: Table) -> Result<Copies, IoError> {
        let band = shape.band() as usize;
        let mut units = vec![NONE; band];
        let mut bands = vec![0; band];
        let mut places = BTreeMap::new();
        for (slot, unit) in table.values().iter().enumerate().filter(|(_, unit)| **unit != NONE) {
            let place = slot % band;
            let other = std::mem::replace(&mut units[place], *unit);
            let another = places.insert(*unit, place as u32);
            if other != NONE && other != *unit || another.is_some_and(|another| another as usize != place) {
                let why = format!("found unit {unit} in place {place}, expected one place for each unit");
                return Err(table.site().corrupt(slot, why));
            }
            bands[place] |= 1 << (slot / band);
        }
        let free = (0..band as u32).filter(|place| units[*place as usize] == NONE).collect();
        let on_device = if places.is_empty() { OnDevice::Void } else { OnDevice::Names };
        let (avoided, users) = (BTreeSet::new(), BTreeMap::new());
        Ok(Copies { shape, table, on_device, units, bands, places, free, avoided, users })
    }

    /// Whether a unit has copies.
    pub fn has(&self, unit: u32) -> bool {
        self.places.contains_key(&unit)
    }

    /// The slot of a place in a band.
    pub fn slot(&self, band: u32, place: u32) -> u32 {
        band * self.shape.band() + place
    }

    /// Number of free places.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Takes a free place that no request uses, beside a neighbour of the unit if there is one.
    pub fn take(&mut self, unit: u32) -> Option<u32> {
        let of = |unit: Option<u32>| self.places.get(&unit?).copied();
        let (before, behind) = (of(unit.checked_sub(1)), of(unit.checked_add(1)));
        let ignores = mutant::is("replicas: a place that is read is filled anew");
        let is_used = |place: &u32| !ignores && self.users.contains_key(place);
        let place = beside(&self.free, before, behind).filter(|place| !is_used(place));
        let place = place.or_else(|| self.free.iter().copied().find(|place| !is_used(place)))?;
        self.free.remove(&place);
        Some(place)
    }

    /// The bands in which the slot of a place can be used.
    pub fn bands_of(&self, place: u32) -> impl Iterator<Item = u32> {
        (0..self.shape.bands).filter(move |band| !self.avoided.contains(&self.slot(*band, place)))
    }

    /// A unit has copies in these bands.
    pub fn add(&mut self, unit: u32, place: u32, bands: u8) {
        assert!(!self.has(unit), "a unit has one place");
        self.units[place as usize] = unit;
        self.bands[place as usize] = bands;
        self.places.insert(unit, place);
    }

    /// A place that was taken is free again, unless all its slots are avoided.
    pub fn give_back(&mut self, place: u32) {
        if self.bands_of(place).next().is_some() {
            self.free.insert(place);
        }
    }

    /// The copies of a unit count no more; returns whether it had any.
    pub fn remove(&mut self, unit: u32) -> bool {
        let Some(place) = self.places.remove(&unit) else { return false };
        self.units[place as usize] = NONE;
        self.bands[place as usize] = 0;
        self.give_back(place);
        true
    }

    /// No copy counts any more; returns the units that had some.
    pub fn remove_all(&mut self) -> Vec<u32> {
        let units: Vec<u32> = self.places.keys().copied().collect();
        for unit in &units {
            self.remove(*unit);
        }
        units
    }

    /// A slot is used no more, and so is the copy in it. Returns the unit, if that was its last copy.
    pub fn avoid(&mut self, slot: u32) -> Option<u32> {
        let (band, place) = (slot / self.shape.band(), slot % self.shape.band());
        self.avoided.insert(slot);
        let unit = self.units[place as usize];
        self.bands[place as usize] &= !(1 << band);
        (unit != NONE && self.bands[place as usize] == 0 && self.remove(unit)).then_some(unit)
    }

    /// Where the copies of these units lie, if they lie next to each other.
    pub fn run(&self, mut units: impl Iterator<Item = u32>) -> Option<Run> {
        let first = *self.places.get(&units.next()?)?;
        let mut run = Run { first, count: 1, bands: self.bands[first as usize] };
        for unit in units {
            let place = *self.places.get(&unit)?;
            if place != first + run.count {
                return None;
            }
            run.bands &= self.bands[place as usize];
            run.count += 1;
        }
        Some(run)
    }

    /// The slots of the copies of a unit.
    pub fn slots(&self, unit: u32) -> Vec<u32> {
        let Some(place) = self.places.get(&unit).copied() else { return Vec::new() };
        let bands = self.bands[place as usize];
        (0..self.shape.bands)
            .filter(|band| bands & 1 << band != 0)
            .map(|band| self.slot(band, place))
            .collect()
    }

    /// A request uses these places, or does so no more.
    pub fn uses(&mut self, run: Run) {
        for place in run.first..run.first + run.count {
            *self.users.entry(place).or_default() += 1;
        }
    }

    /// See [`Self::uses`].
    pub fn used(&mut self, run: Run) {
        for place in run.first..run.first + run.count {
            let users = self.users.get_mut(&place).expect("a place in use");
            *users -= 1;
            if *users == 0 {
                self.users.remove(&place);
            }
        }
    }

    /// Whether the map on the device names no copies, durably.
    pub fn is_void(&self) -> bool {
        self.on_device == OnDevice::Void
    }

    /// Writes that make the map on the device void; then [`Self::written`].
    pub fn void(&mut self) -> Vec<(Extent, Buffer)> {
        self.change(|_, _| NONE)
    }

    /// Writes that have the map on the device name the copies, which are durable; then [`Self::written`].
    pub fn name(&mut self) -> Vec<(Extent, Buffer)> {
        let band = self.shape.band() as usize;
        self.change(|copies, slot| {
            let place = slot % band;
            if copies.bands[place] & 1 << (slot / band) == 0 { NONE } else { copies.units[place] }
        })
    }

    fn change(&mut self, to: impl Fn(&Copies, usize) -> u32) -> Vec<(Extent, Buffer)> {
        let all = self.on_device == OnDevice::Unknown;
        for slot in 0..self.table.values().len() {
            let unit = to(self, slot);
            if all || self.table.values()[slot] != unit {
                self.table.set(slot as u32, unit);
            }
        }
        let writes = self.table.take_changed();
        if !writes.is_empty() {
            self.on_device = OnDevice::Unknown;
        }
        writes
    }

    /// The writes of the map are durable.
    pub fn written(&mut self) {
        let is_void = self.table.values().iter().all(|unit| *unit == NONE);
        self.on_device = if is_void { OnDevice::Void } else { OnDevice::Names };
    }

    /// Sectors of the map written, of both copies of it.
    pub fn sectors_written(&self) -> u64 {
        self.table.sectors_written()
    }
}
