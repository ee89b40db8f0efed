//! The path of requests. A read goes to the unit's own place or to a copy, whichever the head reaches first; a write
//! goes to the unit's own place, and its copies count no more or are written too.

use std::ops::Range;

use futures_util::future::join;
use seekless_core::device::{ExtentState, Place, io, unknown_command};
use seekless_core::runtime::edge;
use seekless_core::{
    Account, BlockDevice, Buffer, Counters, ErrorKind, Extent, Geometry, Hints, Hits, IoError, IoFuture,
    Layer, Nanos, Op, Readiness, Reconfigured, Zeroes, mutant,
};

use super::copies::Run;
use super::{KIND, Replicas};
use crate::join::join_all;
use crate::placed::{Access, InFlight, Shape};

/// Part of a request in place: where, and its part of the volume.
struct Piece {
    there: Extent,
    here: Extent,
}

/// The units of a request.
fn units(shape: &Shape, at: Extent) -> Range<u32> {
    let unit = shape.unit_sectors();
    (at.start.0 / unit) as u32..at.end().0.div_ceil(unit) as u32
}

/// Where to read.
#[derive(Clone, Copy)]
enum Nearest {
    Own,
    Copy { band: u32, there: Extent, run: Run },
}

/// Places in use, until this is dropped.
struct InUse<'a> {
    of: &'a Replicas,
    run: Run,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.of.copies.borrow_mut().used(self.run);
    }
}

impl Replicas {
    /// The units of a request.
    fn units(&self, at: Extent) -> Range<u32> {
        units(&self.copies.borrow().shape, at)
    }

    /// A sequence of reads goes on here. If it leaves a unit, a copy of that helps it little: from there it has to
    /// return.
    fn leaves(&self, at: Extent) {
        let units = self.units(Extent::new(at.start.0.saturating_sub(1), at.sectors + 1));
        let left = units.start;
        if units.len() > 1 {
            let (mut heat, mut copies) = (self.heat.borrow_mut(), self.copies.borrow_mut());
            if heat.halve(left, copies.has(left)) < self.least && copies.remove(left) {
                edge("a sequence goes on: its copies are removed");
                heat.moved(left, false);
            }
        }
    }

    /// The parts of a request in the units' own places, as long as they are contiguous.
    fn pieces(&self, at: Extent) -> Vec<Piece> {
        let shape = self.copies.borrow().shape;
        let mut pieces: Vec<Piece> = Vec::with_capacity(1);
        for here in at.split(shape.unit_sectors()) {
            let unit = (here.start.0 / shape.unit_sectors()) as u32;
            let there = self.slot(shape.first_slot(unit), here);
            match pieces.last_mut().filter(|last| last.there.end() == there.start) {
                Some(last) => {
                    last.there.sectors += there.sectors;
                    last.here.sectors += here.sectors;
                }
                None => pieces.push(Piece { there, here }),
            }
        }
        pieces
    }

