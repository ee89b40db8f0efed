//! Moves units, one at a time: the hottest of the others to a fast slot, and from there the coldest.
//!
//! A unit is locked while it is copied, so that no write is missed and no read finds a slot that is about to be
//! released; a request that waits for it promotes the copy to its own class. The new slot counts at once, and becomes
//! durable with the next flush, of clients or of the mover. Invariant: after each wait, what to move is chosen anew.

use std::rc::Weak;

use seekless_core::runtime::{self, edge, now};
use seekless_core::{Account, Buffer, Class, Extent, Hints, IoError, Nanos, Reconfigured, Stage, Ticket};

use super::Placed;

/// Units that leave fast slots before the map is written, which frees their slots.
const AT_ONCE: usize = 64;

/// What the mover does next.
pub enum Next {
    Move { unit: u32, to: u32 },
    Commit,
    Wait(Nanos),
    Nothing,
}

/// What a step of a mover leaves to do.
pub enum Left {
    More,
    Later(Nanos),
    Nothing,
}

/// Does steps one after the other, as long as its owner is there and something is left to do; then `end`s. Waits in
/// which the owner may go.
pub fn in_steps<T: 'static>(
    me: Weak<T>,
    step: impl AsyncFn(&T) -> Result<Left, IoError> + 'static,
    end: impl Fn(&T) + 'static,
) {
    runtime::spawn(async move {
        while let Some(owner) = me.upgrade() {
            // What failed is kept where the next request that depends on it finds it.
            let wait = match step(&owner).await.unwrap_or(Left::Nothing) {
                Left::Nothing => return end(&owner),
                Left::Later(time) => time,
                Left::More => continue,
            };
            drop(owner);
            runtime::sleep(wait).await;
        }
    })
    .detach();
}

impl Placed {
    /// Has units moved, if any should be.
    pub(super) fn move_later(&self) {
        if !self.clients.are_watched() || !self.can_improve() || self.moving.replace(true) {
            return;
        }
        let step = async |placed: &Placed| placed.step(false, placed.clients.payer()).await;
        in_steps(self.me.clone(), step, |placed| placed.moving.set(false));
    }

    /// Moves all that should be, beside clients. It ends, even if they go on making other units hot.
    pub(super) async fn move_now(&self, account: Account) -> Result<Reconfigured, IoError> {
        let (start, before) = (now(), self.moved());
        let (most, unit) = {
            let shape = self.map.borrow().shape;
            (2 * u64::from(shape.fast), shape.unit)
        };
        self.clients.moved();
        while self.moved() - before < most {
            let Left::More = self.step(true, account).await? else { break };
        }
        self.commit(&Hints { account, ..Hints::default() }).await?;
        let pages = (self.moved() - before) * unit;
        let stages = vec![Stage { name: "move", took: now().since(start), pages }];
        let nothing = Reconfigured { start, stages, ..Reconfigured::default() };
        Ok(Reconfigured { planned_pages: pages, copied_pages: pages, ..nothing })
    }

    /// Units moved.
    fn moved(&self) -> u64 {
        self.promoted.get() + self.demoted.get()
    }

    /// Does what is next; `asked` does not wait for a pause.
    async fn step(&self, asked: bool, account: Account) -> Result<Left, IoError> {
        let ticket = Some(Ticket::new());
        let how = Hints { class: Class::Background, account, ticket, ..Hints::default() };
        let _turn = self.relocating.exclusive(Extent::new(0, 1), &how).await;
        match self.next(asked) {
            Next::Nothing => return Ok(Left::Nothing),
            Next::Wait(time) => return Ok(Left::Later(time)),
            Next::Move { unit, to } => self.relocate(unit, to, &how).await,
            Next::Commit => self.commit(&Hints { ticket: None, ..how }).await?,
        }
        Ok(Left::More)
    }

