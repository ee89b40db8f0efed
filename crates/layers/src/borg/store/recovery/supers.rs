//! Which super page counts, and what version the BOPT is of.

use seekless_core::runtime::edge;
use seekless_core::{BlockDevice, ErrorKind, Extent, IoError};

use super::super::format::{PAGE, PageState, SUPER_2, Super, old, sealed};
use super::{Aside, check, error, rotten};
use crate::durable::{Choice, Home, Pair, region};

/// The newer super page that is whole; `None` where there never was one.
pub async fn read(
    bopt: &dyn BlockDevice,
    blank: &Super,
    aside: &mut Aside,
) -> Result<Option<Super>, IoError> {
    let both = Extent::of_pages(0, 2);
    let bytes = region::read(bopt, both).await?.to_vec();
    let pages = [&bytes[..PAGE], &bytes[PAGE..]];
    let homes = Pair([0, 1].map(|at| sealed::home_of_super(at, pages[at as usize])));
    let mut found = Vec::new();
    for (page, at) in pages.into_iter().zip(0..) {
        found.push(old::decode_super(at, page).map_err(|found| unknown(at, &found))?);
    }
    let is_old = found.iter().any(|found| matches!(found, PageState::Whole(_)));
    let is_sealed = homes.0.iter().any(|home| home.newest().is_some())
        || pages.iter().any(|page| page.starts_with(&SUPER_2));
    let counts = match (is_sealed, is_old) {
        (true, true) => while_upgrading(&pages, &homes, &found, aside)?,
        (true, false) => newer_sealed(&pages, &homes, aside)?,
        (false, _) => newer_old(&found, aside)?,
    };
    aside.supers.newest = homes.newest();
    let Some((page, home)) = counts else { return Ok(None) };
    aside.supers.newest = aside.supers.newest.max(page.generation);
    aside.supers.home = home;
    check(&page, blank).map(|()| Some(page))
}

fn unknown(at: u64, found: &str) -> IoError {
    let why = format!("found a super page of {found}, expected one that this version knows");
    error(ErrorKind::Unsupported, Extent::of_pages(at, 1), why)
}

fn decoded(pages: &[&[u8]; 2], homes: &Pair, home: usize) -> Result<Super, IoError> {
    let generation = homes.0[home].newest().unwrap_or(0);
    sealed::decode_super(generation, pages[home]).map_err(|found| unknown(home as u64, &found))
}

/// Of version 2.
fn newer_sealed(
    pages: &[&[u8]; 2],
    homes: &Pair,
    aside: &mut Aside,
) -> Result<Option<(Super, u64)>, IoError> {
    let mut choice = homes.choose();
    if let Choice::Refused(_, Some(older)) = choice {
        // What an upgrade has not taken away yet of version 1.
        if homes.0[1 - older].newest().is_none() && decoded(pages, homes, older)?.is_upgrading() {
            choice = Choice::Home(older);
        }
    }
    match choice {
        Choice::Home(home) => {
            let page = decoded(pages, homes, home)?;
            let other = &homes.0[1 - home];
            aside.supers.twice = *other == homes.0[home];
            if matches!(other, Home::Torn(_)) {
                edge("a torn super page: the other counts");
            }
            if matches!(other, Home::Rotten(..)) && !page.is_upgrading() {
                let at = 1 - home as u64;
                let bytes = sealed::for_home(at, page.generation, page.identity, pages[home]);
                aside.mended.push((Extent::of_pages(at, 1), bytes));
                aside.supers.twice = true;
            }
            Ok(Some((page, home as u64)))
        }
        Choice::Blank => Ok(None),
        Choice::Refused(sector, older) => {
            Err(rotten("the super page", sector, older.map(|older| &homes.0[older]), "pages"))
        }
        Choice::Neither => Err(none_is_whole()),
    }
}

/// One is of version 1 and whole: an upgrade was interrupted.
fn while_upgrading(
    pages: &[&[u8]; 2],
    homes: &Pair,
    found: &[PageState<Super>],
    aside: &mut Aside,
) -> Result<Option<(Super, u64)>, IoError> {
    for (home, at) in homes.0.iter().zip(0..) {
        match home {
            Home::Whole(_) => return decoded(pages, homes, at).map(|page| Some((page, at as u64))),
            Home::Rotten(sector, Some(_)) => {
                return Err(rotten("the super page", *sector, None, "what was upgraded"));
            }
            _ => {}
        }
    }
    newer_old(found, aside)
}

/// Of version 1, or of none.
fn newer_old(found: &[PageState<Super>], aside: &mut Aside) -> Result<Option<(Super, u64)>, IoError> {
    let which = |wanted: PageState<Super>| (0..2).filter(move |&at| found[at as usize] == wanted);
    aside.torn.extend(which(PageState::Torn));
    let newest = found.iter().zip(0..).filter_map(|(found, at)| match found {
        PageState::Whole(page) => Some((page, at)),
        _ => None,
    });
    if let Some((newest, at)) = newest.max_by_key(|(page, _)| page.generation) {
        if !aside.torn.is_empty() {
            edge("a torn super page: the other counts");
        }
        return Ok(Some((newest.clone(), at)));
    }
    match (&found[0], &found[1]) {
        // The second home is written first: it was never finished. Or what was there was given up.
        (PageState::Blank, PageState::Torn)
        | (PageState::Blank | PageState::Void, PageState::Blank | PageState::Void) => {
            aside.torn.extend(which(PageState::Void));
            Ok(None)
        }
        (PageState::Foreign, _) | (_, PageState::Foreign) => {
            let why =
                "found data that is no BOPT, expected zeroes or a BOPT: clear this area if nobody needs it";
            Err(error(ErrorKind::Invalid, Extent::of_pages(0, 2), why.to_owned()))
        }
        _ => Err(none_is_whole()),
    }
}

fn none_is_whole() -> IoError {
    let why = "found no super page that is whole, expected one of the two to be";
    error(ErrorKind::Corrupt, Extent::of_pages(0, 2), why.to_owned())
}
