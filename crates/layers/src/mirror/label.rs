//! The label of a member: which mirror it is of, which member it is, who is out of service, and where copies may
//! differ.
//!
//! One sealed sector. A member has four of them, each at the beginning of one of its first pages: two slots, used in
//! turn, of two copies each. A label is written to both copies of its slot, so that one rotten sector costs nothing,
//! and the label before it stays until the next one is there.
//!
//! On disk: magic, version (four bytes), member, members, members out of service as bits, state (two each), features
//! (four bytes), identity (sixteen), pages of data, pages of a region, events (eight each), for each of four members
//! the event of its introduction (eight each) and that of its return into service (eight each), the event that all
//! members in service had reached before this one (eight), and a bit for each of 2,816 regions. Programs that do not
//! know the last number leave it zero.
//!
//! Every change is an *event*, recorded on all members in service: the newest label of any member counts. Fault model:
//! a crash between two members leaves some of them one event behind; any one sector rots.

use std::fmt;

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Lba, PAGE_BYTES, SECTOR_BYTES};

use super::options::MOST;
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::is_unfinished;
use crate::durable::sector::{Part, Sector};

const MAGIC: [u8; 8] = *b"SKLMIRR1";
const VERSION: u32 = 1;
/// Pages before the data of a member.
pub const HEAD: u64 = 4;
/// Copies of a slot.
const COPIES: u64 = 2;
/// Words of the bits of regions.
const WORDS: usize = 44;
/// Regions of a mirror at most.
pub const REGIONS: u64 = 64 * WORDS as u64;
const BITS: usize = 136;

/// Regions, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bits([u64; WORDS]);

impl Bits {
    /// None of them.
    pub const NONE: Bits = Bits([0; WORDS]);

    /// The first `regions`.
    pub fn first(regions: u64) -> Bits {
        let mut bits = Bits::NONE;
        (0..regions).for_each(|region| bits.set(region));
        bits
    }

    /// Whether a region is there.
    pub fn has(&self, region: u64) -> bool {
        self.0[(region / 64) as usize] >> (region % 64) & 1 == 1
    }

    /// Adds a region.
    pub fn set(&mut self, region: u64) {
        self.0[(region / 64) as usize] |= 1 << (region % 64);
    }

    /// Removes a region.
    pub fn remove(&mut self, region: u64) {
        self.0[(region / 64) as usize] &= !(1 << (region % 64));
    }

    /// Those that the other lacks.
    pub fn without(mut self, other: &Bits) -> Bits {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    /// Number of them.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Each of them, in ascending order.
    pub fn each(self) -> impl Iterator<Item = u64> {
        (0..REGIONS).filter(move |region| self.has(*region))
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}

/// What a mirror is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being created.
    Forming,
    /// It was created.
    Formed,
}

/// A label, without the number of its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Of the mirror.
    pub identity: u128,
    /// Number of members.
    pub members: usize,
    /// Pages of data.
    pub pages: u64,
    /// Pages of a region.
    pub region: u64,
    /// State.
    pub state: State,
    /// Number of changes.
    pub events: u64,
    /// Members out of service, as bits.
    pub out: u16,
    /// For each member, the event with which its device was introduced: an older device in its place is another one.
    pub joined: [u64; MOST],
    /// For each member, the event with which it came back into service, or with which it left.
    pub served: [u64; MOST],
    /// The event that all members in service had recorded before this one: one that has not is a device from before.
    /// Zero if that is unknown.
    pub reached: u64,
    /// Regions of which copies may differ: they are being written, or a member out of service lacks something of them.
    pub differ: Bits,
}

fn part() -> Part {
    Part::of(MAGIC, 0)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u32_at(bytes, at) as u16
}

impl Label {
    /// Whether a member is out of service.
    pub fn is_out(&self, member: usize) -> bool {
        self.out >> member & 1 == 1
    }

    /// Number of regions.
    pub fn regions(&self) -> u64 {
        self.pages.div_ceil(self.region)
    }

    /// Pages on a member.
    pub fn pages_in_all(&self) -> u64 {
        HEAD + self.pages
    }

