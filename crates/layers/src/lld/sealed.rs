//! The checkpoint in the present format: in sealed sectors, in two copies.
//!
//! A copy is a head (magic; incompatible and compatible features; identity, epoch, sequence, sequence of the checkpoint
//! before it, where the log continues, layout; reserve), then the entries of blocks, and from a new sector on those of
//! segments; none crosses a sector boundary. The generation is in the seals; odd generations are in the second copy,
//! and after a stop in the first one too.

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, SECTOR_BYTES, mutant};

use super::checkpoint::{self, Checkpoint, Head, Recovered};
use super::layout::{ENTRIES, Layout, NONE, Slot};
use crate::bytes::{put, u32_at, u64_at, u128_at};
use crate::durable::sector::{self, Part};
use crate::durable::{Choice, CopyState, Pair, region};

pub const MAGIC: &[u8; 8] = b"SKLLLDC2";
const HEAD: usize = 128;

fn part() -> Part {
    Part::of(*MAGIC, 0)
}

/// Bytes of a checkpoint for this many blocks and segments: whole sectors.
pub fn bytes(blocks: u32, segments: u32) -> u64 {
    of_blocks(blocks) + sector::bytes(0, ENTRIES.1 as usize, u64::from(segments))
}

fn of_blocks(blocks: u32) -> u64 {
    sector::bytes(HEAD, ENTRIES.0 as usize, u64::from(blocks))
}

fn places(layout: &Layout) -> (impl Iterator<Item = usize>, impl Iterator<Item = usize>) {
    let first = of_blocks(layout.blocks) as usize;
    let blocks = sector::places(HEAD, ENTRIES.0 as usize).take(layout.blocks as usize);
    let segments = sector::places(0, ENTRIES.1 as usize).map(move |at| first + at);
    (blocks, segments.take(layout.segments as usize))
}

