//! Models of devices: what a layer needs to try in virtual time what it is about to do on the real device.
//!
//! A model makes twins. A twin is a device that takes as long as the real one and keeps no bytes; it lives in the
//! runtime that it was made in, which is another one than that of the real device ([`crate::runtime`] nests).
//!
//! Invariant: slices of one device lie on one twin, so that its head moves between them as the real one does.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::device::BlockDevice;
use crate::request::Account;
use crate::slice::Slice;
use crate::units::{Extent, Nanos};

/// A model of a device: makes twins of it, on any thread.
pub trait Model: Send + Sync {
    /// A twin in the runtime that the caller runs in, idle.
    fn twin(&self) -> Twin;
}

/// A device that takes as long as the one that it was modelled on, and keeps no bytes.
pub struct Twin {
    /// The device.
    pub device: Rc<dyn BlockDevice>,
    /// How long it was busy for an account so far.
    pub busy: Box<dyn Fn(Account) -> Nanos>,
}

/// Where a device lies on those that have models.
#[derive(Clone)]
pub struct Modelled {
    /// Pieces, each after the one before.
    pieces: Vec<Piece>,
}

/// Sectors of a device that has a model.
#[derive(Clone)]
struct Piece {
    model: Arc<dyn Model>,
    at: Extent,
}

impl Modelled {
    /// The first `sectors` sectors of a device that this is the model of.
    pub fn new(model: Arc<dyn Model>, sectors: u64) -> Modelled {
        Modelled { pieces: vec![Piece { model, at: Extent::new(0, sectors) }] }
    }

    /// All of these, one after the other.
    pub fn joined(parts: impl IntoIterator<Item = Modelled>) -> Modelled {
        Modelled { pieces: parts.into_iter().flat_map(|part| part.pieces).collect() }
    }

    /// Its size.
    pub fn sectors(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.at.sectors).sum()
    }

    /// The part of it from `at` on; `None` if that reaches past its end.
    pub fn part(&self, at: Extent) -> Option<Modelled> {
        let (mut start, end) = (at.start.0, at.start.0.checked_add(at.sectors)?);
        let (mut first, mut pieces) = (0, Vec::new());
        for Piece { model, at } in &self.pieces {
            let last = first + at.sectors;
            let until = end.min(last);
            if start < until {
                let at = Extent::new(at.start.0 + (start - first), until - start);
                pieces.push(Piece { model: model.clone(), at });
                start = until;
            }
            first = last;
        }
        (end <= first).then_some(Modelled { pieces })
    }
}

impl fmt::Debug for Modelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<Extent> = self.pieces.iter().map(|piece| piece.at).collect();
        write!(f, "Modelled({extents:?})")
    }
}

/// Twins of several devices.
pub struct Twins {
    each: Vec<(Arc<dyn Model>, Twin)>,
    /// In the order of what they are twins of, each in its pieces; `None` where a model is smaller than what lies on
    /// it.
    pub devices: Vec<Option<Vec<Rc<dyn BlockDevice>>>>,
}

impl Twins {
    /// Twins of these devices, one for all that lie on one model.
    pub fn new(of: &[Modelled]) -> Twins {
        let mut twins = Twins { each: Vec::new(), devices: Vec::new() };
        for modelled in of {
            let pieces = modelled.pieces.iter().map(|piece| twins.piece(piece)).collect();
            twins.devices.push(pieces);
        }
        twins
    }

    fn piece(&mut self, Piece { model, at }: &Piece) -> Option<Rc<dyn BlockDevice>> {
        let is_known = |(known, _): &(Arc<dyn Model>, Twin)| Arc::ptr_eq(known, model);
        let index = self.each.iter().position(is_known).unwrap_or_else(|| {
            self.each.push((model.clone(), model.twin()));
            self.each.len() - 1
        });
        Some(Rc::new(Slice::new(self.each[index].1.device.clone(), *at)?))
    }

