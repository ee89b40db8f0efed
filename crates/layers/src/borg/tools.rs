//! Tools for a BOPT that is not in use: its metadata as values and back, repair into a new area, damage for exercises.
//!
//! Invariants: `dump` and `repair` only read the BOPT; a repaired BOPT has the identity of the damaged one, and the
//! dirty pages that could be read. Fault model: the BOPT may hold anything; an interrupted repair or restore is given
//! again.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Hints, IoError, PAGE_SECTORS, checksum};

use super::examined::examined;
use super::store::{Layout, Slot, State};
use super::{Borg, Options};
use crate::contents::{self, New};
use crate::durable::is_unfinished;
use crate::registry::{Below, Work, options};
use crate::tools::{Repaired, Tools};

/// See the file's header.
pub struct BorgTools;

fn borg_options(table: toml::Table) -> Result<Options, IoError> {
    options("borg", table, Options::check)
}

fn refused(why: String) -> IoError {
    IoError::new(ErrorKind::Invalid, "borg", None, why)
}

impl Tools for BorgTools {
    fn can_repair(&self) -> bool {
        true
    }

    fn dump(&self, below: Below, table: toml::Table) -> Work<toml::Table> {
        Box::pin(async move {
            let borg =
                examined(&below, borg_options(table)?, false).await.map_err(|error| match error.kind() {
                    ErrorKind::Corrupt => {
                        IoError::new(ErrorKind::Corrupt, "borg", None, format!("{error}: repair it first"))
                    }
                    _ => error,
                })?;
            let mut state = borg.store.state();
            state.sums = sums(&borg, &state).await;
            let state = toml::Table::try_from(state);
            state.map_err(|error| refused(format!("found a number beyond 63 bits, expected less: {error}")))
        })
    }

    fn restore(&self, below: Below, table: toml::Table, dump: toml::Table, replace: bool) -> Work<u64> {
        Box::pin(async move {
            let state = toml::Value::Table(dump).try_into::<State>();
            let state = state.map_err(|error| {
                let error = error.to_string();
                refused(format!("found a dump that is none: {}, expected one of borg", error.trim_end()))
            })?;
            let (bopt, options) = (below.device("bopt")?, borg_options(table)?);
            let pages = bopt.geometry().sectors / PAGE_SECTORS;
            state.check(Borg::layout_of(pages, &options)?, pages, below.one()?.geometry().sectors)?;
            let supers = Extent::of_pages(0, 2);
            let before = bopt.read(supers, Buffer::zeroed(supers.bytes()), Hints::default()).await?;
            let is_new = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0) || is_unfinished(bytes);
            if !replace && !before.look(is_new) {
                let why =
                    "found a super page, expected zeroes: --replace overwrites the metadata that is there";
                return Err(refused(why.to_owned()));
            }
            let not_compared = state.compare(&*bopt).await?;
            state.write(&*bopt).await?;
            Ok(not_compared)
        })
    }

    fn repair(&self, below: Below, table: toml::Table, to: Rc<dyn BlockDevice>) -> Work<Repaired> {
        Box::pin(async move {
            let options = borg_options(table)?;
            let pages = to.geometry().sectors / PAGE_SECTORS;
            let layout = Borg::layout_of(pages, &options)?;
            let borg = examined(&below, options, true).await?;
            begin(&*to).await?;
            let mut state = borg.store.state();
            let mut given_up = borg.store.unreadable();
            let clean = state.copies.iter().filter(|(.., dirty)| !dirty).count();
            let copies = copy_dirty(&borg, &state, &*to, layout, &mut given_up).await?;
            if clean > 0 {
                given_up.push(format!("{clean} copies of pages that the origin has too"));
            }
            state = State {
                bopt_pages: pages,
                segment_pages: layout.segment,
                read_cache_segments: layout.read_cache,
                write_buffer_segments: layout.write_buffer,
                copies,
                ..state
            };
            state.write(&*to).await?;
            Ok(Repaired { pages: state.copies.len() as u64, given_up })
        })
    }

    fn damages(&self) -> &'static [(&'static str, &'static str)] {
        super::damage::KINDS
    }

    fn damage(&self, below: Below, table: toml::Table, kind: String) -> Work<String> {
        Box::pin(async move { super::damage::damage(&below, borg_options(table)?, &kind).await })
    }
}

/// Checksums of dirty copies by slot; those that cannot be read have none.
async fn sums(borg: &Borg, state: &State) -> Vec<(Slot, u32)> {
    let dirty = || state.copies.iter().filter(|(.., dirty)| *dirty);
    borg.store.read_sums(dirty().map(|(_, page, _)| *page), &Hints::default()).await;
    let mut sums = Vec::new();
    for (slot, page, _) in dirty() {
        let at = state.extent_of(*page);
        let known = borg.store.known_sum(*page).filter(|_| at.sectors == PAGE_SECTORS);
        if let Some((_, sum)) = known {
            sums.push((*slot, sum));
        } else if let Ok(data) = borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
            sums.push((*slot, data.look(checksum::crc32c)));
        }
    }
    sums
}

/// Marks an unused area for a repair; it may hold an interrupted one.
async fn begin(to: &dyn BlockDevice) -> Result<(), IoError> {
    let begin = Extent::new(0, 1);
    let first = to.read(begin, Buffer::zeroed(begin.bytes()), Hints::default()).await?;
    let found = contents::found(to).await?.filter(|_| !first.look(is_unfinished));
    if let Some(found) = found {
        let why = format!(
            "found {found}, expected zeroes: a repair goes to an unused area, and one that was completed is \
             not repeated"
        );
        return Err(IoError::new(ErrorKind::Invalid, "borg", Some(begin), why));
    }
    let new = New { key: "to", device: to, metadata: Extent::new(0, 0), leaves: None };
    contents::claim(&[new], false, false).await
}

/// Copies the dirty pages that can be read; the copies: slot, page, and that they are dirty.
async fn copy_dirty(
    borg: &Borg,
    state: &State,
    to: &dyn BlockDevice,
    layout: Layout,
    given_up: &mut Vec<String>,
) -> Result<Vec<(u32, u64, bool)>, IoError> {
    let mut copies = Vec::new();
    let old = borg.store.layout();
    for (held, page, _) in state.copies.iter().filter(|(.., dirty)| *dirty) {
        let at = state.extent_of(*page);
        let data = match borg.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await {
            Ok(data) => data,
            Err(error) => {
                given_up.push(format!("page {page}, of which the origin has an older version: {error}"));
                continue;
            }
        };
        if old.is_logged(*held) && borg.store.known_sum(*page).is_none() {
            given_up.push(format!("the checksum of page {page}, which is copied without being verified"));
        }
        let slot = copies.len() as u32;
        if slot >= layout.slots() {
            let found =
                format!("found room for {slot} pages, expected room for all dirty ones: use a larger area");
            return Err(IoError::new(ErrorKind::NoSpace, "borg", None, found));
        }
        let place = Extent { sectors: at.sectors, ..Extent::of_pages(layout.page(slot), 1) };
        to.write(place, data, Hints::default()).await?;
        copies.push((slot, *page, true));
    }
    to.flush(Hints::default()).await?;
    Ok(copies)
}
