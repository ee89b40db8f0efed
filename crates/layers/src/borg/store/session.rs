//! Sessions: from the first change after opening to the clean stop.
//!
//! Nothing on disk changes before the first change of a session: what was read at opening is made durable then, and the
//! super page says where the log begins.
//!
//! Invariant: a session is begun before its first change.
//!
//! Faults: a session that cannot be begun is begun again with the next change.

use futures_util::future::join;
use seekless_core::device::Mark;
use seekless_core::runtime;
use seekless_core::{Class, Extent, Hints, IoError, Mode, Ticket, invariant, mutant};

use super::Store;
use super::format::{Anchor, Super};
use super::segments::Segment;

/// What may have changed since the BOPT was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Session {
    /// Nothing.
    Untouched,
    /// Nothing, but whether the mark of a clean stop is on disk nobody knows: it could not be written.
    Ending,
    /// The map.
    Mapped,
    /// Pages may be newer than their origin.
    Dirty,
    /// The BOPT was given up: nothing is mapped, and nothing is written any more.
    Detached,
}

/// What a clean stop leaves to know the origin by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastStop {
    /// Pages of the origin and their checksums.
    pub samples: Vec<(u64, u32)>,
    /// The mark of the file that holds the origin, where there is one, and all clean copies are proven.
    pub mark: Option<Mark>,
}

impl Store {
    /// To be called before entries change.
    pub async fn begin_mapping(&self, how: &Hints) -> Result<(), IoError> {
        self.begin(Session::Mapped, how).await
    }

    /// To be called before copies get newer than their origin.
    pub async fn begin_writing(&self, how: &Hints) -> Result<(), IoError> {
        self.begin(Session::Dirty, how).await
    }

    /// The first time, it makes what was found at opening the beginning of a session.
    async fn begin(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        if self.disk.borrow().session >= session
            || (session == Session::Dirty && mutant::is("borg: a write begins no session"))
        {
            return Ok(());
        }
        // Whoever waits for the lock raises what is done under it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _metadata = self.lock_metadata(&how).await;
        self.begin_now(session, &how).await
    }

    /// To be called as entries change.
    pub(super) fn unless_untouched(&self) {
        let session = self.disk.borrow().session;
        invariant!(
            "a session is begun before its first change",
            matches!(session, Session::Mapped | Session::Dirty)
        );
    }

    /// To be called as copies get newer than their origin.
    pub(super) fn unless_clean(&self) {
        let session = self.disk.borrow().session;
        invariant!("a session is begun before its first change", session == Session::Dirty);
    }

    /// As [`Store::begin_writing`], in the background, for a BOPT that is new: nobody waits for its formatting, and
    /// until then all goes to the origin. It has the lock before whoever asks for it later.
    pub fn begin_in_background(&self) {
        let Some(store) = self.me.upgrade().filter(|store| !store.beginning.replace(true)) else { return };
        let how = Hints { class: Class::Background, ticket: Some(Ticket::new()), ..Hints::default() };
        let lock = self.metadata.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone());
        let work = async move {
            let _metadata = lock.await;
            // What fails is tried again with the next write.
            drop(store.begin_now(Session::Dirty, &how).await);
            store.beginning.set(false);
        };
        runtime::spawn(work).detach();
    }

    /// For who holds the metadata lock.
    async fn begin_now(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        let was = self.disk.borrow().session;
        if was >= session {
            return Ok(());
        }
        if was < Session::Mapped {
            // Whoever wrote what was read may have ended before a flush.
            let (origin, bopt) = join(self.flush_origin(how), self.flush_bopt(how)).await;
            origin.and(bopt)?;
            if self.disk.borrow().page.generation == 0 {
                self.format(how).await?;
            }
            self.invalidate_torn(how).await?;
            // Also dirty bits that a program did not keep: from now on they count.
            let unpersisted = |segment: &Segment| segment.changes > 0 || segment.bits > 0;
            let found = self.table.borrow().segments.which(unpersisted);
            self.persist(&found, how).await?;
        }
        let (anchor, opens) = self.where_to_go_on();
        let require = session == Session::Dirty;
        let counts = was < Session::Mapped && !mutant::is("borg: an opening is not counted");
        let opening = self.disk.borrow().page.opening + u64::from(counts);
        let change = |page: &mut Super| {
            (page.clean, page.anchor, page.opening) = (false, anchor, opening);
            (page.exact, page.mark, page.require) = (true, None, page.require || require);
        };
        self.write_super(change, how).await?;
        self.anchored(anchor, opens);
        self.disk.borrow_mut().session = session;
        Ok(())
    }

    /// Where the log goes on, and the segment that it is opened in for that.
    pub(super) fn where_to_go_on(&self) -> (Anchor, Option<u32>) {
        let log = &self.table.borrow().log;
        let opens = log.first_free().filter(|_| log.is_closed() && log.is_quiet());
        match opens {
            Some(segment) => (Anchor { segment, offset: 0, sequence: log.sequence + 1 }, opens),
            None => (log.anchor(), None),
        }
    }

    /// Whether nothing may be written: no session was begun, or the BOPT was given up.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.disk.borrow().session, Session::Untouched | Session::Detached)
    }

    /// Ends the session: the map is on disk with its dirty bits, and nothing has changed since. `left` tells what to
    /// leave of the origin; it is asked when the map is on disk. For who holds the locks of all pages.
    pub async fn stop(
        &self,
        left: impl AsyncFnOnce() -> Result<LastStop, IoError>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let _metadata = self.lock_metadata(how).await;
        if self.is_at_rest() {
            return Ok(());
        }
        if mutant::is("borg: a clean stop without dirty bits") {
            self.forget_unpersisted_bits();
        }
        self.checkpoint_locked(|segment| segment.bits > 0, how).await?;
        let LastStop { samples, mark } = left().await?;
        // It would prove copies that nobody has compared.
        let mark = mark.filter(|_| self.unproven() == 0);
        let require = self.dirty() > 0;
        let generations = self.table.borrow().segments.generations();
        let change = |page: &mut Super| {
            (page.clean, page.require, page.generations, page.samples, page.mark) =
                (true, require, generations, samples, mark);
        };
        self.disk.borrow_mut().session = Session::Ending;
        self.write_super(change, how).await?;
        self.disk.borrow_mut().session = Session::Untouched;
        // One copy is enough: what cannot be duplicated is not.
        drop(self.duplicate_all(how).await);
        Ok(())
    }

    /// For a bug that is let loose: pages are clean of which no map page has said yet that they are dirty.
    fn forget_unpersisted_bits(&self) {
        let table = &mut *self.table.borrow_mut();
        for segment in table.segments.which(|segment| segment.changes > 0) {
            self.layout.slots_of(segment).for_each(|slot| table.map.set_dirty(slot, false));
        }
    }

    /// Gives the BOPT up, which is empty: its marks go, and it is blank then. From now on nothing is appended or
    /// mapped, also if that fails.
    pub async fn erase(&self, how: &Hints) -> Result<(), IoError> {
        self.disk.borrow_mut().session = Session::Detached;
        let _metadata = self.lock_metadata(how).await;
        if self.identity().is_none() {
            return Ok(());
        }
        self.write_blank(how).await
    }
}
