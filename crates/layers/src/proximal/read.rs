//! Reads: pages of a request by the order of their blocks, through short gaps (section 3.3).

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError, PAGE_SECTORS};

use super::format::{NONE, block_at};
use super::placed::Placed;

use crate::join::join_all;

/// Contiguous pages of a request in contiguous blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Sectors of the request.
    pub at: Extent,
    /// Extent on the data device; `None` if the pages have no blocks.
    pub there: Option<Extent>,
}

impl Placed {
    /// Divides an extent of an epoch by where its pages are.
    pub(super) fn parts(&self, at: Extent, epoch: u32) -> Vec<Part> {
        let state = self.state.borrow();
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        for at in at.split(PAGE_SECTORS) {
            let block = state.block_in(at.start.page(), epoch);
            let start = (block != NONE).then(|| block_at(u64::from(block)) + at.start.0 % PAGE_SECTORS);
            let there = start.map(|start| Extent { start, ..at });
            match parts.last_mut() {
                Some(Part { at: last, there: None }) if there.is_none() => last.sectors += at.sectors,
                Some(Part { at: last, there: Some(before) })
                    if there.is_some_and(|there| there.start == before.end()) =>
                {
                    last.sectors += at.sectors;
                    before.sectors += at.sectors;
                }
                _ => parts.push(Part { at, there }),
            }
        }
        parts
    }

    /// Reads an extent whose pages are locked: its parts in the order of their blocks, through short gaps.
    pub(super) async fn read_parts(
        &self,
        at: Extent,
        epoch: u32,
        into: &Buffer,
        how: &Hints,
    ) -> Result<(), IoError> {
        let piece = |part: &Part| into.cut_sectors(part.at.start.0 - at.start.0, part.at.sectors);
        let (mut placed, blank): (Vec<Part>, Vec<Part>) =
            self.parts(at, epoch).into_iter().partition(|part| part.there.is_some());
        for part in &blank {
            edge("a page that has no block");
            let piece = piece(part);
            if !piece.is_hollow() {
                piece.put(0, &vec![0; piece.len()]);
            }
        }
        if let [one] = &placed[..] {
            let Some(there) = one.there else { return Ok(()) };
            return self.data.read(there, piece(one), how.clone()).await.map(drop);
        }
        placed.sort_unstable_by_key(|part| part.there.map(|there| there.start));
        let reads = self.groups(&placed).into_iter().map(async |(whole, parts): (Extent, Vec<Part>)| {
            if let [one] = &parts[..] {
                return self.data.read(whole, piece(one), how.clone()).await.map(drop);
            }
            let hollow = self.timing_only || into.is_hollow();
            let all =
                if hollow { Buffer::hollow_sectors(whole.sectors) } else { Buffer::zeroed(whole.bytes()) };
            self.data.read(whole, all.clone(), how.clone()).await?;
            if !hollow {
                for part in &parts {
                    let first = part.there.map_or(0, |there| there.start.0 - whole.start.0);
                    all.cut_sectors(first, part.at.sectors).look(|bytes| piece(part).put(0, bytes));
                }
            }
            Ok(())
        });
        join_all(reads).await.into_iter().collect()
    }

    /// Groups parts, in ascending order, that one request reads: with short gaps between them.
    fn groups(&self, parts: &[Part]) -> Vec<(Extent, Vec<Part>)> {
        let most = self.data.geometry().largest_sectors;
        let mut groups: Vec<(Extent, Vec<Part>)> = Vec::new();
        for part in parts {
            let Some(there) = part.there else { continue };
            match groups.last_mut() {
                Some((whole, parts))
                    if there.start.0 - whole.end().0 <= self.read_gap * PAGE_SECTORS
                        && there.end().0 - whole.start.0 <= most =>
                {
                    if there.start != whole.end() {
                        edge("a read continues through other data");
                    }
                    whole.sectors = there.end().0 - whole.start.0;
                    parts.push(*part);
                }
                _ => groups.push((there, vec![*part])),
            }
        }
        groups
    }
}
