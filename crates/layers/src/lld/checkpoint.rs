//! The checkpoint: the slot of each block, the age of each segment, and where the log continues; and its first on-disk
//! format. A volume with that format keeps it; new ones use [`super::sealed`].
//!
//! On disk it has two copies; odd generations are in the second. A copy begins with a sector: magic, CRC-32C over the
//! sector with this field zero, CRC-32C of the data that follows, format version, incompatible and compatible features,
//! identity, generation, epoch, sequence, sequence of the checkpoint before it, where the log continues (segment, block
//! in it), and the volume's layout. Then follow an entry of four bytes for each block and of eight for each segment.
//!
//! Invariants: a checkpoint is used only if it is whole, and its slots exist and hold one block each. A sector is never
//! torn: a first sector that is neither LLD's nor zeroes is damaged, or foreign.

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, SECTOR_BYTES, checksum, mutant};

use super::layout::{ENTRIES, HEAD, Layout, NONE, Slot};
use super::sealed;
use crate::bytes::{put, sum_but, u32_at, u64_at, u128_at};
use crate::durable::sector::LAST;
use crate::durable::{self, region};

const MAGIC: [u8; 8] = *b"SKLLLDCP";
const VERSION: u32 = 1;
const SUM: usize = 8;

/// A place in the log where the next record will be written: the segment, and the block in it.
pub type Place = (u32, u32);

/// The first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Compatible features; kept.
    pub features: u64,
    /// Identity of the volume.
    pub identity: u128,
    /// Generation.
    pub generation: u64,
    /// Number of sessions that wrote to the volume.
    pub epoch: u64,
    /// The sequence up to which it covers the log.
    pub sequence: u64,
    /// The sequence up to which the previous checkpoint and the log after it are equivalent.
    pub reached: u64,
    /// Where the log continues; `None` if only the next checkpoint will say.
    pub anchor: Option<Place>,
    /// Whether both copies were written before ([`durable::sector::Part::rewrite`]); never in the first format.
    pub both_written: bool,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its first sector.
    pub head: Head,
    /// Slot of each block; `NONE` where it reads as zeroes.
    pub slots: Vec<Slot>,
    /// Sequence of the last write of each segment that did not fail.
    pub recorded: Vec<u64>,
}

/// State of the copies on disk.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The newer whole checkpoint; `None` on a volume of zeroes.
    pub checkpoint: Option<Checkpoint>,
    /// A newer one that is torn.
    pub torn: Option<Head>,
    /// The highest generation in any sealed sector.
    pub newest: u64,
}

impl Recovered {
    /// Whether no checkpoint was ever whole.
    pub fn is_new(&self) -> bool {
        self.checkpoint.is_none() && self.torn.is_none()
    }
}

fn corrupt(at: Extent, found: &str, expected: &str) -> IoError {
    IoError::new(ErrorKind::Corrupt, "lld", Some(at), format!("found {found}, expected {expected}"))
}

/// Encodes the first sector and the entries, padded to whole pages.
pub fn encode(head: &Head, slots: &[Slot], recorded: &[u64], layout: &Layout) -> Buffer {
    if layout.sealed {
        return sealed::encode(head, slots, recorded, layout);
    }
    let mut bytes = vec![0; layout.checkpoint_bytes() as usize];
    let (first, body) = bytes.split_at_mut(HEAD as usize);
    let (for_slots, for_segments) = body.split_at_mut(ENTRIES.0 as usize * slots.len());
    for (slot, entry) in slots.iter().zip(for_slots.chunks_exact_mut(4)) {
        entry.copy_from_slice(&slot.to_le_bytes());
    }
    for (sequence, entry) in recorded.iter().zip(for_segments.chunks_exact_mut(8)) {
        entry.copy_from_slice(&sequence.to_le_bytes());
    }
    put(first, 0, &MAGIC);
    put(first, 12, &checksum::crc32c(body).to_le_bytes());
    put(first, 16, &VERSION.to_le_bytes());
    put(first, 24, &head.features.to_le_bytes());
    put(first, 32, &head.identity.to_le_bytes());
    for (number, at) in
        [head.generation, head.epoch, head.sequence, head.reached].iter().zip((48..).step_by(8))
    {
        put(first, at, &number.to_le_bytes());
    }
    let (segment, offset) = head.anchor.unwrap_or((NONE, 0));
    let words = [segment, offset, layout.segment, layout.segments, layout.blocks];
    for (word, at) in words.iter().zip((80..).step_by(4)) {
        put(first, at, &word.to_le_bytes());
    }
    let sum = sum_but(first, SUM);
    put(first, SUM, &sum.to_le_bytes());
    Buffer::from_vec(bytes)
}

/// Whether a first sector is LLD's, and whole.
pub fn is_head(sector: &[u8]) -> bool {
    sector.starts_with(&MAGIC) && u32_at(sector, SUM) == sum_but(sector, SUM)
}

