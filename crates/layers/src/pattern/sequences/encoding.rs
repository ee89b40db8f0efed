//! Sequences as bytes, to be kept over restarts.
//!
//! A header: the number of starts learned, of sequences, and of triggers. Then each sequence: its number, its starts as
//! counted and in all, the number of its last start, the number of its pages; then each page: its address, count and
//! rank. Then each trigger: three pages, and a bit for each sequence. Integers of 64 bits, little-endian, in ascending
//! order of numbers, pages and triggers.
//!
//! Invariant: bytes that are decoded satisfy the invariants of [`Sequences`], or are refused.

use std::collections::BTreeMap;

use super::{Bounds, HALVED_AT, MOST, Page, Programs, Sequence, Sequences};

const HEADER: u64 = 24;
const OF_SEQUENCE: u64 = 40;
const OF_PAGE: u64 = 24;
const OF_TRIGGER: u64 = 32;

/// Integers, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// The next one, if it is below `end`; otherwise what was found.
    fn below(&mut self, end: u64, what: &str) -> Result<u64, String> {
        let Some((first, rest)) = self.0.split_first_chunk::<8>() else {
            return Err(format!("the end of the bytes, expected {what}"));
        };
        self.0 = rest;
        let value = u64::from_le_bytes(*first);
        if value < end { Ok(value) } else { Err(format!("{value}, expected {what} below {end}")) }
    }
}

impl Sequences {
    /// Encodes them; those that were seen longest ago are left out if there are more than `most` bytes.
    pub fn encode(&self, most: u64) -> Vec<u8> {
        let mut named = [0_u64; MOST];
        for programs in self.triggers.values() {
            Programs(*programs).numbers().for_each(|number| named[number] += 1);
        }
        let mut known: Vec<(usize, &Sequence)> =
            self.known.iter().enumerate().filter_map(|(number, of)| Some((number, of.as_ref()?))).collect();
        known.sort_by_key(|(_, of)| std::cmp::Reverse(of.last));
        let mut room = most.saturating_sub(HEADER);
        known.retain(|(number, of)| {
            let bytes = OF_SEQUENCE + OF_PAGE * of.pages.len() as u64 + OF_TRIGGER * named[*number];
            let fits = bytes <= room;
            room = if fits { room - bytes } else { 0 };
            fits
        });
        known.sort_by_key(|(number, _)| *number);
        let kept = known.iter().fold(0, |kept, (number, _)| kept | 1 << number);
        let triggers = self.triggers.iter().map(|(by, named)| (by, named & kept));
        let triggers: BTreeMap<_, _> = triggers.filter(|(_, named)| *named != 0).collect();
        let mut bytes = Vec::new();
        let mut put = |values: &[u64]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        put(&[self.learned, known.len() as u64, triggers.len() as u64]);
        for (number, of) in known {
            let (counted, starts) = (u64::from(of.counted), u64::from(of.starts));
            put(&[number as u64, counted, starts, of.last, of.pages.len() as u64]);
            for (page, Page { count, rank }) in &of.pages {
                put(&[*page, u64::from(*count), u64::from(*rank)]);
            }
        }
        for (by, named) in triggers {
            put(&[by[0], by[1], by[2], named]);
        }
        bytes
    }

    /// Decodes sequences of a volume of `pages` pages. Where `bounds` allow fewer, those that were seen longest ago are
    /// forgotten. Bytes behind them are ignored.
    ///
    /// # Errors
    /// What was found, and expected.
    pub fn decode(bytes: &[u8], bounds: Bounds, pages: u64) -> Result<Sequences, String> {
        let mut from = Reader(bytes);
        let mut sequences = Sequences::new(bounds);
        sequences.learned = from.below(1 << 62, "a number of starts")?;
        let many = from.below(MOST as u64 + 1, "a number of sequences")?;
        // Not more than there are bytes for: nothing is allocated by a number alone.
        let triggers = from.below(bytes.len() as u64 / OF_TRIGGER + 1, "a number of triggers")?;
        for _ in 0..many {
            let after = sequences.known.len() as u64;
            let number = from.below(MOST as u64, "the number of a sequence")?;
            if number < after {
                return Err(format!("sequence {number} behind {after} others, expected ascending numbers"));
            }
            let sequence = sequence(&mut from, sequences.learned, pages)?;
            sequences.known.resize_with(number as usize, || None);
            sequences.known.push(Some(sequence));
            sequences.hold(number as usize);
        }
        for _ in 0..triggers {
            let mut page = || from.below(pages, "a page of a trigger");
            let by = [page()?, page()?, page()?];
            let named = from.below(u64::MAX, "sequences of a trigger")?;
            let known = |number: &usize| sequences.known.get(*number).is_some_and(Option::is_some);
            if named == 0 || !Programs(named).numbers().all(|number| known(&number)) {
                return Err(format!("a trigger of the sequences {named:#x}, expected some that are there"));
            }
            sequences.triggers.insert(by, named);
        }
        sequences.bound(MOST);
        Ok(sequences)
    }
}

/// The next sequence.
fn sequence(from: &mut Reader, learned: u64, volume_pages: u64) -> Result<Sequence, String> {
    let counted = from.below(u64::from(HALVED_AT), "a count of starts")? as u32;
    let starts = from.below(1 << 32, "a number of starts")? as u32;
    let last = from.below(learned + 1, "the number of a start")?;
    let many = from.below(volume_pages + 1, "a number of pages")?;
    let mut sequence = Sequence { counted, starts, last, ..Sequence::default() };
    for _ in 0..many {
        let page = from.below(volume_pages, "a page")?;
        let count = from.below(u64::from(HALVED_AT), "a count of a page")? as u32;
        let rank = from.below(1 << 32, "a rank")? as u32;
        if sequence.pages.last_key_value().is_some_and(|(last, _)| *last >= page) {
            return Err(format!("page {page} behind a later one, expected ascending pages"));
        }
        sequence.pages.insert(page, Page { count, rank });
    }
    Ok(sequence)
}
