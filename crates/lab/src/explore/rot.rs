//! A rotten sector: after a power cut one of its bits is flipped, or all of them are zero, as in a sector that a drive
//! replaced, or that was discarded. Of metadata; and of data, if all layers compare what they read with a checksum.
//!
//! Fault model: one sector in a state. A layer has to return everything that was durable, or to refuse: it may not
//! return something else, as if the sector had never been written.

use std::fmt;
use std::str::FromStr;

use seekless_core::runtime::Rng;
use seekless_core::{Buffer, Extent, SECTOR_BYTES};
use seekless_volume::description::{Description, Layer};

use super::image::{Content, Image};
use super::log::Log;
use super::named::Known;
use super::power::Crash;
use super::{Explorer, Finding};

/// Writes before the power cut whose sectors rot more often than others: a restart depends on them most.
const RECENT: usize = 16;

/// Bytes other than zero at the end of a sector that rot more often than others.
const LAST: usize = 16;

/// Of a hundred rotten sectors, those that become zeroes.
const ZEROED: u64 = 25;

/// A rotten sector of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// Number of the component.
    component: u32,
    sector: u64,
    change: Change,
}

/// What becomes of a rotten sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// This bit is flipped.
    Bit(u64),
    /// All of it is zeroes.
    Zeroes,
}

/// A sector of zeroes, in scripts.
const ZEROES: &str = "zeroes";

/// Which sectors rot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rots {
    /// None: nothing distinguishes a rotten sector from a torn one.
    Nothing,
    /// Metadata.
    Metadata,
    /// Data too: all layers compare it with checksums.
    Data,
}

impl Rots {
    /// By the layers of a volume.
    pub fn of(description: &Description) -> Rots {
        let checks_data =
            |layer: &Layer| (layer.entry.checks_data)(&layer.options, &|key| layer.devices.contains_key(key));
        let layers = || description.layers.values();
        match layers().any(|layer| layer.entry.sealed) {
            false => Rots::Nothing,
            true if layers().all(checks_data) => Rots::Data,
            true => Rots::Metadata,
        }
    }
}

impl Rot {
    /// A random sector of the metadata on components, if there is any: as often of the last writes as of all. One in
    /// four becomes zeroes, of the others a bit is flipped. Half of the bits are in bytes other than zero, and half of
    /// these in the last ones of their sector: a checksum may end too early. Every other time it may be of data, if
    /// that rots.
    pub fn drawn(images: &[Image], log: &Log, rots: Rots, rng: &mut Rng) -> Option<Rot> {
        let data = rots == Rots::Data && rng.chance(1, 2);
        let mut some = Vec::new();
        if rng.chance(1, 2) {
            let writes = log.writes.iter().rev().take(RECENT);
            let written = writes.flat_map(|write| {
                (write.at.start.0..write.at.end().0).map(|sector| (write.component, sector))
            });
            some.extend(written.filter(|(component, sector)| {
                let held = Buffer::from_vec(read(&images[*component as usize], *sector));
                Content::of_buffer(&held).iter().any(|held| held.can_rot(data))
            }));
        }
        if some.is_empty() {
            let all = (0..).zip(images).flat_map(|(component, image)| {
                image.used_sectors(data).into_iter().map(move |sector| (component, sector))
            });
            some = all.collect();
        }
        let &(component, sector) = some.get(rng.below((some.len() as u64).max(1)) as usize)?;
        if rng.chance(ZEROED, 100) {
            return Some(Rot { component, sector, change: Change::Zeroes });
        }
        let mut bit = rng.below(8 * SECTOR_BYTES);
        if rng.chance(1, 2) {
            let held = read(&images[component as usize], sector);
            let used: Vec<u64> = (0..).zip(&held).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
            let last = if rng.chance(1, 2) { used.len().saturating_sub(LAST) } else { 0 };
            let at = used.get(last + rng.below(((used.len() - last) as u64).max(1)) as usize);
            bit = at.map_or(bit, |at| 8 * at + bit % 8);
        }
        Some(Rot { component, sector, change: Change::Bit(bit) })
    }

    /// Changes the sector. A script may name one that does not exist.
    pub fn apply(&self, images: &mut [Image]) {
        let Some(image) = images.get_mut(self.component as usize) else { return };
        let mut bytes = read(image, self.sector);
        match self.change {
            Change::Bit(bit) => bytes[(bit / 8) as usize] ^= 1 << (bit % 8),
            Change::Zeroes => bytes.fill(0),
        }
        image.put(self.sector, &Content::of_buffer(&Buffer::from_vec(bytes)), |_| true);
    }
}

fn read(image: &Image, sector: u64) -> Vec<u8> {
    let buffer = Buffer::zeroed(SECTOR_BYTES);
    image.read(Extent::new(sector, 1), &buffer);
    buffer.to_vec()
}

impl Explorer<'_> {
    /// Checks a state once more, with a rotten sector.
    pub(super) fn rotten(
        &mut self,
        log: &Log,
        crash: &Crash,
        mut images: Vec<Image>,
        registers: &Known,
    ) -> Result<(), Finding> {
        let Some(rot) = Rot::drawn(&images, log, self.rots, &mut self.rng) else { return Ok(()) };
        rot.apply(&mut images);
        let judged = self.judge.judge_rotten(&self.opener, &images, registers);
        let refused = judged.map_err(|failure| {
            let crash = Crash { rot: Some(rot), ..crash.clone() };
            self.finding(&failure, Some(crash))
        })?;
        self.tally.rotten.0 += 1;
        self.tally.rotten.1 += u64::from(refused);
        Ok(())
    }
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.", self.component, self.sector)?;
        match self.change {
            Change::Bit(bit) => write!(f, "{bit}"),
            Change::Zeroes => f.write_str(ZEROES),
        }
    }
}

impl FromStr for Rot {
    type Err = ();

    fn from_str(text: &str) -> Result<Rot, ()> {
        let (component, place) = text.split_once(':').ok_or(())?;
        let (sector, change) = place.split_once('.').ok_or(())?;
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 1 << 48);
        let component = component.parse().map_err(drop)?;
        let sector = number(sector).ok_or(())?;
        let change = match change {
            ZEROES => Change::Zeroes,
            bit => Change::Bit(number(bit).filter(|bit| *bit < 8 * SECTOR_BYTES).ok_or(())?),
        };
        Ok(Rot { component, sector, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rots(layer: &str) -> Rots {
        let top = if layer.is_empty() { "disk" } else { "it" };
        let text = format!(
            "[component.disk]\ndrive = \"wd2500aaks\"\n[component.other]\ndrive = \"wd2500aaks\"\n{layer}\n\
             [[export]]\ntop = \"{top}\"\n"
        );
        Rots::of(&seekless_volume::file::parse("v.toml", &text).unwrap())
    }

    #[test]
    fn data_rots_only_where_all_layers_compare_it() {
        assert_eq!(rots(""), Rots::Nothing, "a drive alone");
        let over = |rest: &str| rots(&format!("[layer.it]\nover = \"disk\"\n{rest}"));
        assert_eq!(over("is = \"lld\"\nsize = \"1GiB\""), Rots::Data);
        assert_eq!(over("is = \"lld\"\nsize = \"1GiB\"\ncleaner = \"freeblock\""), Rots::Metadata);
        assert_eq!(over("is = \"mapper\"\nsize = \"1GiB\""), Rots::Metadata);
        assert_eq!(over("is = \"borg\"\nbopt = \"other\""), Rots::Metadata);
    }
}
