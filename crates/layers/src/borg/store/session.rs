//! Sessions of the store: from the first change after opening to the clean stop.
//!
//! Nothing on disk changes before the first change of a session: then everything read at opening is made durable, and
//! the super page records where the log begins.
//!
//! Invariant: a session is begun before its first change.
//!
//! Faults: a session that could not be begun is retried with the next change.

use futures_util::future::join;
use seekless_core::device::Mark;
use seekless_core::runtime;
use seekless_core::{Account, Class, Extent, Hints, IoError, Mode, Ticket, invariant, mutant};

use super::Store;
use super::format::{Anchor, OLD, SCATTERED, Super};
use super::segments::Segment;

/// State of the store's session: what may have changed since the BOPT was opened, or since the last clean stop. Each
/// includes those before it; beginning a session on a BOPT that was given up does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Session {
    /// Nothing: there is no session.
    Unchanged,
    /// Nothing, but the mark of a clean stop could not be written and may or may not be on disk.
    Ending,
    /// The map.
    Mapped,
    /// Map and dirty bits: pages may be newer than the origin.
    Dirty,
    /// The BOPT was given up: nothing is mapped or written any more.
    GivenUp,
}

/// Records of a clean stop that identify the origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastStop {
    /// Pages of the origin and their checksums (samples).
    pub samples: Vec<(u64, u32)>,
    /// The mark of the origin's file, if it has one and all clean copies are proven.
    pub mark: Option<Mark>,
}

impl Store {
    /// Begins the session, or extends it to changes of entries; called before they change.
    pub async fn begin_mapping(&self, how: &Hints) -> Result<(), IoError> {
        self.begin(Session::Mapped, how).await
    }

    /// Begins the session, or extends it to dirty copies; called before copies become dirty.
    pub async fn begin_writing(&self, how: &Hints) -> Result<(), IoError> {
        self.begin(Session::Dirty, how).await
    }

    /// Begins the session at the first call: the state found at opening becomes its start.
    async fn begin(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        if self.disk.borrow().session >= session
            || (session == Session::Dirty && mutant::is("borg: a write begins no session"))
        {
            return Ok(());
        }
        // Tasks that wait for the lock raise the class of the work under it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _metadata = self.lock_metadata(&how).await;
        self.begin_now(session, &how).await
    }

    /// Asserts that a session is begun; called when entries change.
    pub(super) fn assert_mapping(&self) {
        let session = self.disk.borrow().session;
        invariant!(
            "a session is begun before its first change",
            matches!(session, Session::Mapped | Session::Dirty)
        );
    }

    /// Asserts that a session is begun in which copies may be dirty; called when copies become dirty.
    pub(super) fn assert_writing(&self) {
        let session = self.disk.borrow().session;
        invariant!("a session is begun before its first change", session == Session::Dirty);
    }

