//! What is written of the map: map pages and the super page (sections 3.3 and 5.1).
//!
//! One writes at a time. A map page goes over the older of its two homes, so a torn one leaves the newer; it is made
//! from the map as it is, then what that relies on is made durable, then it is written and made durable itself.
//!
//! Nothing on disk changes before the first change of a session: what was read at opening is made durable then, and the
//! super page says where the log begins. What both homes hold is written in [`super::homes`].
//!
//! Faults: a map page that cannot be written is owed, and the map stays as if it had been: the next flush writes it,
//! or fails. A flush of a device that failed lets every later one fail: nobody knows what was lost.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use seekless_core::lock::Guard;
use seekless_core::runtime::{self, edge};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Mode, Ticket, mutant};

use super::map::Slot;
use super::page::{self, Anchor, Head, MapPage, NONE};
use super::segments::Segment;
use super::{Borg, State, did};

/// What may have changed since the BOPT was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Session {
    /// Nothing.
    Untouched,
    /// Nothing, but whether the mark of a clean stop is on disk nobody knows: it could not be written.
    Ending,
    /// The map.
    Mapped,
    /// Pages may be newer than home.
    Dirty,
}

/// A map page that is to be written.
pub(super) struct Saying {
    pub segment: u32,
    pub generation: u64,
    home: u64,
    changes: u64,
    bits: u64,
    settled: u64,
    /// Slots of the log before this one are claimed.
    filled: u32,
    limbo: Vec<Slot>,
    pub bytes: Vec<u8>,
}

impl State {
    /// The map page of a segment, as things are.
    pub(super) fn saying(&mut self, borg: &Borg, segment: u32) -> Saying {
        self.segments.generation += 1;
        let (generation, known) = (self.segments.generation, self.segments.of(segment));
        let (home, changes, bits) = (1 - known.home, known.changes, known.bits);
        let entry = |slot| self.map.page_at(slot).map(|page| (page, self.map.is_dirty(slot)));
        let entries: Vec<_> = borg.layout.slots_of(segment).map(entry).collect();
        let filled = entries.iter().rposition(Option::is_some).map_or(0, |last| last as u32 + 1);
        let settled = self.log.settled;
        let head = Head { at: borg.layout.map_page(segment, home), generation, identity: self.disk.identity };
        let page = MapPage { segment, settled, reaches: self.log.reached, entries };
        let bytes = page.encode(self.disk.version, &head);
        let limbo = self.segments.in_limbo(segment);
        self.segments.says_homes(segment, 1);
        Saying { segment, generation, home, changes, bits, settled, filled, limbo, bytes }
    }

    /// For a bug that is let loose: pages are clean of which no map page has said yet that they are dirty.
    fn forget_untold_bits(&mut self, borg: &Borg) {
        for segment in self.segments.which(|segment| segment.changes > 0) {
            borg.layout.slots_of(segment).for_each(|slot| self.map.set_dirty(slot, false));
        }
    }

    /// A map page is durable.
    pub(super) fn said(&mut self, said: &Saying) {
        let segment = self.segments.get(said.segment);
        (segment.generation, segment.home, segment.covered) = (said.generation, said.home, said.settled);
        segment.confirmed = segment.confirmed.max(said.filled);
        if segment.changes == said.changes {
            (segment.changes, segment.stale, segment.owed) = (0, false, false);
        }
        if segment.bits == said.bits {
            segment.bits = 0;
        }
        self.segments.out_of_limbo(&said.limbo);
    }
}

