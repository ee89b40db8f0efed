//! Detection of an origin that was written without this layer.
//!
//! A clean copy that was not compared with the origin since opening is *unproven*: it serves no read, is not
//! overwritten or moved, and is never written to the origin. It is compared on first use, and by a background pass in
//! the order of the origin. A copy that differs is dropped: the origin is right. No comparison is needed if the file is
//! as a clean stop left it ([`Mark`]), or if the options trust the origin.
//!
//! If the BOPT also holds dirty pages, an origin that was written since is refused: at opening by the file's size and
//! modification time, by samples that a clean stop took of the pages under the dirty ones, and by the first clean
//! copies. After that no dirty page is drained before all copies were compared, and a difference fails all requests.
//! Unless nothing was dirty when a session began whose copies were not all compared: then copies may differ since the
//! origin was written before, as it may be.
//!
//! Faults: a page that cannot be read on the origin or in the BOPT stays unproven, so a bad sector prevents neither
//! stopping nor opening.

use futures_util::future::join;
use rustc_hash::FxHashSet;
use seekless_core::device::Mark;
use seekless_core::runtime::edge;
use seekless_core::{
    Buffer, ErrorKind, Extent, Hints, IoError, Mode, PAGE_SECTORS, SECTOR_BYTES, Ticket, checksum, mutant,
};

use super::mover::Mover;
use super::options::OriginChanged;
use super::store::{SAMPLES, Slot};
use super::{Borg, did};
use crate::destage;

/// Clean copies compared during opening if there are dirty ones too: about two seconds of a disk.
const AT_OPENING: usize = if cfg!(test) { 8 } else { 256 };
/// Pages compared together: twice their size is 64 MiB.
const TOGETHER: usize = if cfg!(test) { 5 } else { 8_192 };

/// State of the comparison with the origin.
#[derive(Debug, Default)]
pub(super) struct OriginState {
    /// Whether there were dirty pages at opening and the origin may have been written meanwhile.
    pub doubtful: bool,
    /// The error of all requests, once the origin was found to be changed.
    pub refused: Option<IoError>,
    /// Clean copies that differed.
    pub differed: u64,
    /// Whether a write to it failed since opening: it may still be carried out, so nothing proves the origin unchanged.
    pub write_failed: bool,
}

/// Page, slot of its copy, and whether the copy equals the origin.
type Compared = (u64, Slot, bool);

impl Borg {
    /// Decides whether the copies found at opening have to be compared, and compares the first ones.
    pub(super) async fn check_origin(&self) -> Result<(), IoError> {
        let store = &self.store;
        let mark = if store.mapped() > 0 { self.origin_mark().await } else { None };
        let last = store.last_stop();
        let unchanged = last.as_ref().is_some_and(|last| mark.is_some() && mark == last.mark);
        let by_time = mutant::is("borg: the time of the last write alone proves the origin unchanged");
        let time = |mark: Option<Mark>| mark.map(|mark| mark.modified);
        let unchanged = unchanged
            || by_time && last.as_ref().is_some_and(|last| mark.is_some() && time(mark) == time(last.mark))
            || last.is_none() && mutant::is("borg: clean copies are trusted after a crash");
        if store.mapped() == 0 || self.options.trust_origin || unchanged {
            return Ok(());
        }
        let refuses = store.dirty() > 0 && self.options.origin_changed == OriginChanged::Refuse;
        if let Some(last) = last.filter(|_| refuses) {
            self.compare_marks(last.mark, mark)?;
            self.compare_samples(last.samples).await?;
        }
        store.doubt_all();
        let mut doubtful = refuses && store.unproven() > 0;
        if doubtful && store.differences_show_nothing() {
            edge("the origin was written before pages became dirty, perhaps: copies that differ are dropped");
            doubtful = false;
        }
        self.origin_state.borrow_mut().doubtful = doubtful;
        store.excuse(!doubtful);
        if !doubtful {
            return Ok(());
        }
        let every = store.unproven().div_ceil(AT_OPENING).max(1);
        let unproven = store.pages_where(|entry| !entry.proven);
        self.compare(unproven.into_iter().step_by(every).collect(), &Hints::default()).await
    }

