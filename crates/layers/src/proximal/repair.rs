//! A volume without its flash: another flash is made from the copies on the data device, which is only read
//! ([`super::copies`]).
//!
//! Everything that was there at the last copy is there again, snapshots and clones included. In the marked regions
//! newer contents may have been in flash alone: they are named, and hold what they held at the last copy.
//!
//! Faults: a repair that ends early leaves the mark of an unfinished creation, and is done again. A copy that is not as
//! it was written is an error.

use std::rc::Rc;

use seekless_core::runtime::edge;
use seekless_core::slice::Slice;
use seekless_core::{BlockDevice, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, Zeroes};

use super::format;
use super::opening::{self, Opened};
use super::placed::Placed;
use super::regions::in_words;
use super::super_page::Super;
use super::{KEY, Options};
use crate::Borg;
use crate::contents::{self, New};
use crate::registry::{self, Below, Work};
use crate::tools::{Repaired, Tools};

/// Tools of the layer.
pub struct ProximalTools;

impl Tools for ProximalTools {
    fn can_repair(&self) -> bool {
        true
    }

    fn repair(&self, below: Below, options: toml::Table, to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        Box::pin(async move {
            let options = registry::options("proximal", options, Options::check)?;
            let lost = flash_from_copies(&below.one()?, &to, &options).await?;
            let words = "may have been newer in flash, and is as of the last destage";
            let given_up = lost.into_iter().map(|at| format!("{}: {words}", in_words(at))).collect();
            Ok(Repaired { pages: 0, given_up })
        })
    }
}

/// Makes flash for the volume of this data device; the extents whose newest contents may be lost.
pub async fn flash_from_copies(
    data: &Rc<dyn BlockDevice>,
    flash: &Rc<dyn BlockDevice>,
    options: &Options,
) -> Result<Vec<Extent>, IoError> {
    let found = opening::anchor_of(&**data).await?.map_err(|(found, _)| {
        let why = format!(
            "found {found}, expected the copies of a map that a volume has that was created with them"
        );
        IoError::new(ErrorKind::Invalid, "proximal", Some(Extent::of_pages(0, format::LABEL_PAGES)), why)
    })?;
    let anchor = found.2;
    let shape = anchor.page.shape;
    opening::fits(&**data, &**flash, &shape)?;
    let (map, ranges) = opening::read_copies(&**data, &anchor, options).await?;
    edge("flash is made from the copies on the data device");
    let start = shape.staging() * PAGE_SECTORS;
    let new = New { key: KEY, device: &**flash, metadata: Extent::new(0, start), leaves: None };
    contents::claim(&[new], false, false).await?;
    let how = Hints::default();
    for part in Extent::new(PAGE_SECTORS, start - PAGE_SECTORS).split(flash.geometry().largest_sectors) {
        flash.write_zeroes(part, how.clone(), Zeroes::default()).await?;
    }
    // As if the commit that the copies were made after had written all of them.
    let generation = anchor.covers[anchor.area];
    // Empty ones too: what a copy that was cut short left in the other area has to be written again.
    opening::write_map(&**flash, &map, &anchor.page, generation).await?;
    let session = opening::label_session(&**data, anchor.page.identity).await?;
    let page = Super { committed: generation, session: session.number, ..anchor.page.clone() };
    let current = (0, generation, true);
    let opened = Opened {
        page: page.clone(),
        current,
        newest: generation,
        map,
        ranges,
        anchor: None,
        is_new: false,
        session: session.number,
        super_written: true,
    };
    let placed = Placed::open(data.clone(), flash.clone(), opened, options, false).await?;
    let staging = Extent::new(start, flash.geometry().sectors - start);
    let staging = Slice::new(flash.clone(), staging).map(Rc::new).ok_or_else(|| {
        IoError::new(ErrorKind::Invalid, KEY, None, "found no room for a staging area, expected some")
    })?;
    Borg::format_new(placed, staging, options.staging(), true).await?;
    opening::write_super(&**flash, &page).await?;
    Ok(anchor.marks.extents())
}
