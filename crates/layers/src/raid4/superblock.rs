//! The superblock of a member: which array it is of, which member it is, and what the array knew when it was written.
//!
//! One sealed sector, in two copies, each at the beginning of a block; the copies are written in turn. On disk: magic,
//! version (four bytes), member, members with data (two each), unit, features (four each), identity (sixteen), stripes,
//! events, generations, rebuilt groups (eight each), state and member out of service (two each; 65,535 for none),
//! session (eight; 0 before sessions were numbered).
//!
//! Every change of an array's state is an *event*, recorded on all members in service: the newest superblock of any
//! member counts. Fault model: a crash between two members leaves some of them one event behind, and never more.

use seekless_core::{BlockDevice, Buffer, Hints, IoError, Lba, PAGE_BYTES, SECTOR_BYTES};

use super::geometry::{Layout, sectors};
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::is_unfinished;
use crate::durable::sector::{self, Part, Sector};

const MAGIC: [u8; 8] = *b"SKLRAID1";
const VERSION: u32 = 1;
const ROTATES: u32 = 1;
const LOG: u32 = 2;
const NONE: u16 = u16::MAX;

/// What the contents of an array are known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The array is being created.
    Forming,
    /// Nothing is being written.
    Clean,
    /// Rows may be inconsistent.
    Dirty,
}

/// A superblock, without the number of its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Of the array.
    pub identity: u128,
    /// Geometry.
    pub layout: Layout,
    /// Whether the array has a log.
    pub has_log: bool,
    /// State.
    pub state: State,
    /// Number of changes of the array's state.
    pub events: u64,
    /// The member out of service, if any.
    pub out: Option<usize>,
    /// Groups of that member which were rebuilt.
    pub rebuilt: u64,
    /// Generations below this may be in use.
    pub generations: u64,
    /// Number of the last session of an array with a log, which that has too ([`super::head`]); 0 before the first one.
    pub session: u64,
}

fn part() -> Part {
    Part::of(MAGIC, 0)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u32_at(bytes, at) as u16
}

impl Superblock {
    /// Encodes the superblock of a member, for the copy in block `copy`.
    pub fn encode(&self, member: usize, copy: u64) -> Buffer {
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        let features = if self.layout.rotates { ROTATES } else { 0 } | if self.has_log { LOG } else { 0 };
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &(member as u16).to_le_bytes());
        put(&mut bytes, 14, &(self.layout.data as u16).to_le_bytes());
        put(&mut bytes, 16, &(self.layout.unit as u32).to_le_bytes());
        put(&mut bytes, 20, &features.to_le_bytes());
        put(&mut bytes, 24, &self.identity.to_le_bytes());
        let numbers = [self.layout.stripes, self.events, self.generations, self.rebuilt];
        for (number, at) in numbers.iter().zip((40..).step_by(8)) {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        let state = match self.state {
            State::Forming => 0_u16,
            State::Clean => 1,
            State::Dirty => 2,
        };
        put(&mut bytes, 72, &state.to_le_bytes());
        put(&mut bytes, 74, &self.out.map_or(NONE, |out| out as u16).to_le_bytes());
        put(&mut bytes, 76, &self.session.to_le_bytes());
        part().seal(sectors(copy).start, self.events, &mut bytes);
        bytes.resize(PAGE_BYTES as usize, 0);
        Buffer::from_vec(bytes)
    }

    /// Decodes a copy that lies at `at`: its member, and the superblock.
    pub fn decode(at: Lba, bytes: &[u8]) -> Option<(usize, Superblock)> {
        let bytes = bytes.get(..SECTOR_BYTES as usize)?;
        let whole = matches!(part().look(at, bytes), Sector::Whole(_));
        if !whole || !bytes.starts_with(&MAGIC) || u32_at(bytes, 8) != VERSION {
            return None;
        }
        let features = u32_at(bytes, 20);
        let [stripes, events, generations, rebuilt] = [40, 48, 56, 64].map(|at| u64_at(bytes, at));
        let (data, unit) = (usize::from(u16_at(bytes, 14)), u64::from(u32_at(bytes, 16)));
        let layout = Layout { data, rotates: features & ROTATES != 0, unit, stripes };
        let state = match u16_at(bytes, 72) {
            0 => State::Forming,
            1 => State::Clean,
            2 => State::Dirty,
            _ => return None,
        };
        let out = Some(u16_at(bytes, 74)).filter(|out| *out != NONE).map(usize::from);
        let (identity, has_log) = (u128_at(bytes, 24), features & LOG != 0);
        let (member, session) = (usize::from(u16_at(bytes, 12)), u64_at(bytes, 76));
        if session >= sector::LAST {
            return None;
        }
        let superblock =
            Superblock { identity, layout, has_log, state, events, out, rebuilt, generations, session };
        Some((member, superblock))
    }

    /// The block of the copy that is written next: the other one than before.
    pub fn copy(&self) -> u64 {
        self.events % 2
    }
}

/// What lies at the beginning of a device.
#[derive(Clone, Debug)]
pub enum Probed {
    /// Zeroes.
    Blank,
    /// The newest superblock there: the member that it is of, and how many events it may have had: one more, if the
    /// other copy is lost. With an error, that cannot be read.
    Member(usize, Superblock, u64, Option<IoError>),
    /// Something else.
    Other,
    /// It cannot be read.
    Unreadable(IoError),
}

/// Reads both copies of a device's superblock.
pub async fn find(device: &dyn BlockDevice) -> Probed {
    let (mut newest, mut blank, mut lost, mut error) = (None::<(usize, Superblock)>, 0, false, None);
    for copy in 0..2 {
        let at = sectors(copy);
        match device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
            Ok(read) => {
                let bytes = read.to_vec();
                let is_blank = bytes.iter().all(|byte| *byte == 0) || is_unfinished(&bytes);
                let found = Superblock::decode(at.start, &bytes);
                blank += usize::from(is_blank);
                lost |= found.is_none() && !is_blank;
                newest = newest.into_iter().chain(found).max_by_key(|(_, found)| found.events);
            }
            Err(failed) => error = Some(failed),
        }
    }
    match (newest, error) {
        (Some((member, superblock)), error) => {
            let events = superblock.events.saturating_add(u64::from(lost || error.is_some()));
            Probed::Member(member, superblock, events, error)
        }
        (None, Some(error)) => Probed::Unreadable(error),
        (None, None) if blank == 2 => Probed::Blank,
        (None, None) => Probed::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A superblock is read as it was written, or not at all where a bit has flipped.
        #[test]
        fn a_superblock_is_read_as_it_was_written(
            identity: u128, member in 0..11_usize, rotates: bool, has_log: bool, state in 0..3_usize,
            events in 1..1_u64 << 61, out in proptest::option::of(0..11_usize), flip in 0..4_096_usize,
        ) {
            let layout = Layout { data: 10, rotates, unit: 256, stripes: events / 3 };
            let state = [State::Forming, State::Clean, State::Dirty][state];
            let (rebuilt, generations, session) = (events / 5, events * 2, events / 7);
            let written =
                Superblock { identity, layout, has_log, state, events, out, rebuilt, generations, session };
            let copy = written.copy();
            let mut bytes = written.encode(member, copy).to_vec();
            prop_assert_eq!(bytes.len(), 4_096);
            let at = sectors(copy).start;
            prop_assert_eq!(Superblock::decode(at, &bytes), Some((member, written)));
            prop_assert_eq!(Superblock::decode(sectors(1 - copy).start, &bytes), None);
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(Superblock::decode(at, &bytes), None);
        }
    }
}