    /// The origin's mark, by which it is known to be unchanged; `None` if the BOPT is in the same file, since writing
    /// the BOPT changes it.
    pub(super) async fn origin_mark(&self) -> Option<Mark> {
        let fails = !mutant::is("borg: a failed write leaves the origin proven");
        if fails && self.origin_state.borrow().write_failed {
            return None;
        }
        let (origin, bopt) = join(self.origin.mark(), self.bopt.mark()).await;
        let (origin, bopt) = (origin.ok()?, bopt.ok()?);
        origin.filter(|origin| bopt.is_none_or(|bopt| bopt.inode != origin.inode))
    }

    /// Fails if the origin is a whole file whose size or modification time changed.
    fn compare_marks(&self, was: Option<Mark>, now: Option<Mark>) -> Result<(), IoError> {
        let (Some(was), Some(now)) = (was, now) else { return Ok(()) };
        let whole = was.bytes == self.origin.geometry().sectors * SECTOR_BYTES;
        if whole && (was.bytes, was.modified) != (now.bytes, now.modified) {
            let found = "found the origin written since the last clean stop, by its time of last write";
            return Err(self.changed_error(found, None));
        }
        Ok(())
    }

    /// Compares pages of the origin under dirty ones with the samples of the last clean stop.
    async fn compare_samples(&self, samples: Vec<(u64, u32)>) -> Result<(), IoError> {
        for (page, sum) in samples {
            match self.origin_sum(page, &Hints::default()).await {
                Ok(found) if found == sum => {}
                // As when samples are taken: an unreadable page does not invalidate the others.
                Err(error) if error.is_medium_error() => {}
                Ok(_) => {
                    let found = "found a page of the origin that is not as the last clean stop left it";
                    return Err(self.changed_error(found, Some(page)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Error for an origin that was written while the BOPT held dirty pages.
    fn changed_error(&self, found: &str, page: Option<u64>) -> IoError {
        let newer = self.store.dirty();
        let why = format!(
            "{found}, expected it unchanged: it was written without this BOPT, or the BOPT is another volume's; \
             {newer} pages in the BOPT are newer than the origin. To keep these: origin_changed = \"keep\" \
             for the layer; to give them up: seekless volume create --replace"
        );
        IoError::new(ErrorKind::Corrupt, "borg", page.map(|page| Extent::of_pages(page, 1)), why)
    }

    /// Notes whether a write to the origin failed.
    pub(super) fn origin_written<T>(&self, written: Result<T, IoError>) -> Result<T, IoError> {
        // One that was aborted is not carried out later.
        let failed = written.as_ref().is_err_and(|error| error.kind() != ErrorKind::Aborted);
        self.origin_state.borrow_mut().write_failed |= failed;
        written
    }

    /// Samples for the super page: checksums of some pages of the origin under dirty ones, to detect writes to the
    /// origin without this layer.
    pub(super) async fn samples(&self, how: &Hints) -> Result<Vec<(u64, u32)>, IoError> {
        if self.origin_state.borrow().write_failed {
            return Ok(Vec::new());
        }
        let every = self.store.dirty().div_ceil(SAMPLES).max(1);
        let pages = self.store.pages_where(|entry| entry.dirty).into_iter().step_by(every);
        let mut samples = Vec::new();
        for page in pages {
            match self.origin_sum(page, how).await {
                Ok(sum) => samples.push((page, sum)),
                Err(error) if error.is_medium_error() => {
                    edge("a sample of the origin cannot be read: it proves nothing");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(samples)
    }

    /// Checksum of a page of the origin.
    async fn origin_sum(&self, page: u64, how: &Hints) -> Result<u32, IoError> {
        let at = Extent::of_pages(page, 1);
        let end = self.origin.geometry().sectors;
        let at = Extent { sectors: PAGE_SECTORS.min(end - at.start.0), ..at };
        let read = self.origin.read(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
        Ok(read.look(checksum::crc32c))
    }

    /// Compares the unproven copies that a read would use; the caller holds the pages' locks.
    pub(super) async fn compare_for(&self, at: Extent, how: &Hints) -> Result<(), IoError> {
        let unproven = self.store.unproven_of(at.pages());
        // Otherwise the read goes to the origin as a whole.
        let all = unproven.is_empty() || at.pages().all(|page| self.store.lookup(page).is_some());
        let pages = if all { unproven } else { Vec::new() };
        if pages.is_empty() {
            return Ok(());
        }
        edge("clean copies are compared with the origin before they are served");
        self.compare(pages, how).await
    }

    /// Compares pages that are not changed meanwhile: equal copies become proven, others are dropped.
    async fn compare(&self, pages: Vec<u64>, how: &Hints) -> Result<(), IoError> {
        let how = Hints { fua: false, ..how.clone() };
        let read = async |pages: &[u64]| {
            let places = self.places_of(pages);
            let copies = destage::read(&*self.bopt, places.iter().copied(), |at| self.buffer(at), &how);
            let origins = destage::read(&*self.origin, pages.iter().copied(), |at| self.buffer(at), &how);
            let (origins, copies) = join(origins, copies).await;
            Ok((origins?, copies?))
        };
        let compared = self.compare_by_halves(pages, read).await?;
        self.apply_comparison(&compared, &how).await
    }

    /// Pages of the BOPT that hold the copies of `pages`.
    fn places_of(&self, pages: &[u64]) -> Vec<u64> {
        let place = |page: &u64| Some(self.store.layout().page(self.store.lookup(*page)?.slot));
        pages.iter().filter_map(place).collect()
    }

    /// Compares copies with the origin, both read by `read`; narrows down unreadable pages by halving, and leaves them
    /// out.
    async fn compare_by_halves(
        &self,
        pages: Vec<u64>,
        read: impl AsyncFn(&[u64]) -> Result<(destage::Pages, destage::Pages), IoError>,
    ) -> Result<Vec<Compared>, IoError> {
        let (mut compared, mut left) = (Vec::new(), vec![pages]);
        while let Some(mut pages) = left.pop() {
            let slot = |&page: &u64| Some((page, self.store.lookup(page)?.slot));
            let slots: Vec<(u64, Slot)> = pages.iter().filter_map(slot).collect();
            match read(&pages).await {
                Ok((origins, copies)) => compared.extend(slots.into_iter().filter_map(|(page, slot)| {
                    let (origin, copy) = (origins.get(&page)?, copies.get(&self.store.layout().page(slot))?);
                    Some((page, slot, self.same_page(page, origin, copy)))
                })),
                Err(error) if !error.is_medium_error() => return Err(error),
                Err(_) if pages.len() > 1 => {
                    let other = pages.split_off(pages.len() / 2);
                    left.extend([other, pages]);
                }
                Err(_) => edge("a copy or its origin cannot be read: the copy is not served"),
            }
        }
        Ok(compared)
    }

    /// Whether both are the same, up to the end of the origin.
    fn same_page(&self, page: u64, origin: &Buffer, copy: &Buffer) -> bool {
        let sectors = PAGE_SECTORS.min(self.origin.geometry().sectors - page * PAGE_SECTORS);
        super::verifier::same(&origin.cut_sectors(0, sectors), &copy.cut_sectors(0, sectors))
    }

    /// Applies the results of a comparison to pages that were not changed since; the caller holds their locks.
    async fn apply_comparison(&self, compared: &[Compared], how: &Hints) -> Result<(), IoError> {
        let still = |page: u64, slot: Slot| {
            self.store.lookup(page).is_some_and(|entry| entry.slot == slot && !entry.proven)
        };
        let found: Vec<&Compared> = compared.iter().filter(|(page, slot, _)| still(*page, *slot)).collect();
        let all = mutant::is("borg: a copy that differs from the origin is served");
        for &&(_, slot, _) in found.iter().filter(|(_, _, same)| *same || all) {
            self.store.prove(slot);
        }
        let differing: Vec<u64> =
            found.iter().filter(|(_, _, same)| !same && !all).map(|(page, _, _)| *page).collect();
        let Some(&first) = differing.first() else { return Ok(()) };
        self.origin_state.borrow_mut().differed += differing.len() as u64;
        if self.origin_state.borrow().doubtful {
            let error = self
                .changed_error("found a page of the origin that differs from its clean copy", Some(first));
            self.store.fail(&error);
            self.origin_state.borrow_mut().refused.get_or_insert_with(|| error.clone());
            return Err(error);
        }
        self.drop_unproven(&differing, how).await
    }

    /// Unmaps clean copies; the caller holds their locks. Nothing changes if this fails.
    pub(super) async fn drop_unproven(&self, pages: &[u64], how: &Hints) -> Result<(), IoError> {
        self.store.begin_mapping(how).await?;
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let mut update = self.store.update(&how).await;
        update.persist_stale(&how).await?;
        for page in self.store.unproven_of(pages.iter().copied()) {
            did("dropped for origin", Extent::of_pages(page, 1), page * PAGE_SECTORS);
            update.unmap(page);
        }
        update.persist(&how).await
    }

    /// Fails if the origin was found to have changed under dirty pages.
    pub(super) fn ensure_not_refused(&self) -> Result<(), IoError> {
        self.origin_state.borrow().refused.clone().map_or(Ok(()), Err)
    }
}

impl Mover<'_> {
    /// Compares all unproven copies, in the order of the origin; false if stopped early.
    pub async fn compare_all(&self) -> Result<bool, IoError> {
        let borg = self.borg;
        let pages = borg.store.pages_where(|entry| !entry.proven);
        for round in pages.chunks(self.pace.round_size(TOGETHER)) {
            if !self.pace.may_continue(round.len()).await {
                return Ok(false);
            }
            for page in self.compare_round(round).await? {
                if !self.pace.may_continue(1).await {
                    return Ok(false);
                }
                self.compare_held(page).await?;
            }
        }
        borg.origin_state.borrow_mut().doubtful = false;
        // If that fails, a later difference shows nothing.
        drop(borg.store.record_compared(&self.with_ticket()).await);
        Ok(true)
    }

    /// Compares copies without locks; returns those that were in use meanwhile.
    async fn compare_round(&self, round: &[u64]) -> Result<Vec<u64>, IoError> {
        let borg = self.borg;
        self.begin_copies(round);
        let read = async |pages: &[u64]| {
            let places = borg.places_of(pages);
            let copies = self.read(&*borg.bopt, places.into_iter()).await?;
            Ok((self.read(&*borg.origin, pages.iter().copied()).await?, copies))
        };
        let round = borg.store.unproven_of(round.iter().copied());
        let compared = borg.compare_by_halves(round, read).await?;
        let locked = self.lock_valid(compared.iter().map(|(page, _, _)| *page));
        let valid: FxHashSet<u64> = locked.valid.iter().copied().collect();
        let (compared, used): (Vec<Compared>, Vec<Compared>) =
            compared.into_iter().partition(|(page, _, _)| valid.contains(page));
        let judged = borg.apply_comparison(&compared, &locked.how).await;
        borg.movers.locks_released();
        judged.map(|()| used.into_iter().map(|(page, _, _)| page).collect())
    }

    /// Compares the copy of a page under its lock; requests that wait for the lock raise the comparison's class.
    async fn compare_held(&self, page: u64) -> Result<(), IoError> {
        let (at, how) = (Extent::of_pages(page, 1), self.with_ticket());
        let _held = self.borg.locks.lock(at, Mode::Exclusive, how.class, how.ticket.clone()).await;
        let still = self.borg.store.unproven_of([page].into_iter());
        self.borg.compare(still, &how).await
    }

    /// Compares everything before the first drain if the origin is doubtful; false if stopped early.
    pub async fn compare_if_doubtful(&self) -> Result<bool, IoError> {
        let doubtful = self.borg.origin_state.borrow().doubtful;
        if doubtful { self.compare_all().await } else { Ok(true) }
    }
}