    /// Whether a unit should be moved.
    pub(super) fn can_improve(&self) -> bool {
        let (heat, map) = (self.heat.borrow(), self.map.borrow());
        if let Some(order) = &*self.order.borrow() {
            return !order.is_done() && !map.has_failed() && !self.stopping.get();
        }
        let hot = heat.as_ref().and_then(|heat| Some((heat, heat.hottest(0)?.0)));
        hot.is_some_and(|(heat, count)| map.counts().0 > 0 || heat.colder(count).is_some())
            && !map.has_failed()
            && !self.stopping.get()
    }

    fn next(&self, asked: bool) -> Next {
        let mut map = self.map.borrow_mut();
        if self.stopping.get() || map.has_failed() {
            return Next::Nothing;
        }
        if let Some(time) = self.clients.wait(asked) {
            return Next::Wait(time);
        }
        if let Some(order) = &mut *self.order.borrow_mut() {
            let next = order.next(&mut map);
            if matches!(next, Next::Commit) && map.has_released() {
                edge("slots ran out: the map is written to free some");
            }
            return next;
        }
        let mut heat = self.heat.borrow_mut();
        let Some(heat) = heat.as_mut() else { return Next::Nothing };
        let (free, leaving) = map.counts();
        if let Some(unit) = heat.next_in_order(free)
            && let Some(to) = map.take(unit, true)
        {
            return Next::Move { unit, to };
        }
        // Those that leave make room for as many of the hottest.
        let hot = heat.hottest(leaving).filter(|_| leaving < AT_ONCE);
        if let Some(unit) = hot.and_then(|(count, _)| heat.colder(count))
            && let Some(to) = map.take(unit, false)
        {
            return Next::Move { unit, to };
        }
        // Then room for those that become hot next.
        if free + leaving < map.shape.spare as usize
            && let Some(unit) = heat.unused()
            && let Some(to) = map.take(unit, false)
        {
            return Next::Move { unit, to };
        }
        if leaving > 0 {
            edge("slots ran out: the map is written to free some");
            return Next::Commit;
        }
        // In the end too, so that clients' flushes need not.
        if map.has_unwritten() { Next::Commit } else { Next::Nothing }
    }

    /// Moves a unit to a free slot.
    async fn relocate(&self, unit: u32, to: u32, how: &Hints) {
        let (sectors, at) = {
            let map = self.map.borrow();
            let sectors = map.shape.unit_sectors();
            (sectors, Extent::new(u64::from(unit) * sectors, sectors))
        };
        let _held = if self.canary.is("a move without its lock") {
            None
        } else {
            Some(self.locks.exclusive(at, how).await)
        };
        let copied = async {
            self.begin(how).await?;
            let bytes =
                if self.timing_only { Buffer::hollow_sectors(sectors) } else { Buffer::zeroed(at.bytes()) };
            let from = self.map.borrow().slot(unit);
            let (device, there) = self.place(from, at);
            let bytes = device.read(there, bytes, how.clone()).await?;
            let (device, there) = self.place(to, at);
            device.write(there, bytes, how.clone()).await?;
            Ok::<u32, IoError>(from)
        };
        let copied = copied.await;
        let (mut map, mut heat) = (self.map.borrow_mut(), self.heat.borrow_mut());
        let Some(heat) = heat.as_mut() else { return };
        let Ok(from) = copied else {
            edge("a move failed: its unit stays");
            map.give_back(to);
            heat.cool(unit, map.is_fast(unit));
            return;
        };
        if !self.committing.is_empty() {
            edge("a unit moves while the map is written");
        }
        map.change(unit, to, self.canary.is("early reuse"));
        self.canary.moved(u64::from(unit), from);
        let is_fast = map.is_fast(unit);
        heat.moved(unit, is_fast);
        let count = if is_fast { &self.promoted } else { &self.demoted };
        count.set(count.get() + 1);
        if is_fast {
            edge("a unit moves to a fast slot");
        } else {
            edge("a unit moves away from a fast slot");
        }
    }

    /// Has nothing moved any more, and waits for a move that has begun.
    pub(super) async fn stop_moving(&self) {
        self.stopping.set(true);
        drop(self.relocating.exclusive(Extent::new(0, 1), &Hints::default()).await);
    }
}
