//! A pass: readers that each ask for one block after the other, until nothing is left.
//!
//! A block that cannot be read is halved until its bad sectors are alone. A device that is gone ends the pass.

use futures_util::future::join_all;
use seekless_core::runtime::{self, edge};
use seekless_core::{
    Account, Buffer, Class, ErrorKind, Extent, Hints, IoError, Mode, Nanos, SECTOR_BYTES, Ticket,
};

use super::areas::Areas;
use super::{Scrub, State, did};

/// Who waits for its turn to read looks so often whether the pass is to end.
const LOOK: Nanos = Nanos::from_millis(100);

/// The halves of what is more than a block of the device.
fn halves(at: Extent, block: u64) -> Option<[Extent; 2]> {
    let first = (at.sectors / block).div_ceil(2) * block;
    (at.sectors > block).then(|| {
        [Extent { sectors: first, ..at }, Extent { start: at.start + first, sectors: at.sectors - first }]
    })
}

impl Scrub {
    /// Goes through all of the volume, or waits for whoever does that. Bad sectors are no error.
    ///
    /// # Errors
    /// What a device says that cannot be read for another reason.
    pub(super) async fn pass(&self, account: Account) -> Result<(), IoError> {
        let over = || {
            let counted = &self.state.borrow().counted;
            counted.passes + counted.unfinished
        };
        let before = over();
        let _turn = self.turn.lock(Extent::new(0, 1), Mode::Exclusive, Class::Background, None).await;
        if over() > before {
            edge("who wants a pass gets the one that is under way");
            return self.state.borrow().counted.last.clone().map_or(Ok(()), Err);
        }
        let class = self.options.class();
        let (readers, began) = (self.options.at_once(class), runtime::now());
        {
            let state = &mut *self.state.borrow_mut();
            let block = self.options.block.0 / SECTOR_BYTES;
            state.left = Areas::new(self.below.geometry().sectors, readers, block);
            (state.class, state.account, state.began, state.asked) = (class, account, began, 0);
            (state.failed, state.cut) = (None, false);
            state.found.begin();
        }
        let late = async {
            runtime::sleep_until(began + self.options.deadline).await;
            self.hurry();
            std::future::pending::<()>().await;
        };
        let all = join_all((0..readers).map(|reader| self.read_on(reader)));
        futures_util::future::select(Box::pin(all), Box::pin(late)).await;
        self.ended()
    }

    fn ended(&self) -> Result<(), IoError> {
        let State { left, began, failed, cut, counted, .. } = &mut *self.state.borrow_mut();
        let failed = failed.take();
        if failed.is_none() && !*cut && left.bytes() == 0 {
            counted.passes += 1;
            counted.took = runtime::now() - *began;
        } else {
            counted.unfinished += 1;
        }
        counted.last.clone_from(&failed);
        failed.map_or(Ok(()), Err)
    }

    /// From now on the pass goes on in the background.
    fn hurry(&self) {
        let tickets: Vec<Ticket> = {
            let state = &mut *self.state.borrow_mut();
            state.class = Class::Background;
            state.tickets.values().cloned().collect()
        };
        for ticket in tickets {
            ticket.promote(Class::Background);
        }
    }

    /// Lets the pass that is under way end where it is, and waits for that.
    pub(super) async fn end_early(&self) {
        let tickets: Vec<Ticket> = {
            let state = &mut *self.state.borrow_mut();
            state.awaited += 1;
            state.tickets.values().cloned().collect()
        };
        tickets.iter().for_each(Ticket::abort);
        drop(self.turn.lock(Extent::new(0, 1), Mode::Exclusive, Class::Foreground, None).await);
        self.state.borrow_mut().awaited -= 1;
    }

    fn is_to_end(&self) -> bool {
        let state = self.state.borrow();
        state.awaited > 0 || state.failed.is_some()
    }

    async fn read_on(&self, reader: usize) {
        while let Some(at) = self.next(reader) {
            if let Err(error) = self.look_at(reader, at).await {
                if self.state.borrow().awaited > 0 {
                    edge("a pass ends early: the layer is to stop or to go");
                    self.state.borrow_mut().cut = true;
                } else {
                    self.state.borrow_mut().failed.get_or_insert(error);
                }
            }
        }
    }

    /// The block that a reader is to read, or `None` if it is to end.
    fn next(&self, reader: usize) -> Option<Extent> {
        if self.is_to_end() {
            return None;
        }
        let state = &mut *self.state.borrow_mut();
        match state.class {
            Class::Free => state.left.spread(reader),
            class if reader < self.options.at_once(class) => state.left.first(),
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
            Err(error) if error.is_of_the_medium() => self.seek_bad(reader, at).await?,
            Err(error) => return Err(error),
        };
        let counted = &mut self.state.borrow_mut().counted;
        counted.bytes += at.bytes();
        counted.free_bytes += if free { at.bytes() } else { 0 };
        Ok(())
    }

    /// Reads; whether that was for free to the end.
    async fn ask(&self, reader: usize, at: Extent) -> Result<bool, IoError> {
        let ticket = Ticket::new();
        let how = {
            let state = &mut *self.state.borrow_mut();
            if state.awaited > 0 {
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

    /// Finds the bad sectors of a block by halves; whether all of it was read for free.
    async fn seek_bad(&self, reader: usize, at: Extent) -> Result<bool, IoError> {
        edge("a block cannot be read: its bad sectors are sought");
        self.state.borrow_mut().sought.insert(at.start.0, (at, Vec::new()));
        let sought = self.halve(reader, at).await;
        self.state.borrow_mut().sought.remove(&at.start.0);
        sought
    }

    async fn halve(&self, reader: usize, block: Extent) -> Result<bool, IoError> {
        let least = self.below.geometry().logical_sectors;
        let mut left: Vec<Extent> = halves(block, least).map_or_else(|| vec![block], Vec::from);
        left.reverse();
        let (mut free, mut any) = (true, false);
        while let Some(at) = left.pop() {
            match self.ask(reader, at).await {
                Ok(this) => {
                    free &= this;
                    self.state.borrow_mut().found.well(at);
                }
                Err(error) if !error.is_of_the_medium() => return Err(error),
                Err(_) => {
                    if let Some([one, other]) = halves(at, least) {
                        left.extend([other, one]);
                    } else {
                        any = true;
                        self.note_bad(block, at);
                    }
                }
            }
        }
        if !any {
            edge("a block that could not be read can be: nothing is wrong with it");
        }
        Ok(free)
    }

    /// A sector cannot be read, unless it was written while it was sought: the next pass will tell.
    fn note_bad(&self, block: Extent, at: Extent) {
        let State { found, sought, .. } = &mut *self.state.borrow_mut();
        let written =
            sought.get(&block.start.0).is_some_and(|(_, written)| written.iter().any(|w| w.overlaps(at)));
        if written {
            edge("a bad sector is written while it is sought");
        } else {
            did("cannot be read", at);
            found.bad(at.start);
        }
    }

    /// Waits until so much more may be read.
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