    /// Notes a request of a client, and has units copied if that changes which are hot. It is in flight until the
    /// result is dropped.
    fn arrived(&self, at: Extent, how: &Hints, reads: bool) -> InFlight<'_> {
        match self.clients.access(at, how) {
            Access::Counts if reads => {
                let (mut heat, copies) = (self.heat.borrow_mut(), self.copies.borrow());
                units(&copies.shape, at).for_each(|unit| heat.touch(unit, copies.has(unit)));
            }
            Access::GoesOn if reads => self.leaves(at),
            _ => {}
        }
        let in_flight = self.clients.in_flight(how);
        if in_flight.counts {
            self.copy_later();
        }
        in_flight
    }

    /// The place from which a read begins first, of those that have not failed: copies as bits, of the bands; with
    /// `own_fails`, of the copies, if there are any.
    fn nearest(&self, at: Extent, how: &Hints, failed: u8, own_fails: bool) -> Nearest {
        let run = self.copies.borrow().run(self.units(at));
        let Some(run) = run.filter(|run| run.bands & !failed != 0) else { return Nearest::Own };
        let shape = self.copies.borrow().shape;
        let copy = |band| {
            let slot = band * shape.band() + run.first;
            let start = self.slot(slot, at.split(shape.unit_sectors()).next().unwrap_or(at)).start;
            (Nearest::Copy { band, there: Extent { start, ..at }, run }, Extent { start, ..at })
        };
        let bands = (0..shape.bands).filter(|band| run.bands & !failed & 1 << band != 0);
        let own = self.pieces(at).into_iter().next().filter(|_| !own_fails);
        let own = own.map(|piece| (Nearest::Own, piece.there));
        let all: Vec<(Nearest, Extent)> = own.into_iter().chain(bands.map(copy)).collect();
        let estimates = all.iter().map(|(_, there)| self.below.estimate(Op::Read, *there, how));
        let costs: Option<Vec<u64>> = estimates.map(|estimate| estimate.map(|Nanos(time)| time)).collect();
        // Where times are not known, the way from the last request counts.
        let head = self.head.get().0;
        let costs =
            costs.unwrap_or_else(|| all.iter().map(|(_, there)| there.start.0.abs_diff(head)).collect());
        let nearest = costs.into_iter().zip(&all).min_by_key(|(cost, _)| *cost);
        nearest.map_or(Nearest::Own, |(_, (nearest, _))| *nearest)
    }

    /// Reads from the nearest place; if that fails, from another one: a unit's own place that fails is repaired from a
    /// copy.
    async fn read_nearest(&self, at: Extent, into: Buffer, how: Hints) -> Result<Buffer, IoError> {
        let (mut failed, mut own_error) = (0, None);
        loop {
            // Chosen anew each time: meanwhile other copies may have been removed.
            let Nearest::Copy { band, there, run } = self.nearest(at, &how, failed, own_error.is_some())
            else {
                if let Some(error) = own_error {
                    return Err(error);
                }
                match self.read_own(at, into.clone(), &how).await {
                    Err(error) if error.kind() != ErrorKind::Aborted => own_error = Some(error),
                    read => return read,
                }
                continue;
            };
            let _in_use = self.in_use(run);
            self.head.set(there.end());
            let read = self.below.read(there, into.clone(), how.clone()).await;
            match read {
                Err(error) if error.kind() != ErrorKind::Aborted => {
                    edge("a copy cannot be read: another one is");
                    failed |= 1 << band;
                    self.avoid(at, band);
                }
                read => {
                    self.reads_of_copies.set(self.reads_of_copies.get() + u64::from(read.is_ok()));
                    if let (Ok(bytes), Some(_)) = (&read, &own_error) {
                        edge("a unit's own place cannot be read: a copy is, and it is written again");
                        self.repair(at, bytes, &how).await;
                    }
                    return read;
                }
            }
        }
    }

    /// Writes a unit's own place again, with what is there; it may fail. The caller holds the lock of a reader.
    async fn repair(&self, at: Extent, bytes: &Buffer, how: &Hints) {
        let how = &Hints { fua: false, ..how.clone() };
        let writes = self.pieces(at).into_iter().map(|piece| {
            let part = bytes.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
            self.below.write(piece.there, part, how.clone())
        });
        join_all(writes).await;
    }

    /// Reads from the units' own places.
    async fn read_own(&self, at: Extent, into: Buffer, how: &Hints) -> Result<Buffer, IoError> {
        let pieces = self.pieces(at);
        if let [piece] = &pieces[..] {
            self.head.set(piece.there.end());
            return self.below.read(piece.there, into, how.clone()).await;
        }
        let reads = pieces.iter().map(|piece| {
            let part = into.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
            self.below.read(piece.there, part, how.clone())
        });
        let read: Result<Vec<Buffer>, IoError> = join_all(reads).await.into_iter().collect();
        read.map(Buffer::join)
    }

    /// The copies of these units in a band are used no more.
    fn avoid(&self, at: Extent, band: u32) {
        let (mut copies, mut heat) = (self.copies.borrow_mut(), self.heat.borrow_mut());
        let band = band * copies.shape.band()..(band + 1) * copies.shape.band();
        for unit in units(&copies.shape, at) {
            for slot in copies.slots(unit).into_iter().filter(|slot| band.contains(slot)) {
                if let Some(unit) = copies.avoid(slot) {
                    heat.cool(unit, false);
                }
            }
        }
    }

    /// These units change: copies of them that are being made do not count.
    fn pass(&self, at: Extent) {
        if let Some((unit, _)) = self.passed.get()
            && (self.units(at).contains(&unit)
                && !(mutant::is("replicas: a copy does not see the end of a write")
                    && unit > self.units(at).start))
        {
            self.passed.set(Some((unit, true)));
        }
    }

    /// The copies of these units count no more. Copies of units that are often written do not pay: each write halves a
    /// count.
    fn remove(&self, at: Extent) {
        for unit in self.units(at) {
            if self.canary.is("stale copy") && unit % 2 == 0 {
                continue;
            }
            if self.copies.borrow_mut().remove(unit) {
                edge("a write removes copies");
                self.removed.set(self.removed.get() + 1);
            }
            self.heat.borrow_mut().halve(unit, false);
        }
    }

    /// Writes to all copies of these units; those that cannot be written are used no more.
    async fn update(&self, at: Extent, from: &Buffer, how: &Hints) {
        let shape = self.copies.borrow().shape;
        let mut parts = Vec::new();
        for here in at.split(shape.unit_sectors()) {
            let unit = (here.start.0 / shape.unit_sectors()) as u32;
            let slots = self.copies.borrow().slots(unit);
            parts.extend(slots.into_iter().map(|slot| (slot, here)));
        }
        if self.canary.is("stale copy") {
            parts.truncate(1);
        }
        let how = &Hints { fua: false, ..how.clone() };
        let each = parts.into_iter().map(|(slot, here)| async move {
            edge("a write updates copies");
            let run = Run { first: slot % shape.band(), count: 1, bands: 0 };
            let _in_use = self.in_use(run);
            let part = from.cut_sectors(here.start.0 - at.start.0, here.sectors);
            if self.below.write(self.slot(slot, here), part, how.clone()).await.is_ok() {
                self.updated.set(self.updated.get() + 1);
                return;
            }
            edge("an update of a copy failed");
            let lost = self.copies.borrow_mut().avoid(slot);
            if let Some(unit) = lost {
                self.heat.borrow_mut().cool(unit, false);
            }
        });
        join_all(each).await;
    }

    fn in_use(&self, run: Run) -> InUse<'_> {
        self.copies.borrow_mut().uses(run);
        InUse { of: self, run }
    }

    /// A request that changes data: `each` issues a part of it. If it is a write that is to update copies, `updates`
    /// has its data.
    async fn modify<'a>(
        &'a self,
        at: Extent,
        how: Hints,
        updates: Option<Buffer>,
        each: impl Fn(&Piece, Hints) -> IoFuture<'a, ()>,
    ) -> Result<(), IoError> {
        let _in_flight = self.arrived(at, &how, false);
        let _held = self.locks.exclusive(at, &how).await;
        self.void(&how).await?;
        self.pass(at);
        if updates.is_none() {
            self.remove(at);
        }
        let pieces = self.pieces(at);
        if let Some(last) = pieces.last() {
            self.head.set(last.there.end());
        }
        let own = join_all(pieces.iter().map(|piece| each(piece, how.clone())));
        let copies = async {
            if let Some(from) = &updates {
                self.update(at, from, &how).await;
            }
        };
        let (own, ()) = join(own, copies).await;
        let done: Result<(), IoError> = own.into_iter().collect();
        if done.is_err() {
            edge("a unit whose write failed has no copies");
            if !mutant::is("replicas: a unit whose write failed is copied") {
                self.uncertain.borrow_mut().extend(self.units(at));
            }
            self.pass(at);
            self.remove(at);
        }
        done
    }
}

