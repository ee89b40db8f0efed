//! The registers of a page: one for all its sectors, as long as the same happens to all of them.
//!
//! Most requests are for whole pages, so most pages need one register and not eight. A page is split when a request
//! touches a part of it or a read finds its sectors to differ, and joined again when nothing is open on it and all
//! sectors have the same content.

use std::ops::Range;

use seekless_core::PAGE_SECTORS;

use super::register::{Register, ZEROES};

const SECTORS: usize = PAGE_SECTORS as usize;

/// State of a sector. Boxed, because most sectors are quiet most of the time.
#[derive(Clone, Debug)]
pub(super) enum Sector {
    /// Nothing is open: it holds this write, or zeroes.
    Quiet(u64),
    /// More than one version is possible.
    Open(Box<Register>),
}

impl Sector {
    /// Its register, opened if it was quiet.
    pub fn open(&mut self) -> &mut Register {
        if let Sector::Quiet(content) = *self {
            *self = Sector::Open(Box::new(Register::of(content)));
        }
        match self {
            Sector::Open(register) => register,
            Sector::Quiet(_) => unreachable!("it was opened"),
        }
    }

    fn settle(&mut self) {
        if let Sector::Open(register) = self {
            if let Some(content) = register.quiet() {
                *self = Sector::Quiet(content);
            }
        }
    }

    /// Its content, if nothing is open.
    pub fn quiet(&self) -> Option<u64> {
        match self {
            Sector::Quiet(content) => Some(*content),
            Sector::Open(_) => None,
        }
    }
}

/// The sectors of a page.
#[derive(Clone, Debug)]
pub(super) enum Page {
    /// One state for all sectors.
    Whole(Sector),
    /// A state for each sector.
    Split(Box<[Sector; SECTORS]>),
}

impl Page {
    /// A page of durable zeroes.
    pub const ZEROES: Page = Page::Whole(Sector::Quiet(ZEROES));

    /// The sector at this address.
    pub fn sector(&self, address: u64) -> &Sector {
        match self {
            Page::Whole(sector) => sector,
            Page::Split(sectors) => &sectors[address as usize % SECTORS],
        }
    }

    /// The sectors at these addresses, `alike` if the same is to happen to each; one stands for the whole page while
    /// that holds.
    pub fn part(&mut self, addresses: &Range<u64>, alike: bool) -> &mut [Sector] {
        let whole = alike && addresses.end - addresses.start == PAGE_SECTORS;
        if let (Page::Whole(sector), false) = (&*self, whole) {
            *self = Page::Split(Box::new(std::array::from_fn(|_| sector.clone())));
        }
        let first = addresses.start as usize % SECTORS;
        match self {
            Page::Whole(sector) => std::slice::from_mut(sector),
            Page::Split(sectors) => &mut sectors[first..first + (addresses.end - addresses.start) as usize],
        }
    }

    /// All sectors.
    pub fn sectors(&mut self) -> &mut [Sector] {
        match self {
            Page::Whole(sector) => std::slice::from_mut(sector),
            Page::Split(sectors) => &mut sectors[..],
        }
    }

    /// Closes sectors on which nothing is open any more; returns whether all are closed.
    pub fn settle(&mut self) -> bool {
        self.sectors().iter_mut().for_each(Sector::settle);
        let closed = self.sectors().iter().all(|sector| sector.quiet().is_some());
        if let Page::Split(sectors) = self {
            let first = sectors[0].quiet();
            if let Some(content) = first.filter(|_| sectors.iter().all(|sector| sector.quiet() == first)) {
                *self = Page::Whole(Sector::Quiet(content));
            }
        }
        closed
    }
}

/// The pages of these sectors, each with the range of its sectors.
pub(super) fn pages(sectors: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    let pages = sectors.start / PAGE_SECTORS..sectors.end.div_ceil(PAGE_SECTORS);
    let parts = pages.map(move |page| {
        let first = page * PAGE_SECTORS;
        (page, sectors.start.max(first)..sectors.end.min(first.saturating_add(PAGE_SECTORS)))
    });
    parts.filter(|(_, part)| !part.is_empty())
}