    /// As [`Store::begin_writing`], in the background, for a new BOPT: no request waits for its formatting, and until
    /// then all go to the origin. Queues for the lock before later requests do.
    /// `payer` pays for it.
    pub fn begin_in_background(&self, payer: Account) {
        let Some(store) = self.me.upgrade().filter(|store| !store.beginning.replace(true)) else { return };
        let (class, ticket) = (Class::Background, Some(Ticket::new()));
        let how = Hints { class, ticket, account: payer, ..Hints::default() };
        let lock = self.metadata.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone());
        let work = async move {
            let _metadata = lock.await;
            // Retried with the next write.
            drop(store.begin_now(Session::Dirty, &how).await);
            store.beginning.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// Begins the session; the caller holds the metadata lock.
    async fn begin_now(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        let was = self.disk.borrow().session;
        if was >= session {
            return Ok(());
        }
        if was < Session::Mapped {
            // What was read may not be durable: the program may have crashed before a flush.
            let (origin, bopt) = join(self.flush_origin(how), self.flush_bopt(how)).await;
            origin.and(bopt)?;
            if self.disk.borrow().super_page.generation == 0 {
                self.format(how).await?;
            }
            self.invalidate_torn(how).await?;
            // Includes dirty bits that an older program did not maintain: from now on they are valid.
            let unpersisted = |segment: &Segment| segment.changes > 0 || segment.flag_changes > 0;
            let found = self.table.borrow().segments.which(unpersisted);
            self.persist(&found, how).await?;
        }
        let learned = self.take_area();
        let (anchor, reopened) = self.next_anchor();
        let require = session == Session::Dirty;
        let begins = was < Session::Mapped;
        let uncompared = self.is_uncompared();
        let counts = begins && !mutant::is("borg: an opening is not counted");
        let number = self.disk.borrow().super_page.sessions + u64::from(counts);
        let change = |page: &mut Super| {
            (page.clean, page.anchor, page.sessions, page.learned) = (false, anchor, number, learned);
            (page.exact, page.mark, page.require) = (true, None, page.require || require);
            // What older programs wrote lies before the anchor.
            page.features = page.features & !SCATTERED | if self.eager { SCATTERED } else { 0 };
            // Map pages that named first batches wrongly were written above.
            page.firsts = page.version != OLD && (begins || page.firsts);
            page.uncompared = uncompared;
        };
        self.write_super(change, how).await.inspect_err(|_| self.give_back(learned))?;
        self.anchored(anchor, reopened);
        self.enter(session);
        Ok(())
    }

    /// Changes the state of the session, unless the BOPT was given up in the meantime: it stays so.
    fn enter(&self, session: Session) {
        let disk = &mut *self.disk.borrow_mut();
        if disk.session != Session::GivenUp
            || mutant::is("borg: a session begins on a BOPT that was given up")
        {
            disk.session = session;
        }
    }

    /// The anchor, and the segment in which a closed log is reopened for it.
    pub(super) fn next_anchor(&self) -> (Anchor, Option<u32>) {
        let log = &self.table.borrow().log;
        let reopened = log.first_free().filter(|_| log.is_closed() && log.is_quiet());
        match reopened {
            Some(segment) => (Anchor { segment, offset: 0, sequence: log.sequence + 1 }, reopened),
            None => (log.anchor(), None),
        }
    }

    /// Whether nothing may be written: no session was begun, or the BOPT was given up.
    pub(super) fn has_no_session(&self) -> bool {
        matches!(self.disk.borrow().session, Session::Unchanged | Session::GivenUp)
    }

    /// Ends the session with the map on disk, including its dirty bits. `identify_origin` is called once the map is on
    /// disk, and returns the records that identify the origin. The caller holds the locks of all pages.
    pub async fn stop(
        &self,
        identify_origin: impl AsyncFnOnce() -> Result<LastStop, IoError>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let _none = self.no_witness(how).await;
        let _metadata = self.lock_metadata(how).await;
        if self.has_no_session() {
            return Ok(());
        }
        if mutant::is("borg: a clean stop without dirty bits") {
            self.forget_unpersisted_bits();
        }
        self.checkpoint_locked(|segment| segment.flag_changes > 0, how).await?;
        let LastStop { samples, mark } = identify_origin().await?;
        // It would prove copies that were not compared.
        let mark = mark.filter(|_| {
            self.unproven() == 0
                || mutant::is("borg: copies that were not compared count as compared at a stop")
        });
        let (require, uncompared) = (self.dirty() > 0, self.is_uncompared());
        let generations = self.table.borrow().segments.generations();
        let change = |page: &mut Super| {
            (page.clean, page.require, page.generations, page.samples, page.mark) =
                (true, require, generations, samples, mark);
            // No batch is read any more.
            page.features &= !SCATTERED;
            page.uncompared = uncompared;
        };
        self.enter(Session::Ending);
        self.write_super(change, how).await?;
        self.enter(Session::Unchanged);
        // One copy is enough: failures to duplicate are ignored.
        drop(self.duplicate_all(how).await);
        Ok(())
    }

    /// Records of the last clean stop, if there was one.
    pub fn last_stop(&self) -> Option<LastStop> {
        let disk = self.disk.borrow();
        let Super { clean, samples, mark, .. } = &disk.super_page;
        clean.then(|| LastStop { samples: samples.clone(), mark: *mark })
    }

    /// Whether clean copies that differ from the origin do not show that it was written under dirty pages: nothing was
    /// dirty when it may have been written, and the sessions since have not compared them all.
    pub fn differences_show_nothing(&self) -> bool {
        self.disk.borrow().super_page.uncompared
    }

    /// Notes whether unproven copies that differ show nothing, for the next opening.
    pub fn excuse(&self, excused: bool) {
        self.excused.set(excused);
    }

    fn is_uncompared(&self) -> bool {
        self.excused.get() && self.unproven() > 0 && self.disk.borrow().super_page.version != OLD
    }

    /// Records that all copies were compared, if a session says otherwise.
    pub async fn record_compared(&self, how: &Hints) -> Result<(), IoError> {
        let _metadata = self.lock_metadata(how).await;
        if self.has_no_session() || !self.differences_show_nothing() || self.unproven() > 0 {
            return Ok(());
        }
        self.write_super(|page| page.uncompared = false, how).await
    }

    /// Canary: cleans pages whose map page was not yet written with them dirty.
    fn forget_unpersisted_bits(&self) {
        let table = &mut *self.table.borrow_mut();
        for segment in table.segments.which(|segment| segment.changes > 0) {
            self.layout.slots_of(segment).for_each(|slot| table.map.set_dirty(slot, false));
        }
    }

    /// Gives up the BOPT, which is empty, by blanking its super pages. From now on nothing is appended or mapped, even
    /// if that fails.
    pub async fn erase(&self, how: &Hints) -> Result<(), IoError> {
        self.disk.borrow_mut().session = Session::GivenUp;
        // Waits for a part of the area that is being written; later ones find the BOPT given up.
        drop(self.lock_learned(how).await);
        let _none = self.no_witness(how).await;
        let _metadata = self.lock_metadata(how).await;
        if self.identity().is_none() {
            return Ok(());
        }
        self.write_blank(how).await
    }
}