/// Decodes a first sector; `None` if it is zeroes, or of an interrupted upgrade. `Err` with what was found and
/// expected.
fn head(bytes: &[u8], layout: &Layout) -> Result<Option<Head>, (String, String)> {
    let is_blank = bytes.iter().all(|byte| *byte == 0) || durable::is_unfinished(bytes);
    if is_blank || bytes.starts_with(sealed::MAGIC) {
        return Ok(None);
    }
    if !is_head(bytes) {
        return Err((
            "what is no head of a checkpoint".to_owned(),
            "one that is whole, or zeroes".to_owned(),
        ));
    }
    let (version, features) = (u32_at(bytes, 16), u32_at(bytes, 20));
    if version != VERSION || features != 0 {
        let found = format!("version {version} with features {features:#x}");
        return Err((found, format!("version {VERSION} with none")));
    }
    let word = |index: usize| u32_at(bytes, 80 + 4 * index);
    let number = |index: usize| u64_at(bytes, 48 + 8 * index);
    let head = Head {
        features: u64_at(bytes, 24),
        identity: u128_at(bytes, 32),
        generation: number(0),
        epoch: number(1),
        sequence: number(2),
        reached: number(3),
        anchor: Some((word(0), word(1))).filter(|(segment, _)| *segment != NONE),
        both_written: false,
    };
    sensible(head, [word(2), word(3), word(4)], layout).map(Some)
}

/// Checks the layout of a head against the expected one; `Err` with what was found and expected.
pub fn sensible(head: Head, divided: [u32; 3], layout: &Layout) -> Result<Head, (String, String)> {
    let in_words = |[segment, segments, blocks]: [u32; 3]| {
        format!("{blocks} blocks in {segments} segments of {segment}")
    };
    let (found, expected) = (in_words(divided), in_words([layout.segment, layout.segments, layout.blocks]));
    if found != expected {
        return Err((found, expected));
    }
    if head.anchor.is_some_and(|(segment, offset)| segment >= layout.segments || offset >= layout.segment) {
        return Err((format!("a log that goes on at {:?}", head.anchor), "a place in a segment".to_owned()));
    }
    if [head.generation, head.epoch, head.sequence, head.reached].iter().any(|number| *number >= LAST) {
        return Err(("numbers that nothing counts up to".to_owned(), format!("less than {LAST}")));
    }
    Ok(head)
}

/// The checkpoint in a copy, if it is whole.
fn decode(head: &Head, bytes: &[u8], layout: &Layout) -> Option<Checkpoint> {
    let body = bytes.get(HEAD as usize..)?;
    if u32_at(bytes, 12) != checksum::crc32c(body) {
        return None;
    }
    let (for_slots, for_segments) = body.split_at_checked(ENTRIES.0 as usize * layout.blocks as usize)?;
    let slots: Vec<Slot> = for_slots.chunks_exact(4).map(|entry| u32_at(entry, 0)).collect();
    let entries = for_segments.chunks_exact(8).take(layout.segments as usize);
    let recorded: Vec<u64> = entries.map(|entry| u64_at(entry, 0)).collect();
    checked(*head, slots, recorded, layout)
}

/// A checkpoint, if its slots exist and hold one block each.
pub fn checked(head: Head, slots: Vec<Slot>, recorded: Vec<u64>, layout: &Layout) -> Option<Checkpoint> {
    if recorded.iter().any(|sequence| *sequence > head.sequence) {
        return None;
    }
    let mut used = vec![false; layout.slots() as usize];
    for &slot in slots.iter().filter(|&&slot| slot != NONE) {
        if std::mem::replace(used.get_mut(slot as usize)?, true) {
            return None;
        }
    }
    Some(Checkpoint { head, slots, recorded })
}

/// Reads both copies in the first format.
pub async fn read(below: &dyn BlockDevice, layout: &Layout) -> Result<Recovered, IoError> {
    let mut heads = Vec::new();
    for generation in 0..2 {
        let first = Extent { sectors: 1, ..layout.copy(generation) };
        let bytes = region::read(below, first).await?;
        let found = bytes.look(|bytes| head(bytes, layout));
        heads.extend(found.map_err(|(found, expected)| corrupt(first, &found, &expected))?);
    }
    let narrow = mutant::is("lld: generations are compared in 8 bits");
    let compared = |head: &Head| if narrow { head.generation & 0xff } else { head.generation };
    heads.sort_by_key(|head| std::cmp::Reverse(compared(head)));
    let mut torn = None;
    for head in heads {
        let at = layout.copy(head.generation);
        let at = Extent { sectors: layout.checkpoint_bytes() / SECTOR_BYTES, ..at };
        let bytes = region::read(below, at).await?;
        if let Some(checkpoint) = bytes.look(|bytes| decode(&head, bytes, layout)) {
            return Ok(Recovered { checkpoint: Some(checkpoint), torn, ..Recovered::default() });
        }
        if torn.replace(head).is_some() {
            return Err(corrupt(at, "no checkpoint that is whole", "one of two"));
        }
    }
    if torn.is_none_or(|torn| torn.generation == 1 && torn.reached == 0) {
        // The first checkpoint goes to the second copy: so the first copy was never written.
        let first = layout.copy(0);
        let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0) || durable::is_unfinished(bytes);
        if !region::read(below, first).await?.look(is_blank) {
            return Err(corrupt(first, "neither a checkpoint nor zeroes", "one of them"));
        }
        return Ok(Recovered { torn, ..Recovered::default() });
    }
    Err(corrupt(layout.copy(1), "no checkpoint that is whole", "one of two"))
}

/// Writes an encoded checkpoint to the copy of this generation.
pub async fn write(
    below: &dyn BlockDevice,
    layout: &Layout,
    generation: u64,
    bytes: &Buffer,
    how: &Hints,
) -> Result<(), IoError> {
    let at = Extent { sectors: bytes.len() as u64 / SECTOR_BYTES, ..layout.copy(generation) };
    region::write(below, at, bytes, how).await
}
