//! Moves units, one at a time: the hottest of the other device to the fast one, and from there the coldest.
//!
//! A unit is locked while it is copied, so that no write is missed and no read finds a slot that is about to be released; a
//! request that waits for it promotes the copy to its own class. The new slot counts at once, and becomes durable with the
//! next flush, of clients or of the mover. Invariant: after each wait, what to move is chosen anew.

use seekless_core::runtime::{self, edge, now};
use seekless_core::{Buffer, Class, Extent, Hints, IoError, Nanos, Ticket};

use super::Hybrid;

/// Units that leave the fast device before the map is written, which frees their slots.
const AT_ONCE: usize = 64;

/// What the mover does next.
enum Next {
    Move { unit: u32, to: u32 },
    Commit,
    Wait(Nanos),
    Nothing,
}

impl Hybrid {
    /// Has units moved, if any should be.
    pub(super) fn move_later(&self) {
        if !self.can_improve() || self.moving.replace(true) {
            return;
        }
        let me = self.me.clone();
        runtime::spawn(async move {
            while let Some(hybrid) = me.upgrade() {
                let next = hybrid.next();
                let wait = match next {
                    Next::Nothing => {
                        hybrid.moving.set(false);
                        return;
                    }
                    Next::Wait(time) => time,
                    Next::Move { unit, to } => {
                        hybrid.relocate(unit, to).await;
                        continue;
                    }
                    Next::Commit => {
                        // If it fails, all later ones do, and nothing moves any more.
                        drop(hybrid.commit(&hybrid.background()).await);
                        continue;
                    }
                };
                drop(hybrid);
                runtime::sleep(wait).await;
            }
        })
        .detach();
    }

    fn background(&self) -> Hints {
        Hints { class: Class::Background, account: self.payer.get(), ..Hints::default() }
    }

    /// Whether a unit should be on the other device.
    fn can_improve(&self) -> bool {
        let (heat, map) = (self.heat.borrow(), self.map.borrow());
        let hot = heat.as_ref().and_then(|heat| Some((heat, heat.hottest(0)?.0)));
        hot.is_some_and(|(heat, count)| map.counts().0 > 0 || heat.colder(count).is_some())
            && !map.has_failed()
            && !self.stopping.get()
    }

    fn next(&self) -> Next {
        let quiet = now().since(self.last.get());
        let mut map = self.map.borrow_mut();
        if self.stopping.get() || map.has_failed() {
            return Next::Nothing;
        }
        if self.idle > Nanos::ZERO && (self.in_flight.get() > 0 || quiet < self.idle) {
            return Next::Wait(self.idle);
        }
        let heat = self.heat.borrow();
        let Some(heat) = heat.as_ref() else { return Next::Nothing };
        let (free, leaving, _) = map.counts();
        if let Some((_, unit)) = heat.hottest(0)
            && let Some(to) = map.take(true)
        {
            return Next::Move { unit, to };
        }
        // Those that leave make room for as many of the hottest.
        let hot = heat.hottest(leaving).filter(|_| leaving < AT_ONCE);
        if let Some(unit) = hot.and_then(|(count, _)| heat.colder(count))
            && let Some(to) = map.take(false)
        {
            return Next::Move { unit, to };
        }
        // Then room for those that become hot next.
        if free + leaving < map.shape.spare as usize
            && let Some(unit) = heat.unused()
            && let Some(to) = map.take(false)
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
    async fn relocate(&self, unit: u32, to: u32) {
        let ticket = Some(Ticket::new());
        let how = Hints { ticket, ..self.background() };
        let _working = self.relocating.exclusive(Extent::new(0, 1), &how).await;
        let (sectors, at) = {
            let map = self.map.borrow();
            let sectors = map.shape.unit_sectors();
            (sectors, Extent::new(u64::from(unit) * sectors, sectors))
        };
        let _held = if self.canary.is("a move without its lock") {
            None
        } else {
            Some(self.locks.exclusive(at, &how).await)
        };
        let copied = async {
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
            edge("a unit moves to the fast device");
        } else {
            edge("a unit moves away from the fast device");
        }
    }

    /// Has nothing moved any more, and waits for a move that has begun.
    pub(super) async fn stop_moving(&self) {
        self.stopping.set(true);
        drop(self.relocating.exclusive(Extent::new(0, 1), &Hints::default()).await);
    }
}
