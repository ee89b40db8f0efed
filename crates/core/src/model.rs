//! Models of devices: what a layer needs to try in virtual time what it is about to do on the real device.
//!
//! A model makes twins. A twin is a device that takes as long as the real one and keeps no bytes; it lives in the runtime
//! that it was made in, which is another one than that of the real device ([`crate::runtime`] nests).
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

/// Where a device lies on one that has a model.
#[derive(Clone)]
pub struct Modelled {
    /// The model of the whole device.
    pub model: Arc<dyn Model>,
    /// The sectors of it that the device consists of.
    pub at: Extent,
}

impl Modelled {
    /// The part of it from `at` on; `None` if that reaches past its end.
    pub fn part(&self, at: Extent) -> Option<Modelled> {
        let start = self.at.start.0.checked_add(at.start.0)?;
        let end = start.checked_add(at.sectors)?;
        let fits = end <= self.at.end().0;
        fits.then(|| Modelled { model: self.model.clone(), at: Extent::new(start, at.sectors) })
    }
}

impl fmt::Debug for Modelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modelled({:?})", self.at)
    }
}

/// Twins of several devices.
pub struct Twins {
    each: Vec<(Arc<dyn Model>, Twin)>,
    /// In the order of what they are twins of; `None` where the model is smaller than what lies on it.
    pub devices: Vec<Option<Rc<dyn BlockDevice>>>,
}

impl Twins {
    /// Twins of these devices, one for all that lie on one model.
    pub fn new(of: &[Modelled]) -> Twins {
        let mut each: Vec<(Arc<dyn Model>, Twin)> = Vec::new();
        let mut devices = Vec::new();
        for Modelled { model, at } in of {
            if !each.iter().any(|(known, _)| Arc::ptr_eq(known, model)) {
                each.push((model.clone(), model.twin()));
            }
            let twin = each.iter().find(|(known, _)| Arc::ptr_eq(known, model)).map(|(_, twin)| &twin.device);
            let slice = twin.and_then(|device| Slice::new(device.clone(), *at));
            devices.push(slice.map(|slice| Rc::new(slice) as Rc<dyn BlockDevice>));
        }
        Twins { each, devices }
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
        Modelled { model: model.clone(), at: Extent::new(0, 100) }
    }

    #[test]
    fn parts_of_one_device_share_its_twin() {
        let (one, other): (Arc<dyn Model>, Arc<dyn Model>) = (Arc::new(Counting), Arc::new(Counting));
        let part = whole(&one).part(Extent::new(60, 40)).unwrap();
        let twins = Twins::new(&[whole(&one), part, whole(&other)]);
        let flush = |index: usize| {
            let device = twins.devices[index].clone().unwrap();
            Runtime::new(1).run(async move { device.flush(Hints::default()).await }).unwrap().unwrap();
        };
        assert_eq!(twins.each.len(), 2);
        assert_eq!(twins.devices[1].as_ref().unwrap().geometry().sectors, 40);
        (0..3).for_each(flush);
        assert_eq!(twins.busy(Account::default()), Nanos(3));
        assert_eq!((twins.each[0].1.busy)(Account::default()), Nanos(2), "both parts count on one");
    }

    #[test]
    fn what_reaches_past_a_model_has_no_twin() {
        let model: Arc<dyn Model> = Arc::new(Counting);
        assert!(whole(&model).part(Extent::new(90, 11)).is_none());
        assert!(whole(&model).part(Extent { start: Lba(u64::MAX), sectors: 2 }).is_none());
        let too_large = Modelled { at: Extent::new(0, 101), ..whole(&model) };
        assert!(Twins::new(&[too_large]).devices[0].is_none());
    }
}
