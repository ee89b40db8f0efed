//! Parts of requests: which sectors go to the origin, which to the BOPT.

use seekless_core::{Buffer, Extent, Lba, PAGE_SECTORS};

use super::store::Appended;

/// Destination of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Origin,
    Bopt,
}

/// Part of a request: contiguous sectors at their destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub side: Side,
    /// Extent at the destination.
    pub at: Extent,
    /// Offset in the request, in sectors.
    pub from: u64,
}

/// Part of a write.
pub(super) enum Piece {
    /// Sectors written in place.
    Placed { side: Side, at: Extent, data: Buffer },
    /// Pages appended to the log.
    Appended(Appended),
}

impl Piece {
    /// Pages that go to the BOPT, and whether they are absorbed.
    pub fn in_bopt(&self) -> Option<(u64, bool)> {
        match self {
            Piece::Placed { side: Side::Origin, .. } => None,
            Piece::Placed { at, .. } => Some((at.page_count(), false)),
            Piece::Appended(appended) => Some((appended.at.page_count(), true)),
        }
    }
}

/// Adds a piece, joined with the last one if it follows that.
pub(super) fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (Some(Piece::Placed { side, at, data }), Piece::Placed { side: same, at: next, data: more })
            if *side == same && at.end() == next.start =>
        {
            at.sectors += next.sectors;
            *data = Buffer::join([data.clone(), more]);
        }
        (Some(Piece::Appended(last)), Piece::Appended(next)) if last.is_followed_by(&next) => last.join(next),
        (_, piece) => pieces.push(piece),
    }
}

/// Splits `at` at page boundaries by destination (`None`: the origin), and joins pages that stay contiguous.
pub(super) fn split_by(at: Extent, mut bopt_page: impl FnMut(u64) -> Option<u64>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::with_capacity(1);
    for part in at.split(PAGE_SECTORS) {
        let (side, start) = match bopt_page(part.start.page()) {
            Some(copy) => (Side::Bopt, Lba(copy * PAGE_SECTORS + part.start.0 % PAGE_SECTORS)),
            None => (Side::Origin, part.start),
        };
        match parts.last_mut() {
            Some(last) if last.side == side && last.at.end() == start => last.at.sectors += part.sectors,
            _ => parts.push(Part { side, at: Extent { start, ..part }, from: part.start.0 - at.start.0 }),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_split_at_page_boundaries_and_join_when_contiguous() {
        // Pages 1 and 2 are copied to 101 and 102, page 4 to 50; the request is 4 sectors of page 0 to 2 of page 4.
        let copies = |page| match page {
            1 => Some(101),
            2 => Some(102),
            4 => Some(50),
            _ => None,
        };
        let parts = split_by(Extent::new(4, 30), copies);
        let found: Vec<_> = parts.iter().map(|p| (p.side, p.at.start.0, p.at.sectors, p.from)).collect();
        let expected = [
            (Side::Origin, 4, 4, 0),
            (Side::Bopt, 808, 16, 4),
            (Side::Origin, 24, 8, 20),
            (Side::Bopt, 400, 2, 28),
        ];
        assert_eq!(found, expected);
    }
}
