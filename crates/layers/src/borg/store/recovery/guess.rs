//! A super page of a BOPT that has none left: its identity and session, from the headers of batches.
//!
//! Fault model: headers of an earlier BOPT in the same area may be left. Only those of the BOPT whose map pages are
//! there count.

use std::collections::BTreeMap;

use seekless_core::{BlockDevice, ErrorKind, Extent, IoError};

use super::super::format::{Anchor, BatchHeader, NONE, PAGE, Super, sealed};
use super::super::layout::Layout;
use super::{all_maps, error};
use crate::durable::{CopyState, region};

/// The super page as far as the headers of batches tell.
pub async fn super_page(bopt: &dyn BlockDevice, blank: &Super) -> Result<Super, IoError> {
    let layout = blank.layout;
    let sessions = last_sessions(bopt, layout).await?;
    let (maps, _) = region::read_damaged(bopt, all_maps(layout)).await?;
    let only = sessions.len() == 1;
    // Map pages that are whole and those of this BOPT.
    let whole = |identity: u128| {
        maps.look(|bytes| {
            let pages = bytes.chunks_exact(PAGE).zip(layout.map_page(0, 0)..);
            let of = |(page, at)| sealed::map_copy_state(at, identity, page);
            pages.map(of).filter(|state| matches!(state, CopyState::Whole(_))).count()
        })
    };
    let no_maps = maps.look(|bytes| bytes.iter().all(|byte| *byte == 0));
    let counted = sessions.into_iter().map(|(identity, session)| (whole(identity), session, identity));
    let Some((_, session, identity)) = counted.max().filter(|(maps, ..)| *maps > 0 || no_maps && only) else {
        let why = "found neither a super page nor a batch of a BOPT whose map pages are here, expected one of them: \
                   nothing tells to which BOPT the rest belongs";
        return Err(error(ErrorKind::Corrupt, Extent::of_pages(0, 2), why.to_owned()));
    };
    let anchor = Anchor { segment: NONE, offset: 0, sequence: 1 };
    Ok(Super { generation: 1, identity, sessions: session, anchor, firsts: true, ..blank.clone() })
}

/// The last session by identity that headers of batches in the log name, current or not.
pub async fn last_sessions(bopt: &dyn BlockDevice, layout: Layout) -> Result<BTreeMap<u128, u64>, IoError> {
    let mut sessions: BTreeMap<u128, u64> = BTreeMap::new();
    for segment in layout.read_cache..layout.segments() {
        let first = layout.page(layout.slots_of(segment).start);
        let at = Extent::of_pages(first, u64::from(layout.segment));
        let (bytes, _) = region::read_damaged(bopt, at).await?;
        bytes.look(|bytes| {
            for (page, at) in bytes.chunks_exact(PAGE).zip(first..) {
                if let Some((_, identity, session)) = BatchHeader::origin_of(at, page) {
                    let known = sessions.entry(identity).or_default();
                    *known = session.max(*known);
                }
            }
        });
    }
    Ok(sessions)
}
