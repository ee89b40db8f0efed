//! Creating a volume, and opening one.
//!
//! Faults: a creation that ends early leaves the mark of that on the device with the map, and is done again.

use seekless_core::runtime;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS};

use super::format::{self, Shape};
use super::{Devices, Kind, session};
use crate::Refused;
use crate::canary::Canary;
use crate::durable::sector::Part;
use crate::durable::session::{FIRST, Number};
use crate::durable::table::{self, Table};
use crate::durable::{Choice, Pair, not_created, region};

/// In a map of copies: a slot without one.
pub const NONE: u32 = u32::MAX;

/// State of a volume, read from its devices.
pub struct Opened {
    pub shape: Shape,
    pub identity: u128,
    /// The slot of each unit; of a kind with copies, the unit of each fast slot, or [`NONE`].
    pub map: Table,
    /// Numbers of the last session on each device.
    pub session: session::LastSession,
}

/// How a volume is opened.
pub struct Opening<'a> {
    pub kind: &'static Kind,
    /// Shape of a new volume, if one may be created.
    pub create: Option<&'a dyn Fn() -> Result<Shape, Refused>>,
    pub timing_only: bool,
}

impl Opening<'_> {
    fn failed(&self, kind: ErrorKind, at: Option<Extent>, why: impl Into<String>) -> IoError {
        IoError::new(kind, self.kind.name, at, why.into())
    }

    /// Reads the volume; devices that have none get a new one, if that may be.
    pub async fn open(&self, devices: &Devices, canary: &Canary) -> Result<Opened, IoError> {
        let kind = self.kind;
        let first = &*devices.first;
        let (both, _) = region::read_damaged(first, Extent::of_pages(0, 2)).await?;
        let copy = |copy: u64| both.cut_sectors(copy * PAGE_SECTORS, PAGE_SECTORS);
        let pair = copy(0).look(|one| {
            let one = (format::super_at(0), one);
            copy(1).look(|other| Pair::of(format::super_part(kind), [one, (format::super_at(1), other)]))
        });
        let which = match (pair.choose(), self.create) {
            // All super pages of a volume hold the same, and the number of a session.
            (Choice::Copy(which) | Choice::Refused(_, Some(which)), _) => which as u64,
            // Or sectors of a creation that did not end, and of this one, could make up a copy that seems whole.
            (Choice::Blank, Some(shape)) => {
                let number = (pair.newest() + 1).max(FIRST);
                return self.new_volume(devices, shape, number).await;
            }
            (Choice::Blank, None) => return Err(not_created(kind.name, format::super_at(0))),
            (Choice::Refused(_, None) | Choice::Neither, _) => {
                let why = "found no super page that is whole, expected one of two";
                return Err(self.failed(ErrorKind::Corrupt, Some(Extent::of_pages(0, 2)), why));
            }
        };
        let (shape, identity) =
            copy(which).look(|bytes| format::decode_super(kind, bytes)).map_err(|found| {
                let why = format!("found {found}, expected one of this version");
                self.failed(ErrorKind::Corrupt, Some(format::super_at(which)), why)
            })?;
        let second = self.check_devices(devices, &shape, identity).await?;
        let session = session::LastSession { first: Number::of_pair(&pair), second };
        if let Some(key) = session.old() {
            let why = format!(
                "{key}: found old contents, from before the last time that the volume was written, expected those that \
                 belong to the other device"
            );
            return Err(self.failed(ErrorKind::Invalid, None, why));
        }
        let map = read_map(kind, first, &shape, shape.map_site(kind, identity), canary).await?;
        Ok(Opened { shape, identity, map, session })
    }

    /// The devices are large enough, and belong together. Returns the number of the last session on the other device.
    async fn check_devices(
        &self,
        devices: &Devices,
        shape: &Shape,
        identity: u128,
    ) -> Result<Number, IoError> {
        let keys = if devices.second.is_some() { ["fast", "over"] } else { ["over", ""] };
        let each = [Some(&devices.first), devices.second.as_ref()];
        for ((key, device), expected) in keys.into_iter().zip(each).zip(shape.least_sectors()) {
            let found = device.map_or(0, |device| device.geometry().sectors);
            if found < expected {
                let why = format!("{key}: found a device of {found} sectors, expected at least {expected}");
                return Err(self.failed(ErrorKind::Invalid, None, why));
            }
        }
        if let (Some(second), Some(label)) = (&devices.second, self.kind.label) {
            let (found, _) = region::read_damaged(&**second, Extent::of_pages(0, 1)).await?;
            if !found.look(|bytes| format::is_label(label, bytes, identity)) {
                let why = "over: found a device without this volume's label, expected the one that was created with the \
                           fast device";
                return Err(self.failed(ErrorKind::Invalid, Some(Extent::of_pages(0, 1)), why));
            }
            return Ok(found.look(|bytes| Number::in_page(Part::of(label, identity), bytes)));
        }
        Ok(Number::of(0, false))
    }

    /// Creates a volume: the label, the map in both copies, and last the super page.
    async fn new_volume(
        &self,
        devices: &Devices,
        shape: &dyn Fn() -> Result<Shape, Refused>,
        number: u64,
    ) -> Result<Opened, IoError> {
        let shape = shape().map_err(|refused| self.failed(ErrorKind::Invalid, None, refused.to_string()))?;
        let identity = {
            let mut rng = runtime::rng(self.kind.identity);
            (u128::from(rng.bits()) << 64 | u128::from(rng.bits())).max(1)
        };
        let how = Hints::default();
        if let (Some(second), Some(label)) = (&devices.second, self.kind.label) {
            let page = Buffer::from_vec(format::encode_label(label, identity, number));
            second.write(Extent::of_pages(0, 1), page, how.clone()).await?;
            second.flush(how.clone()).await?;
        }
        let first = &*devices.first;
        let site = shape.map_site(self.kind, identity);
        let slots = if self.kind.copies {
            vec![NONE; site.entries]
        } else {
            (0..shape.units()).map(|unit| shape.first_slot(unit)).collect()
        };
        // Runs that only measure time never open it again.
        let map = Table::create(first, site, slots, self.timing_only).await?;
        first.flush(how.clone()).await?;
        // The first copy is in place of the mark of an unfinished creation.
        for copy in [1, 0] {
            let page = format::encode_super(self.kind, &shape, identity, copy, number);
            first.write(format::super_at(copy), Buffer::from_vec(page), how.clone()).await?;
            first.flush(how.clone()).await?;
        }
        let session = session::LastSession::of_new(number);
        Ok(Opened { shape, identity, map, session })
    }
}

/// Reads the slots of all units: each is in one of its own. Or the units of all slots with copies.
async fn read_map(
    kind: &Kind,
    device: &dyn BlockDevice,
    shape: &Shape,
    site: table::Site,
    canary: &Canary,
) -> Result<Table, IoError> {
    let map = Table::open(device, site).await?;
    let mut used = vec![false; (shape.fast + shape.slow) as usize];
    let beyond = |unit: &u32| *unit != NONE && *unit >= shape.units();
    if kind.copies
        && let Some(slot) = map.values().iter().position(beyond)
    {
        let why = format!("found a copy of unit {}, expected one of {}", map.values()[slot], shape.units());
        return Err(site.corrupt(slot, why));
    }
    for (unit, slot) in map.values().iter().enumerate().filter(|_| !kind.copies) {
        let Some(free) = used.get_mut(*slot as usize).filter(|used| !**used) else {
            let why = format!("found a unit in slot {slot}, expected a slot of its own");
            return Err(site.corrupt(unit, why));
        };
        *free = true;
    }
    // The map may not be durable, if the process ended before it was flushed: only a durable one frees slots.
    if !canary.is("unflushed opening") {
        device.flush(Hints::default()).await?;
    }
    Ok(map)
}
