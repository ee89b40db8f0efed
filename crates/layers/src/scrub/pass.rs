//! A pass: readers that each read one block after the other, until none remain.
//!
//! A block that cannot be read is halved until its bad sectors are isolated. A device that is gone ends the pass.

use futures_util::future::select;
use seekless_core::runtime::{self, edge};
use seekless_core::{Account, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, Nanos, Op, Ticket};

use super::areas::Areas;
use super::{Scrub, State, did};

use crate::join::join_all;

/// Interval at which a reader that waits checks whether the pass is to end.
const LOOK: Nanos = Nanos::from_millis(100);

impl Scrub {
    /// Runs a pass, or waits for the running one. Bad sectors are not an error.
    ///
    /// # Errors
    /// The device's error, if a read fails for another reason.
    pub(super) async fn pass(&self, account: Account) -> Result<(), IoError> {
        let over = || {
            let counted = &self.state.borrow().counted;
            counted.passes + counted.unfinished
        };
        let before = over();
        let _turn = self.turn.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        if over() > before {
            edge("a request for a pass joins the running one");
            return self.state.borrow().counted.last.clone().map_or(Ok(()), Err);
        }
        let (class, sectors) = (self.class(), self.below.geometry().sectors);
        let ((readers, block), began) = (self.options.reads(class, sectors), runtime::now());
        {
            let state = &mut *self.state.borrow_mut();
            state.left = Areas::new(sectors, readers, block);
            (state.class, state.account, state.began, state.asked) = (class, account, began, 0);
            state.failed = None;
            state.found.begin();
        }
        let late = async {
            runtime::sleep_until(began + self.options.deadline).await;
            self.boost();
            std::future::pending::<()>().await;
        };
        let all = join_all((0..readers).map(|reader| self.read_on(reader)));
        select(Box::pin(all), Box::pin(late)).await;
        // Bytes of aborted reads.
        let (readers, _) = self.options.reads(Class::Background, sectors);
        join_all((0..readers).map(|reader| self.read_on(reader))).await;
        self.ended()
    }

    /// Class of a pass before its deadline. Without a drive model nothing is free: then it reads in order.
    fn class(&self) -> Class {
        let how = Hints { class: self.options.class(), ..Hints::default() };
        if self.below.estimate(Op::Read, Extent::new(0, 1), &how).is_some() {
            how.class
        } else {
            Class::Background
        }
    }

    fn ended(&self) -> Result<(), IoError> {
        let State { left, began, failed, counted, .. } = &mut *self.state.borrow_mut();
        let failed = failed.take();
        if failed.is_none() && left.bytes() == 0 {
            counted.passes += 1;
            counted.took = runtime::now() - *began;
        } else {
            counted.unfinished += 1;
        }
        counted.last.clone_from(&failed);
        failed.map_or(Ok(()), Err)
    }

    /// Continues the pass in the background: reads in flight are aborted, and repeated in order.
    fn boost(&self) {
        let tickets: Vec<Ticket> = {
            let state = &mut *self.state.borrow_mut();
            if state.class == Class::Background {
                return;
            }
            let (_, block) = self.options.reads(Class::Background, 0);
            state.class = Class::Background;
            state.left.in_blocks(block);
            state.tickets.values().cloned().collect()
        };
        tickets.iter().for_each(Ticket::abort);
    }

