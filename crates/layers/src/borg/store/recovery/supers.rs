//! The super page: finds the current one and its version.

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, IoError};

use super::super::format::{PAGE, PageState, SUPER_2, Super, old, sealed};
use super::{Extras, check, error, rotten};
use crate::durable::{Choice, CopyState, Pair, region};

/// The newer whole super page; `None` if there never was one.
pub async fn read(
    bopt: &dyn BlockDevice,
    blank: &Super,
    extras: &mut Extras,
) -> Result<Option<Super>, IoError> {
    let both = Extent::of_pages(0, 2);
    let (bytes, unreadable) = region::read_damaged(bopt, both).await?;
    let bytes = bytes.to_vec();
    let pages = [&bytes[..PAGE], &bytes[PAGE..]];
    let copies = sealed::super_pair(pages);
    let mut found = Vec::new();
    for (page, at) in pages.into_iter().zip(0..) {
        found.push(old::decode_super(at, page).map_err(|found| unknown(at, &found))?);
    }
    let is_old = found.iter().any(|found| matches!(found, PageState::Whole(_)));
    let is_sealed = copies.copies.iter().any(|copy| copy.newest().is_some())
        || pages.iter().any(|page| page.starts_with(&SUPER_2));
    // In version 1 a copy that cannot be read is not told from a torn one, which is dropped.
    if let Some(error) = unreadable.filter(|_| is_old && extras.forgiven.is_none()) {
        return Err(error);
    }
    let counts = match (is_sealed, is_old) {
        (true, true) => while_upgrading(&pages, &copies, &found, extras),
        (true, false) => newer_sealed(&pages, &copies, extras),
        (false, _) => newer_old(&found, extras),
    };
    let counts = match counts {
        // What a later version wrote may mean anything.
        Err(later) if later.kind() == ErrorKind::Unsupported => return Err(later),
        Ok(None) | Err(_) if extras.forgiven.is_some() => {
            let lost = counts.err().unwrap_or_else(none_is_whole);
            extras.forgive(lost)?;
            extras.anchor_lost = true;
            Some((super::guess::super_page(bopt, blank).await?, 0))
        }
        counts => counts?,
    };
    extras.supers.newest = copies.newest();
    let Some((mut page, copy)) = counts else { return Ok(None) };
    page.both_written = copies.is_written || extras.supers.twice;
    extras.supers.newest = extras.supers.newest.max(page.generation);
    extras.supers.copy = copy;
    check(&page, blank).map(|()| Some(page))
}

fn unknown(at: u64, found: &str) -> IoError {
    let why =
        format!("found a super page of {found}, expected one that this version knows: update the program");
    error(ErrorKind::Unsupported, Extent::of_pages(at, 1), why)
}

fn decoded(pages: &[&[u8]; 2], copies: &Pair, copy: usize) -> Result<Super, IoError> {
    let generation = copies.copies[copy].newest().unwrap_or(0);
    sealed::decode_super(generation, pages[copy]).map_err(|found| unknown(copy as u64, &found))
}

/// In version 2.
fn newer_sealed(
    pages: &[&[u8]; 2],
    copies: &Pair,
    extras: &mut Extras,
) -> Result<Option<(Super, u64)>, IoError> {
    let mut choice = copies.choose();
    if let Choice::Refused(_, Some(older)) = choice {
        // Left from version 1 by an upgrade.
        if copies.copies[1 - older].newest().is_none() && decoded(pages, copies, older)?.is_upgrading() {
            choice = Choice::Copy(older);
        }
    }
    match choice {
        Choice::Copy(copy) => {
            let page = decoded(pages, copies, copy)?;
            let other = &copies.copies[1 - copy];
            extras.supers.twice = *other == copies.copies[copy];
            if matches!(other, CopyState::Torn(_)) {
                edge("a torn super page: the other counts");
            }
            if matches!(other, CopyState::Rotten(..)) && !page.is_upgrading() {
                let at = 1 - copy as u64;
                let bytes = sealed::for_copy(at, page.generation, page.identity, pages[copy]);
                extras.repaired.push((Extent::of_pages(at, 1), bytes));
                extras.supers.twice = true;
            }
            Ok(Some((page, copy as u64)))
        }
        Choice::Blank => Ok(None),
        Choice::Refused(sector, older) => {
            let error = rotten("the super page", sector, older.map(|older| &copies.copies[older]), "pages");
            let Some(older) = older else { return Err(error) };
            extras.forgive(error)?;
            extras.anchor_lost = true;
            // Of the newest state only what both super pages have in common is known.
            let page = Super { clean: false, ..decoded(pages, copies, older)? };
            Ok(Some((page, older as u64)))
        }
        Choice::Neither => Err(none_is_whole()),
    }
}

/// One copy is of version 1 and whole: an upgrade was interrupted.
fn while_upgrading(
    pages: &[&[u8]; 2],
    copies: &Pair,
    found: &[PageState<Super>],
    extras: &mut Extras,
) -> Result<Option<(Super, u64)>, IoError> {
    for (copy, at) in copies.copies.iter().zip(0..) {
        match copy {
            CopyState::Whole(_) => return decoded(pages, copies, at).map(|page| Some((page, at as u64))),
            CopyState::Rotten(sector, Some(_)) => {
                return Err(rotten("the super page", *sector, None, "what was upgraded"));
            }
            _ => {}
        }
    }
    newer_old(found, extras)
}

/// In version 1, or blank.
fn newer_old(found: &[PageState<Super>], extras: &mut Extras) -> Result<Option<(Super, u64)>, IoError> {
    let which = |wanted: PageState<Super>| (0..2).filter(move |&at| found[at as usize] == wanted);
    extras.torn.extend(which(PageState::Torn));
    let newest = found.iter().zip(0..).filter_map(|(found, at)| match found {
        PageState::Whole(page) => Some((page, at)),
        _ => None,
    });
    if let Some((newest, at)) = newest.max_by_key(|(page, _)| page.generation) {
        if !extras.torn.is_empty() {
            edge("a torn super page: the other counts");
        }
        return Ok(Some((newest.clone(), at)));
    }
    match (&found[0], &found[1]) {
        // The second copy is written first: formatting was interrupted. Or the BOPT was given up.
        (PageState::Blank, PageState::Torn)
        | (PageState::Blank | PageState::Invalidated, PageState::Blank | PageState::Invalidated) => {
            extras.torn.extend(which(PageState::Invalidated));
            Ok(None)
        }
        (PageState::Foreign, _) | (_, PageState::Foreign) => {
            let why =
                "found data that is no BOPT, expected zeroes or a BOPT: clear this area if it is not needed";
            Err(error(ErrorKind::Invalid, Extent::of_pages(0, 2), why.to_owned()))
        }
        _ => Err(none_is_whole()),
    }
}

fn none_is_whole() -> IoError {
    let why = "found no super page that is whole, expected one of the two to be";
    error(ErrorKind::Corrupt, Extent::of_pages(0, 2), why.to_owned())
}