    /// How long all of them were busy for an account so far.
    pub fn busy(&self, account: Account) -> Nanos {
        self.each.iter().map(|(_, twin)| (twin.busy)(account)).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Geometry;
    use crate::device::IoFuture;
    use crate::request::Hints;
    use crate::runtime::Runtime;
    use crate::units::Lba;

    /// It is busy for a nanosecond a flush.
    #[derive(Default)]
    struct Counter(Rc<Cell<u64>>);

    impl BlockDevice for Counter {
        fn geometry(&self) -> Geometry {
            Geometry::of_memory(100)
        }

        fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
            self.0.set(self.0.get() + 1);
            Box::pin(std::future::ready(Ok(())))
        }
    }

    struct Counting;

    impl Model for Counting {
        fn twin(&self) -> Twin {
            let device = Counter::default();
            let count = device.0.clone();
            Twin { device: Rc::new(device), busy: Box::new(move |_| Nanos(count.get())) }
        }
    }

    fn whole(model: &Arc<dyn Model>) -> Modelled {
        Modelled::new(model.clone(), 100)
    }

    #[test]
    fn parts_of_one_device_share_its_twin() {
        let (one, other): (Arc<dyn Model>, Arc<dyn Model>) = (Arc::new(Counting), Arc::new(Counting));
        let part = whole(&one).part(Extent::new(60, 40)).unwrap();
        let twins = Twins::new(&[whole(&one), part, whole(&other)]);
        let flush = |index: usize| {
            let device = twins.devices[index].as_ref().unwrap()[0].clone();
            Runtime::new(1).run(async move { device.flush(Hints::default()).await }).unwrap().unwrap();
        };
        assert_eq!(twins.each.len(), 2);
        assert_eq!(twins.devices[1].as_ref().unwrap()[0].geometry().sectors, 40);
        (0..3).for_each(flush);
        assert_eq!(twins.busy(Account::default()), Nanos(3));
        assert_eq!((twins.each[0].1.busy)(Account::default()), Nanos(2), "both parts count on one");
    }

    #[test]
    fn what_reaches_past_a_model_has_no_twin() {
        let model: Arc<dyn Model> = Arc::new(Counting);
        assert!(whole(&model).part(Extent::new(90, 11)).is_none());
        assert!(whole(&model).part(Extent { start: Lba(u64::MAX), sectors: 2 }).is_none());
        let too_large = Modelled::new(model, 101);
        assert!(Twins::new(&[too_large]).devices[0].is_none());
    }

    /// An origin around a BOPT, and a part of it that lies on both sides.
    #[test]
    fn pieces_of_one_device_share_its_twin() {
        let model: Arc<dyn Model> = Arc::new(Counting);
        let [front, bopt, back] = [(0, 40), (40, 10), (50, 50)]
            .map(|(start, sectors)| whole(&model).part(Extent::new(start, sectors)));
        let origin = Modelled::joined([front.unwrap(), back.unwrap()]);
        assert_eq!(origin.sectors(), 90);
        let middle = origin.part(Extent::new(30, 30)).unwrap();
        let at: Vec<Extent> = middle.pieces.iter().map(|piece| piece.at).collect();
        assert_eq!(at, [Extent::new(30, 10), Extent::new(50, 20)]);
        assert!(origin.part(Extent::new(80, 11)).is_none());
        let twins = Twins::new(&[origin, bopt.unwrap(), middle]);
        assert_eq!(twins.each.len(), 1);
        let sizes = |pieces: &Vec<Rc<dyn BlockDevice>>| {
            pieces.iter().map(|piece| piece.geometry().sectors).collect::<Vec<_>>()
        };
        let sizes: Vec<Vec<u64>> = twins.devices.iter().flatten().map(sizes).collect();
        assert_eq!(sizes, [vec![40, 50], vec![10], vec![10, 20]]);
    }
}