    /// Ends the running pass early, and waits for that.
    pub(super) async fn end_early(&self) {
        let tickets: Vec<Ticket> = {
            let state = &mut *self.state.borrow_mut();
            state.waiters += 1;
            state.tickets.values().cloned().collect()
        };
        tickets.iter().for_each(Ticket::abort);
        drop(self.turn.lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None).await);
        self.state.borrow_mut().waiters -= 1;
    }

    fn is_to_end(&self) -> bool {
        let state = self.state.borrow();
        state.waiters > 0 || state.failed.is_some()
    }

    async fn read_on(&self, reader: usize) {
        while let Some(at) = self.next(reader) {
            let Err(error) = self.look_at(reader, at).await else { continue };
            let state = &mut *self.state.borrow_mut();
            if state.waiters > 0 {
                edge("a pass ends early: the layer stops or is detached");
            } else if error.kind() != ErrorKind::Aborted {
                state.failed.get_or_insert(error);
            }
            state.left.give_back(at);
        }
    }

    /// The next block of a reader, or `None` if it is to end.
    fn next(&self, reader: usize) -> Option<Extent> {
        if self.is_to_end() {
            return None;
        }
        let state = &mut *self.state.borrow_mut();
        match state.class {
            Class::Free => state.left.spread(reader),
            class if reader < self.options.reads(class, 0).0 => state.left.first(),
            _ => None,
        }
    }

    async fn look_at(&self, reader: usize, at: Extent) -> Result<(), IoError> {
        self.wait_for_the_rate(at).await;
        let free = match self.ask(reader, at).await {
            Ok(free) => {
                self.state.borrow_mut().found.well(at);
                free
            }
            Err(error) if error.is_medium_error() => self.seek_bad(reader, at).await?,
            Err(error) => return Err(error),
        };
        let counted = &mut self.state.borrow_mut().counted;
        counted.bytes += at.bytes();
        counted.free_bytes += if free { at.bytes() } else { 0 };
        Ok(())
    }

    /// Reads a block; returns whether it was completely read for free.
    async fn ask(&self, reader: usize, at: Extent) -> Result<bool, IoError> {
        let ticket = Ticket::new();
        let how = {
            let state = &mut *self.state.borrow_mut();
            if state.waiters > 0 {
                let why = "the layer is to stop or to go";
                return Err(IoError::new(ErrorKind::Aborted, "scrub", Some(at), why));
            }
            state.tickets.insert(reader, ticket.clone());
            let (class, account) = (state.class, state.account);
            Hints { class, account, verify: true, ticket: Some(ticket), ..Hints::default() }
        };
        let read = self.below.read(at, Buffer::hollow_sectors(at.sectors), how.clone()).await;
        self.state.borrow_mut().tickets.remove(&reader);
        read.map(|_| how.effective_class() == Class::Free)
    }

    /// Finds the bad sectors of a block by halving; returns whether all of it was read for free.
    async fn seek_bad(&self, reader: usize, at: Extent) -> Result<bool, IoError> {
        edge("a block cannot be read: its bad sectors are located");
        self.state.borrow_mut().sought.insert(at.start.0, (at, Vec::new()));
        let sought = self.halve(reader, at).await;
        self.state.borrow_mut().sought.remove(&at.start.0);
        sought
    }

    async fn halve(&self, reader: usize, block: Extent) -> Result<bool, IoError> {
        let least = self.below.geometry().logical_sectors;
        let mut left: Vec<Extent> = block.halves(least).map_or_else(|| vec![block], Vec::from);
        left.reverse();
        let (mut free, mut any) = (true, false);
        while let Some(at) = left.pop() {
            match self.ask(reader, at).await {
                Ok(this) => {
                    free &= this;
                    self.state.borrow_mut().found.well(at);
                }
                Err(error) if !error.is_medium_error() => return Err(error),
                Err(_) => {
                    if let Some([one, other]) = at.halves(least) {
                        left.extend([other, one]);
                    } else {
                        any = true;
                        self.note_bad(block, at);
                    }
                }
            }
        }
        if !any {
            edge("a block that could not be read is readable after all");
        }
        Ok(free)
    }

    /// Lists a bad sector, unless it was written during the search: the next pass will check it.
    fn note_bad(&self, block: Extent, at: Extent) {
        let State { found, sought, .. } = &mut *self.state.borrow_mut();
        let written =
            sought.get(&block.start.0).is_some_and(|(_, written)| written.iter().any(|w| w.overlaps(at)));
        if written {
            edge("a bad sector is written while it is located");
        } else {
            did("cannot be read", at);
            found.bad(at.start);
        }
    }

    /// Waits for the rate limit.
    async fn wait_for_the_rate(&self, at: Extent) {
        let rate = self.options.rate.0;
        if rate == 0 {
            return;
        }
        let due = {
            let state = &mut *self.state.borrow_mut();
            let due = Nanos((u128::from(state.asked) * 1_000_000_000 / u128::from(rate)) as u64);
            state.asked += at.bytes();
            state.began + due
        };
        while runtime::now() < due && !self.is_to_end() {
            runtime::sleep(due.since(runtime::now()).min(LOOK)).await;
        }
    }
}