impl BlockDevice for Replicas {
    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        Geometry { sectors: self.copies.borrow().shape.sectors(), volatile_cache: true, ..below }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _in_flight = self.arrived(at, &how, true);
            let _held = self.locks.shared(at, &how).await;
            self.reads.set(self.reads.get() + 1);
            self.read_nearest(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        let updates = self.updates.then(|| from.clone());
        io(self.modify(at, how, updates, move |piece, how| {
            let part = from.cut_sectors(piece.here.start.0 - at.start.0, piece.here.sectors);
            self.below.write(piece.there, part, how)
        }))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.commit(&how).await })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(self.modify(at, how, None, |piece, how| self.below.discard(piece.there, how)))
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(self.modify(at, how, None, move |piece, how| self.below.write_zeroes(piece.there, how, zeroes)))
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let pieces = self.pieces(at);
            let parts = pieces.iter().map(|piece| self.below.prefetch(piece.there, how.clone()));
            join_all(parts).await.into_iter().collect()
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let _held = self.locks.shared(at, &Hints::default()).await;
            let mut all = Vec::new();
            for piece in self.pieces(at) {
                for state in self.below.extents(piece.there).await? {
                    let start = piece.here.start + (state.extent.start.0 - piece.there.start.0);
                    all.push(ExtentState { extent: Extent { start, ..state.extent }, ..state });
                }
            }
            Ok(all)
        })
    }

    /// Not known of units that have copies: any of them may be read.
    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        let shape = self.copies.borrow().shape;
        for part in at.split(shape.unit_sectors()) {
            let unit = (part.start.0 / shape.unit_sectors()) as u32;
            if self.copies.borrow().has(unit) {
                each(part, Place::Unknown);
                continue;
            }
            let there = self.slot(shape.first_slot(unit), part);
            self.below.places(there, &mut |found, place| {
                each(Extent { start: part.start + (found.start.0 - there.start.0), ..found }, place);
            });
        }
    }

    fn heat(&self, at: Extent, each: &mut dyn FnMut(Extent, u32)) -> bool {
        let (heat, unit) = (self.heat.borrow(), self.copies.borrow().shape.unit_sectors());
        at.split(unit).for_each(|part| each(part, u32::from(heat.of((part.start.0 / unit) as u32))));
        true
    }

    fn estimate(&self, op: Op, at: Extent, how: &Hints) -> Option<Nanos> {
        let nearest = if op == Op::Read { self.nearest(at, how, 0, false) } else { Nearest::Own };
        let there = match nearest {
            Nearest::Copy { there, .. } => there,
            Nearest::Own => self.pieces(at).first()?.there,
        };
        self.below.estimate(op, there, how)
    }
}