    /// Encodes the label of a member, for the sector at `at`.
    pub fn encode(&self, member: usize, at: Lba) -> Buffer {
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        let state = u16::from(self.state == State::Formed);
        let small = [member as u16, self.members as u16, self.out, state];
        for (number, at) in small.iter().zip((12..).step_by(2)) {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        put(&mut bytes, 24, &self.identity.to_le_bytes());
        let sizes = [self.pages, self.region, self.events].into_iter();
        let numbers = sizes.chain(self.joined).chain(self.served).chain([self.reached]);
        for (number, at) in numbers.zip((40..).step_by(8)) {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        for (word, at) in self.differ.0.iter().zip((BITS..).step_by(8)) {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        part().seal(at, self.events, &mut bytes);
        bytes.resize(PAGE_BYTES as usize, 0);
        Buffer::from_vec(bytes)
    }

    /// Decodes what lies at `at`: the member, and its label.
    pub fn decode(at: Lba, bytes: &[u8]) -> Option<(usize, Label)> {
        let bytes = bytes.get(..SECTOR_BYTES as usize)?;
        let whole = matches!(part().look(at, bytes), Sector::Whole(_));
        let known = u32_at(bytes, 8) == VERSION && u32_at(bytes, 20) == 0;
        if !whole || !known || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let [member, members] = [12, 14].map(|at| usize::from(u16_at(bytes, at)));
        let out = u16_at(bytes, 16);
        let state = match u16_at(bytes, 18) {
            0 => State::Forming,
            1 => State::Formed,
            _ => return None,
        };
        let [pages, region, events] = [40, 48, 56].map(|at| u64_at(bytes, at));
        let mut differ = Bits::NONE;
        for (word, at) in differ.0.iter_mut().zip((BITS..).step_by(8)) {
            *word = u64_at(bytes, at);
        }
        let label = Label {
            identity: u128_at(bytes, 24),
            members,
            pages,
            region,
            state,
            events,
            out,
            joined: [64, 72, 80, 88].map(|at| u64_at(bytes, at)),
            served: [96, 104, 112, 120].map(|at| u64_at(bytes, at)),
            reached: u64_at(bytes, 128),
            differ,
        };
        let sized = (1..=1 << 50).contains(&pages) && region > 0 && label.regions() <= REGIONS;
        let fits = (2..=MOST).contains(&members) && member < members && out >> members == 0;
        (sized && fits).then_some((member, label))
    }

    /// The pages of the slot for this label.
    fn slot(&self) -> impl Iterator<Item = Extent> + use<> {
        let first = self.events % 2 * COPIES;
        (first..first + COPIES).map(|page| Extent::of_pages(page, 1))
    }

    /// Writes it to both copies of its slot, and makes it durable.
    pub async fn write(&self, member: usize, device: &dyn BlockDevice, flushes: bool) -> Result<(), IoError> {
        for at in self.slot() {
            device.write(at, self.encode(member, at.start), Hints::default()).await?;
        }
        if flushes { device.flush(Hints::default()).await } else { Ok(()) }
    }
}

/// What lies at the beginning of a device.
#[derive(Clone, Debug)]
pub enum Probed {
    /// Zeroes.
    Blank,
    /// The newest label there: the member that it is of.
    Member(usize, Box<Label>),
    /// Something else.
    Other,
    /// It cannot be read, or what may be the newest label is lost.
    Unreadable(Option<IoError>),
}

/// Reads the labels of a device.
pub async fn find(device: &dyn BlockDevice) -> Probed {
    let (mut newest, mut blank, mut error) = (None::<(usize, Label)>, 0, None);
    let mut lost = false;
    for slot in 0..2 {
        let mut damaged = 0;
        for page in slot * COPIES..(slot + 1) * COPIES {
            let at = Extent::of_pages(page, 1);
            match device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
                Ok(read) => {
                    let bytes = read.to_vec();
                    let is_blank = bytes.iter().all(|byte| *byte == 0) || is_unfinished(&bytes);
                    let found = Label::decode(at.start, &bytes);
                    blank += u64::from(is_blank);
                    damaged += u64::from(!is_blank && found.is_none());
                    newest = newest.into_iter().chain(found).max_by_key(|(_, found)| found.events);
                }
                Err(failed) => {
                    damaged += 1;
                    error = Some(failed);
                }
            }
        }
        lost |= damaged == COPIES;
    }
    match newest {
        Some(_) if lost => Probed::Unreadable(error),
        Some((member, label)) => Probed::Member(member, Box::new(label)),
        None if error.is_some() => Probed::Unreadable(error),
        None if blank == 2 * COPIES => Probed::Blank,
        None => Probed::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A label is read as it was written, or not at all where a bit has flipped.
        #[test]
        fn a_label_is_read_as_it_was_written(
            identity: u128, members in 2..=MOST, member in 0..MOST, formed: bool, out: u16,
            (pages, region) in (1..1_u64 << 40, 1..1_u64 << 40), events in 1..1_u64 << 61,
            numbers: [u64; 9], regions in proptest::collection::vec(0..REGIONS, 0..40), flip in 0..4_096_usize,
        ) {
            let (member, out) = (member % members, out % (1 << members));
            let region = region.max(pages.div_ceil(REGIONS));
            let mut differ = Bits::NONE;
            for region in regions {
                differ.set(region);
            }
            let [a, b, c, d, e, f, g, h, reached] = numbers;
            let state = if formed { State::Formed } else { State::Forming };
            let (joined, served) = ([a, b, c, d], [e, f, g, h]);
            let written =
                Label { identity, members, pages, region, state, events, out, joined, served, reached, differ };
            let at = written.slot().next().unwrap().start;
            let mut bytes = written.encode(member, at).to_vec();
            prop_assert_eq!(bytes.len(), 4_096);
            prop_assert_eq!(Label::decode(at, &bytes), Some((member, written)));
            prop_assert_eq!(Label::decode(at + 8, &bytes), None);
            prop_assert_eq!(differ.count() as usize, differ.each().count());
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(Label::decode(at, &bytes), None);
        }
    }
}
