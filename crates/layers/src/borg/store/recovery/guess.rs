//! A super page of a BOPT that has none left: its identity and session, from the headers of batches.

use seekless_core::{BlockDevice, ErrorKind, Extent, IoError};

use super::super::format::{Anchor, BatchHeader, NONE, PAGE, Super};
use super::error;
use crate::durable::region;

/// The super page as far as the newest header of a batch tells.
pub async fn super_page(bopt: &dyn BlockDevice, blank: &Super) -> Result<Super, IoError> {
    let layout = blank.layout;
    let mut newest: Option<(u64, u64, u128)> = None;
    for segment in layout.read_cache..layout.segments() {
        let first = layout.page(layout.slots_of(segment).start);
        let at = Extent::of_pages(first, u64::from(layout.segment));
        let (bytes, _) = region::read_damaged(bopt, at).await?;
        bytes.look(|bytes| {
            for (page, at) in bytes.chunks_exact(PAGE).zip(first..) {
                if let Some((sequence, identity, session)) = BatchHeader::origin_of(at, page) {
                    newest = newest.max(Some((session, sequence, identity)));
                }
            }
        });
    }
    let Some((session, _, identity)) = newest else {
        let why = "found neither a super page nor a batch that is whole, expected one of them: nothing tells to which \
                   BOPT the rest belongs";
        return Err(error(ErrorKind::Corrupt, Extent::of_pages(0, 2), why.to_owned()));
    };
    let anchor = Anchor { segment: NONE, offset: 0, sequence: 1 };
    Ok(Super { generation: 1, identity, sessions: session, anchor, firsts: true, ..blank.clone() })
}