impl Borg {
    /// The turn to write metadata.
    pub(super) async fn turn(&self, how: &Hints) -> Guard {
        self.saying.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone()).await
    }

    /// Flushes home; once that failed, it always will.
    pub(super) async fn flush_home(&self, how: &Hints) -> Result<(), IoError> {
        self.unless_failed()?;
        let flushed = self.home.flush(how.clone()).await;
        self.flushed(flushed)
    }

    /// Flushes the BOPT; once that failed, it always will.
    pub(super) async fn flush_bopt(&self, how: &Hints) -> Result<(), IoError> {
        self.unless_failed()?;
        let flushed = self.bopt.flush(how.clone()).await;
        self.flushed(flushed)
    }

    fn unless_failed(&self) -> Result<(), IoError> {
        match &self.state.borrow().failed {
            Some(error) => {
                edge("a flush failed: all later ones fail");
                Err(error.clone())
            }
            None => Ok(()),
        }
    }

    fn flushed(&self, flushed: Result<(), IoError>) -> Result<(), IoError> {
        if let (Err(error), false) = (&flushed, mutant::is("borg: a failed flush is forgotten")) {
            self.state.borrow_mut().failed.get_or_insert_with(|| error.clone());
        }
        flushed
    }

    /// Writes the map pages of the segments that `wanted` accepts, and makes them durable.
    pub(super) async fn say(&self, wanted: impl Fn(&Segment) -> bool, how: &Hints) -> Result<(), IoError> {
        let _turn = self.turn(how).await;
        let segments = self.state.borrow().segments.which(wanted);
        self.say_these(&segments, how).await
    }

    /// The same of the segments that these slots are in, for who holds the turn.
    pub(super) async fn say_segments_of(
        &self,
        slots: impl Iterator<Item = Slot>,
        how: &Hints,
    ) -> Result<(), IoError> {
        let segments: BTreeSet<u32> = slots.map(|slot| self.layout.segment_of(slot).0).collect();
        self.say_these(&segments.into_iter().collect::<Vec<_>>(), how).await
    }

    /// The same for these segments, for who holds the turn. First those with claims that do not count on disk yet:
    /// what they take the place of may be withdrawn by any other.
    pub(super) async fn say_these(&self, segments: &[u32], how: &Hints) -> Result<(), IoError> {
        if segments.is_empty() {
            return Ok(());
        }
        // What could not be written, or only claims.
        let first =
            self.state.borrow().segments.which(|segment| {
                segment.taken == 0 && (segment.owed || (segment.changes > 0 && !segment.stale))
            });
        let rest = segments.iter().copied().filter(|segment| !first.contains(segment));
        let (cached, logged) = rest.partition(|segment| *segment < self.layout.read_cache);
        self.say_in_order(&[first, cached, logged], how).await
    }

    /// Writes the map pages of these segments, some together, and makes them durable before the next. What they withdraw
    /// has newer claims, which have to be durable first: those of runs, those of the read cache on what came from the
    /// log. (No other page changes its place without being home in between.) So all are made of the map as it is at one
    /// moment.
    async fn say_in_order(&self, order: &[Vec<u32>], how: &Hints) -> Result<(), IoError> {
        let saying: Vec<Vec<Saying>> = {
            let mut state = self.state.borrow_mut();
            let mut together =
                |segments: &Vec<u32>| segments.iter().map(|&segment| state.saying(self, segment)).collect();
            order.iter().map(&mut together).collect()
        };
        let mut done = self.flush_bopt(how).await;
        for pages in saying.iter().filter(|pages| !pages.is_empty()) {
            if done.is_ok() {
                done = self.write_pages(pages, how).await;
            }
            self.told(pages, done.is_ok());
        }
        done
    }

    /// These map pages are durable, or nobody knows.
    fn told(&self, pages: &[Saying], durable: bool) {
        let mut state = self.state.borrow_mut();
        for said in pages {
            if durable {
                state.said(said);
            } else {
                edge("a map page could not be written: it is owed");
                let segment = state.segments.get(said.segment);
                (segment.owed, segment.bits) = (true, segment.bits + 1);
            }
        }
        state.map_pages += pages.len() as u64;
    }

    pub(super) async fn write_pages(&self, saying: &[Saying], how: &Hints) -> Result<(), IoError> {
        let writes = saying.iter().map(|said| {
            let place = Extent::of_pages(self.layout.map_page(said.segment, said.home), 1);
            did("map page", place, place.start.0);
            self.bopt.write(place, Buffer::from_vec(said.bytes.clone()), how.clone())
        });
        join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        self.flush_bopt(how).await
    }

    /// To be called before anything changes: the first time, it makes what was found at opening the beginning of a
    /// session.
    pub(super) async fn begin(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        if self.state.borrow().session >= session {
            return Ok(());
        }
        // Whoever waits for the turn raises what is done in it.
        let how = Hints { ticket: Some(Ticket::new()), fua: false, ..how.clone() };
        let _turn = self.turn(&how).await;
        self.begin_now(session, &how).await
    }

    /// The same in the background, for a BOPT that is new: nobody waits for its formatting, and until then all goes
    /// home. It has its turn before whoever asks for one later.
    pub(super) fn begin_behind(&self) {
        let Some(borg) = self.me.upgrade().filter(|borg| !borg.state.borrow().tending) else { return };
        borg.state.borrow_mut().tending = true;
        let how = Hints { class: Class::Background, ticket: Some(Ticket::new()), ..Hints::default() };
        let turn = self.saying.lock(Extent::new(0, 1), Mode::Exclusive, how.class, how.ticket.clone());
        let work = async move {
            let _turn = turn.await;
            // What fails is tried again with the next write.
            drop(borg.begin_now(Session::Dirty, &how).await);
            borg.state.borrow_mut().tending = false;
        };
        runtime::spawn(work).detach();
    }

    /// Whether no session was ever begun: it holds nothing.
    pub(super) fn is_new(&self) -> bool {
        let state = self.state.borrow();
        state.session == Session::Untouched && state.disk.opening == 0
    }

    /// For who holds the turn.
    async fn begin_now(&self, session: Session, how: &Hints) -> Result<(), IoError> {
        let was = self.state.borrow().session;
        if was >= session {
            return Ok(());
        }
        if was < Session::Mapped {
            // Whoever wrote what was read may have ended before a flush.
            let (home, bopt) = join(self.flush_home(how), self.flush_bopt(how)).await;
            home.and(bopt)?;
            if self.state.borrow().disk.generation == 0 {
                self.format(how).await?;
            }
            self.take_away_torn(how).await?;
            // Also dirty bits that a program did not keep: from now on they count.
            let untold = |segment: &Segment| segment.changes > 0 || segment.bits > 0;
            let found = self.state.borrow().segments.which(untold);
            self.say_these(&found, how).await?;
        }
        let (anchor, opens) = self.where_to_go_on();
        let require = session == Session::Dirty;
        let counts = was < Session::Mapped && !mutant::is("borg: an opening is not counted");
        let opening = self.state.borrow().disk.opening + u64::from(counts);
        let change = |disk: &mut page::Super| {
            (disk.clean, disk.anchor, disk.opening) = (false, anchor, opening);
            (disk.exact, disk.mark, disk.require) = (true, None, disk.require || require);
        };
        self.write_super(change, how).await?;
        self.anchored(anchor, opens);
        self.state.borrow_mut().session = session;
        Ok(())
    }

    /// Where the log goes on, and the segment that it is opened in for that.
    fn where_to_go_on(&self) -> (Anchor, Option<u32>) {
        let state = self.state.borrow();
        let opens = state.log.first_free().filter(|_| state.log.is_closed() && state.log.is_quiet());
        match opens {
            Some(segment) => (Anchor { segment, offset: 0, sequence: state.log.sequence + 1 }, opens),
            None => (state.log.anchor(), None),
        }
    }

    /// The super page with the log's beginning is durable.
    fn anchored(&self, anchor: Anchor, opens: Option<u32>) {
        let mut state = self.state.borrow_mut();
        let State { log, segments, anchor_owed, anchored_at, .. } = &mut *state;
        // A run may have failed meanwhile.
        *anchor_owed = anchor_owed.filter(|failed| *failed >= anchor.sequence);
        if let Some(segment) = opens {
            edge("the log opens");
            log.reopen(segments, segment);
        }
        let taken = (anchor.segment != NONE).then(|| segments.of(anchor.segment).taken);
        *anchored_at = taken.filter(|taken| *taken > 0).unwrap_or(log.next_to_take());
        // Those behind what failed waited for this.
        state.settle(!self.bopt.geometry().volatile_cache);
    }

    /// The map tells all that runs did that are settled, and the log begins behind them; segments that hold nothing
    /// are free.
    pub(super) async fn checkpoint(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.turn(how).await;
        self.check_point(|_| false, how).await
    }

    /// The same for who holds the turn; also the map pages of segments that `also` accepts are written.
    async fn check_point(&self, also: impl Fn(&Segment) -> bool, how: &Hints) -> Result<(), IoError> {
        // Whoever waited for the turn may find the session ended: what is on disk is as it was left.
        if self.state.borrow().left || self.state.borrow().session == Session::Untouched {
            return Ok(());
        }
        loop {
            // What is settled while this goes on is not told: it lies behind this place.
            let (segments, anchor) = {
                let state = self.state.borrow();
                let untold = |segment: &Segment| {
                    segment.changes > 0 || segment.covered < segment.last_run || segment.owed || also(segment)
                };
                (state.segments.which(untold), state.log.anchor())
            };
            self.say_these(&segments, how).await?;
            self.write_super(|disk| disk.anchor = anchor, how).await?;
            self.anchored(anchor, None);
            self.free_segments(anchor);
            let (behind, opens) = self.where_to_go_on();
            if opens.is_none() {
                return Ok(());
            }
            // A log that goes on elsewhere leaves its runs behind: the map has to tell all of them before. It is closed,
            // so that there are no more.
            if behind.sequence == anchor.sequence {
                self.write_super(|disk| disk.anchor = behind, how).await?;
                self.anchored(behind, opens);
                return Ok(());
            }
        }
    }

    /// Segments that hold nothing, as the map on disk says, and lie before the log's beginning, are free.
    fn free_segments(&self, anchor: Anchor) {
        let State { log, segments, .. } = &mut *self.state.borrow_mut();
        let begin = if anchor.segment == NONE { u64::MAX } else { segments.of(anchor.segment).taken };
        // A log that will go on in a segment that it has not taken yet has left all others behind.
        let begin = if begin == 0 { u64::MAX } else { begin };
        let last = if log.is_quiet() { u64::MAX } else { log.settled };
        let empty = segments.which(|segment| {
            segment.taken > 0
                && segment.taken < begin
                && segment.valid == 0
                && segment.changes == 0
                && segment.last_run <= segment.covered.min(last)
        });
        log.give_back(segments, &empty);
    }

    /// Writes what could not be written before: a flush may be answered then.
    pub(super) async fn repair(&self, how: &Hints) -> Result<(), IoError> {
        if self.state.borrow().segments.which(|segment| segment.owed).is_empty()
            && self.state.borrow().anchor_owed.is_none()
        {
            return Ok(());
        }
        edge("a flush writes what was owed");
        self.checkpoint(how).await
    }

    /// Ends the session: the map is on disk with its dirty bits, and nothing has changed since. For who holds all locks.
    pub(super) async fn end_session(&self, how: &Hints) -> Result<(), IoError> {
        let _turn = self.turn(how).await;
        if self.state.borrow().left || self.state.borrow().session == Session::Untouched {
            return Ok(());
        }
        if mutant::is("borg: a clean stop without dirty bits") {
            self.state.borrow_mut().forget_untold_bits(self);
        }
        self.check_point(|segment| segment.bits > 0, how).await?;
        let samples = self.samples(how).await?;
        // It would prove copies that nobody has compared.
        let proven = self.state.borrow().origin.unproven.left() == 0;
        let mark = if proven { self.home_mark().await } else { None };
        let (require, generations) = {
            let state = self.state.borrow();
            (state.map.dirty() > 0, state.segments.generations())
        };
        let change = |disk: &mut page::Super| {
            (disk.clean, disk.require, disk.generations, disk.samples, disk.mark) =
                (true, require, generations, samples, mark);
        };
        self.state.borrow_mut().session = Session::Ending;
        self.write_super(change, how).await?;
        self.state.borrow_mut().session = Session::Untouched;
        // One home is enough: what cannot be copied is not.
        drop(self.copy_all(how).await);
        Ok(())
    }
}