impl Layer for Replicas {
    fn counters(&self) -> Counters {
        vec![
            ("reads", self.reads.get()),
            ("reads_of_copies", self.reads_of_copies.get()),
            ("copies_made", self.copied.get()),
            ("copies_updated", self.updated.get()),
            ("units_invalidated", self.removed.get()),
            ("map_sectors_written", self.copies.borrow().sectors_written()),
        ]
    }

    fn hits(&self) -> Option<Hits> {
        Some(Hits { lookups: self.reads.get(), hit: self.reads_of_copies.get() })
    }

    /// Identity of the volume, on its disk.
    fn identity(&self) -> Option<u128> {
        Some(self.identity)
    }

    fn command(&self, name: &str, how: Hints) -> IoFuture<'_, ()> {
        let name = name.to_owned();
        io(async move {
            if !KIND.commands.contains(&name.as_str()) {
                return Err(unknown_command(KIND.name, &name, KIND.commands));
            }
            self.copy_now(how.account).await.map(drop)
        })
    }

    fn reconfigure(&self, account: Account) -> IoFuture<'_, Option<Reconfigured>> {
        io(async move { self.copy_now(account).await.map(Some) })
    }

    fn readiness(&self) -> Readiness {
        self.clients.readiness(self.can_improve())
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(self.stop_with_copies())
    }
}
