//! The restart that was checked last: only pages whose content may differ from it are read at the next one.

use rustc_hash::{FxHashMap, FxHashSet};

use seekless_core::device::Place;
use seekless_core::{Extent, Lba, PAGE_SECTORS};

use super::component::ALL;
use super::image::Image;
use super::restart::Opened;

/// Place of a page in one word: unknown, nowhere, or a component and a page.
const UNKNOWN: u64 = u64::MAX;
const NOWHERE: u64 = u64::MAX - 1;

/// The restart checked last.
#[derive(Clone)]
pub struct Last {
    /// What survived.
    survived: Vec<Image>,
    /// Images after its opening.
    images: Vec<Image>,
    /// Place of each page.
    places: Vec<u64>,
    /// Pages at a place.
    pages: FxHashMap<u64, Vec<u64>>,
    /// Places that its opening read.
    opening: FxHashSet<u64>,
}

fn place(component: u32, page: u64) -> u64 {
    u64::from(component) << 48 | page
}

/// The pages to read, and what to compare the next restart with.
pub(super) fn differing(
    opened: &Opened,
    last: Option<Last>,
    (survived, images): (&[Image], Vec<Image>),
    control: bool,
) -> (Last, Vec<u64>) {
    let count = opened.top.geometry().sectors.div_ceil(PAGE_SECTORS);
    let Some(mut last) = last else {
        let (pages, opening) = (FxHashMap::default(), FxHashSet::default());
        let mut last = Last {
            survived: survived.to_vec(),
            images,
            places: vec![UNKNOWN; count as usize],
            pages,
            opening,
        };
        last.opened(opened);
        last.places_changed(opened, &mut Vec::new());
        return (last, (0..count).collect());
    };
    let changed = differ(&images, &last.images);
    let mut pages = Vec::new();
    if differ(survived, &last.survived).iter().any(|place| last.opening.contains(place)) {
        last.places_changed(opened, &mut pages);
        last.opened(opened);
    }
    for place in changed {
        pages.extend(last.pages.get(&place).into_iter().flatten());
    }
    pages.extend(last.pages.get(&UNKNOWN).into_iter().flatten());
    (last.survived, last.images) = (survived.to_vec(), images);
    if control {
        pages = (0..count).collect();
    }
    (last, pages)
}

/// The places that differ.
fn differ(images: &[Image], others: &[Image]) -> Vec<u64> {
    let mut changed = Vec::new();
    for (number, (image, other)) in (0..).zip(images.iter().zip(others)) {
        image.differs(other, &mut |page| changed.push(place(number, page)));
        if image.times() != other.times() {
            changed.extend(ALL.pages().map(|page| place(number, page)));
        }
    }
    changed
}

impl Last {
    /// Notes what the opening read, which is all that was read so far.
    fn opened(&mut self, opened: &Opened) {
        self.opening.clear();
        for (number, component) in (0..).zip(&opened.components) {
            for at in component.was_read() {
                self.opening.extend(at.pages().map(|page| place(number, page)));
            }
        }
    }

    /// Queries the places of all pages; notes those that have changed.
    fn places_changed(&mut self, opened: &Opened, elsewhere: &mut Vec<u64>) {
        let whole = Extent::new(0, opened.top.geometry().sectors);
        let mut now = vec![None; self.places.len()];
        opened.top.places(whole, &mut |part, on| {
            for page in part.pages() {
                let first = Lba((page * PAGE_SECTORS).max(part.start.0));
                let here = match on {
                    Place::Nowhere => NOWHERE,
                    Place::Unknown => UNKNOWN,
                    Place::On { component, at } => {
                        let at = at.0 + (first.0 - part.start.0);
                        // Sectors of two pages of a component do not fit one word.
                        if at % PAGE_SECTORS == first.0 % PAGE_SECTORS {
                            place(component, at / PAGE_SECTORS)
                        } else {
                            UNKNOWN
                        }
                    }
                };
                let known = &mut now[page as usize];
                *known = Some(if known.is_none_or(|known| known == here) { here } else { UNKNOWN });
            }
        });
        for ((page, place), now) in (0..).zip(&mut self.places).zip(now) {
            let now = now.unwrap_or(UNKNOWN);
            if *place == now && now != UNKNOWN {
                continue;
            }
            if let Some(pages) = self.pages.get_mut(place) {
                pages.retain(|other| *other != page);
            }
            if now != NOWHERE {
                self.pages.entry(now).or_default().push(page);
            }
            *place = now;
            elsewhere.push(page);
        }
    }
}