/// Encodes a copy.
pub fn encode(head: &Head, slots: &[Slot], recorded: &[u64], layout: &Layout) -> Buffer {
    let mut bytes = vec![0; layout.checkpoint_bytes() as usize];
    put(&mut bytes, 0, MAGIC);
    put(&mut bytes, 16, &head.features.to_le_bytes());
    put(&mut bytes, 24, &head.identity.to_le_bytes());
    for (number, at) in [head.epoch, head.sequence, head.reached].iter().zip((40..).step_by(8)) {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    let (segment, offset) = head.anchor.unwrap_or((NONE, 0));
    let words = [segment, offset, layout.segment, layout.segments, layout.blocks];
    for (word, at) in words.iter().zip((64..).step_by(4)) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    let (of_blocks, of_segments) = places(layout);
    for (slot, at) in slots.iter().zip(of_blocks) {
        put(&mut bytes, at, &slot.to_le_bytes());
    }
    for (sequence, at) in recorded.iter().zip(of_segments) {
        put(&mut bytes, at, &sequence.to_le_bytes());
    }
    let part = part().rewrite(head.both_written);
    part.seal(layout.copy(head.generation).start, head.generation, &mut bytes);
    Buffer::from_vec(bytes)
}

/// Decodes a whole first sector of this generation; `Err` with what was found and expected.
fn head(bytes: &[u8], generation: u64, layout: &Layout) -> Result<Head, (String, String)> {
    let features = u32_at(bytes, 8);
    if !bytes.starts_with(MAGIC) || features != 0 {
        let found = format!("a checkpoint with features {features:#x}");
        return Err((found, "one with none".to_owned()));
    }
    let word = |index: usize| u32_at(bytes, 64 + 4 * index);
    let number = |index: usize| u64_at(bytes, 40 + 8 * index);
    let head = Head {
        features: u64_at(bytes, 16),
        identity: u128_at(bytes, 24),
        generation,
        epoch: number(0),
        sequence: number(1),
        reached: number(2),
        anchor: Some((word(0), word(1))).filter(|(segment, _)| *segment != NONE),
        both_written: false,
    };
    checkpoint::sensible(head, [word(2), word(3), word(4)], layout)
}

fn corrupt(at: Extent, why: String) -> IoError {
    IoError::new(ErrorKind::Corrupt, "lld", Some(at), why)
}

fn at(layout: &Layout, copy: u64) -> Extent {
    Extent { sectors: layout.checkpoint_bytes() / SECTOR_BYTES, ..layout.copy(copy) }
}

/// Both copies, if one of them has a sealed sector.
pub async fn copies(
    below: &dyn BlockDevice,
    layout: &Layout,
) -> Result<Option<([Buffer; 2], Pair)>, IoError> {
    let ends = layout.copy(1).end().0;
    if ends > below.geometry().sectors {
        return Ok(None);
    }
    let read = async |copy| region::read_damaged(below, at(layout, copy)).await;
    let ((one, error), (other, second)) = (read(0).await?, read(1).await?);
    let bytes = [one, other];
    let mut pair = bytes[0].look(|one| {
        let one = (at(layout, 0), one);
        bytes[1].look(|other| Pair::of(part(), [one, (at(layout, 1), other)]))
    });
    for (copy, bytes) in pair.copies.iter_mut().zip(&bytes) {
        // Left by an upgrade: the other copy holds its contents.
        if bytes.look(|bytes| checkpoint::is_head(&bytes[..SECTOR_BYTES as usize])) {
            *copy = CopyState::Blank;
        }
        if let CopyState::Whole(generation) = copy
            && mutant::is("lld: generations are compared in 8 bits")
        {
            *generation &= 0xff;
        }
    }
    let ours = pair.copies.iter().any(|copy| copy.newest().is_some());
    match error.or(second) {
        // In the first format a copy that cannot be read is not told from a torn one, which is dropped.
        Some(error) if !ours => Err(error),
        _ => Ok(ours.then_some((bytes, pair))),
    }
}

/// The current checkpoint. With `older`, one that is refused is replaced by the one before.
pub fn choose(bytes: &[Buffer; 2], pair: &Pair, layout: &Layout, older: bool) -> Result<Recovered, IoError> {
    let neither =
        |at: Extent| corrupt(at, "found no checkpoint that is whole, expected one of two".to_owned());
    let which = match pair.choose() {
        Choice::Blank => return Ok(Recovered { newest: pair.newest(), ..Recovered::default() }),
        Choice::Copy(which) => which,
        Choice::Refused(_, Some(which)) if older => which,
        Choice::Refused(sector, Some(which)) => {
            let generation = pair.copies[which].newest().unwrap_or(0);
            let why = format!(
                "found a sector of the checkpoint that is not as it was written, expected it whole: what was flushed \
                 after generation {generation} may be lost; `older = true` opens that one, read-only"
            );
            return Err(corrupt(Extent::new(sector.0, 1), why));
        }
        Choice::Refused(sector, None) => return Err(neither(Extent::new(sector.0, 1))),
        Choice::Neither => return Err(neither(Extent::new(0, layout.copy(1).end().0))),
    };
    let checkpoint_of = |copy: usize, generation| {
        let found = bytes[copy].look(|bytes| head(bytes, generation, layout));
        let first = Extent { sectors: 1, ..layout.copy(copy as u64) };
        found.map_err(|(found, expected)| corrupt(first, format!("found {found}, expected {expected}")))
    };
    // The next one has a higher generation than any sector, and goes to the other copy.
    let newest = pair.newest();
    let counted = newest + u64::from((newest + 1) % 2 == which as u64);
    let found = Head { both_written: pair.is_written, ..checkpoint_of(which, counted)? };
    let checkpoint = bytes[which].look(|bytes| decode(found, bytes, layout));
    let checkpoint = checkpoint.ok_or_else(|| neither(at(layout, which as u64)))?;
    let torn = match pair.copies[1 - which] {
        CopyState::Torn(newest) => {
            edge("a torn checkpoint: the one before counts");
            // Its first sector may be of any write.
            checkpoint_of(1 - which, newest).ok()
        }
        _ => None,
    };
    Ok(Recovered { checkpoint: Some(checkpoint), torn, newest })
}

fn decode(head: Head, bytes: &[u8], layout: &Layout) -> Option<Checkpoint> {
    let (of_blocks, of_segments) = places(layout);
    let slots = of_blocks.map(|at| u32_at(bytes, at)).collect();
    let recorded = of_segments.map(|at| u64_at(bytes, at)).collect();
    checkpoint::checked(head, slots, recorded, layout)
}

/// Writes the checkpoint of this generation to the other copy too.
pub async fn copy(
    below: &dyn BlockDevice,
    layout: &Layout,
    generation: u64,
    how: &Hints,
) -> Result<(), IoError> {
    let from = at(layout, generation);
    let mut bytes = region::read(below, from).await?.to_vec();
    if CopyState::of(part(), from, &bytes) != CopyState::Whole(generation) {
        return Err(corrupt(from, "found the checkpoint changed, expected it as it was written".to_owned()));
    }
    // If it is torn, the one that is copied counts, whatever was there before.
    part().rewrite(true).seal(layout.copy(generation + 1).start, generation, &mut bytes);
    checkpoint::write(below, layout, generation + 1, &Buffer::from_vec(bytes), how).await
}
