//! A sector of metadata that is not what was written: after a power cut one bit of it is another.
//!
//! Fault model: one sector in a state. What keeps metadata has to tell everything that was durable, or to refuse: it may
//! not tell something else, as if the sector had never been written.

use std::fmt;
use std::str::FromStr;

use seekless_core::runtime::Rng;
use seekless_core::{Buffer, Extent, SECTOR_BYTES};

use super::image::{Content, Image};

/// A bit of a component that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The component's number.
    component: u32,
    sector: u64,
    bit: u64,
}

impl Rot {
    /// One of the metadata that components hold, if they hold any.
    pub fn drawn(images: &[Image], rng: &mut Rng) -> Option<Rot> {
        let all: Vec<(u32, u64)> = (0..)
            .zip(images)
            .flat_map(|(component, image)| {
                image.metadata_sectors().into_iter().map(move |sector| (component, sector))
            })
            .collect();
        let index = rng.below((all.len() as u64).max(1)) as usize;
        let bit = rng.below(8 * SECTOR_BYTES);
        all.get(index).map(|&(component, sector)| Rot { component, sector, bit })
    }

    /// The bit is another from now on. A script may name what is not there.
    pub fn apply(&self, images: &mut [Image]) {
        let Some(image) = images.get_mut(self.component as usize) else { return };
        let buffer = Buffer::zeroed(SECTOR_BYTES);
        image.read(Extent::new(self.sector, 1), &buffer);
        let mut bytes = buffer.to_vec();
        bytes[(self.bit / 8) as usize] ^= 1 << (self.bit % 8);
        image.put(self.sector, &Content::of_buffer(&Buffer::from_vec(bytes)), |_| true);
    }
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.component, self.sector, self.bit)
    }
}

impl FromStr for Rot {
    type Err = ();

    fn from_str(text: &str) -> Result<Rot, ()> {
        let (component, place) = text.split_once(':').ok_or(())?;
        let (sector, bit) = place.split_once('.').ok_or(())?;
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 1 << 48);
        let component = component.parse().map_err(drop)?;
        let (sector, bit) = number(sector).zip(number(bit)).ok_or(())?;
        if bit < 8 * SECTOR_BYTES { Ok(Rot { component, sector, bit }) } else { Err(()) }
    }
}
