//! Traffic above a layer and below it (BORG, sections 6 and 7): clients' requests to the layer, and its requests to its
//! devices. If requests are less sequential below than above, the layer does harm.
//!
//! Any layer can be measured: [`Counted::above`] wraps the layer, [`Counted::new`] each device that it is built on. A
//! layer that distinguishes more, as BORG does, records clients' requests itself ([`Ledger::above`]).
//!
//! A request that does not start at the end of the previous one of its side counts as a seek, as if there were only one
//! head: this measures the layout, not what the drive makes of it. Requests of the same instant count in ascending
//! order, as any queue would have them. Distances are in addresses. Background work is counted separately, with its own
//! last request. Discards and flushes move no data and are not counted.
//!
//! The devices are slices of one component, or of several: a change between components is a seek without a distance.
//! Counting costs a request neither time nor memory; nothing here can fail.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::device::Place;
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Hints, IoFuture, LayerTraffic, Nanos, PAGE_SECTORS, Traffic,
    Zeroes, runtime,
};

/// Counters of each account.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Vec<LayerTraffic>,
    above: Stream,
    below: Stream,
    background: Stream,
}

/// A sequence of requests.
#[derive(Debug, Default)]
struct Stream {
    /// End of the last one.
    last: Option<(Space, u64)>,
    /// Requests of the last instant, not counted yet.
    waiting: Vec<Request>,
    now: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    space: Space,
    at: Extent,
    account: Account,
    write: bool,
}

/// Address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    /// The volume.
    Volume,
    /// A component, by number.
    Component(u32),
    /// A device whose component is unknown.
    Device(u8),
}

/// A layer, or a device below it, with its requests counted.
pub struct Counted {
    device: Rc<dyn BlockDevice>,
    space: Space,
    /// Start of the device in its space.
    from: u64,
    ledger: Rc<RefCell<Ledger>>,
}

impl Stream {
    /// Adds a request, at an instant not before the last one's.
    fn note(
        &mut self,
        request: Request,
        accounts: &mut Vec<LayerTraffic>,
        of: fn(&mut LayerTraffic) -> &mut Traffic,
    ) {
        if runtime::now() != self.now {
            self.count(accounts, of);
            self.now = runtime::now();
        }
        self.waiting.push(request);
    }

    fn count(&mut self, accounts: &mut Vec<LayerTraffic>, of: fn(&mut LayerTraffic) -> &mut Traffic) {
        self.waiting.sort_by_key(|request| (request.space, request.at.start));
        for Request { space, at, account, write } in self.waiting.drain(..) {
            let traffic = of(entry(accounts, account));
            traffic.requests += 1;
            *(if write { &mut traffic.blocks_written } else { &mut traffic.blocks_read }) += at.sectors;
            match self.last.replace((space, at.end().0)) {
                Some(last) if last != (space, at.start.0) => {
                    traffic.seeks += 1;
                    if last.0 == space {
                        traffic.distance_blocks += last.1.abs_diff(at.start.0);
                    } else {
                        traffic.crossings += 1;
                    }
                }
                _ => {}
            }
        }
    }
}

impl Ledger {
    /// Counters of an account, except requests, to be updated.
    pub fn of(&mut self, account: Account) -> &mut LayerTraffic {
        entry(&mut self.accounts, account)
    }

    /// Counters of an account.
    pub fn get(&mut self, account: Account) -> LayerTraffic {
        self.count_waiting();
        self.accounts.get(usize::from(account.0)).copied().unwrap_or_default()
    }

    /// Counters of all accounts together.
    pub fn all(&mut self) -> LayerTraffic {
        self.count_waiting();
        self.counted()
    }

    /// As [`Ledger::all`], without the requests of this instant.
    pub fn counted(&self) -> LayerTraffic {
        let mut all = LayerTraffic::default();
        self.accounts.iter().for_each(|traffic| all.add(traffic));
        all
    }

    /// Counts a client's request.
    pub fn above(&mut self, at: Extent, how: &Hints, write: bool) {
        let request = Request { space: Space::Volume, at, account: how.account, write };
        self.above.note(request, &mut self.accounts, |traffic| &mut traffic.above);
    }

    /// Counts a request to the origin or BOPT.
    fn below(&mut self, space: Space, at: Extent, how: &Hints, write: bool) {
        let request = Request { space, at, account: how.account, write };
        if how.class <= Class::Foreground {
            self.below.note(request, &mut self.accounts, |traffic| &mut traffic.below);
        } else {
            self.background.note(request, &mut self.accounts, |traffic| &mut traffic.background);
        }
    }

    fn count_waiting(&mut self) {
        self.above.count(&mut self.accounts, |traffic| &mut traffic.above);
        self.below.count(&mut self.accounts, |traffic| &mut traffic.below);
        self.background.count(&mut self.accounts, |traffic| &mut traffic.background);
    }
}

fn entry(accounts: &mut Vec<LayerTraffic>, account: Account) -> &mut LayerTraffic {
    let account = usize::from(account.0);
    if account >= accounts.len() {
        accounts.resize(account + 1, LayerTraffic::default());
    }
    &mut accounts[account]
}

impl Counted {
    /// Wraps `device`, the layer's first or second.
    pub fn new(device: Rc<dyn BlockDevice>, number: u8, ledger: &Rc<RefCell<Ledger>>) -> Rc<Counted> {
        let (space, from) = place(&*device).unwrap_or((Space::Device(number), 0));
        Rc::new(Counted { device, space, from, ledger: ledger.clone() })
    }

    /// Wraps `layer`, for clients' requests.
    pub fn above(layer: Rc<dyn BlockDevice>, ledger: &Rc<RefCell<Ledger>>) -> Rc<Counted> {
        Rc::new(Counted { device: layer, space: Space::Volume, from: 0, ledger: ledger.clone() })
    }

    fn note(&self, at: Extent, how: &Hints, write: bool) {
        let at = Extent { start: at.start + self.from, ..at };
        let mut ledger = self.ledger.borrow_mut();
        match self.space {
            Space::Volume => ledger.above(at, how, write),
            space => ledger.below(space, at, how, write),
        }
    }
}

/// The component that a device is on, contiguously, and its start there.
fn place(device: &dyn BlockDevice) -> Option<(Space, u64)> {
    let pages = device.geometry().sectors / PAGE_SECTORS;
    let last = pages.checked_sub(1)?;
    let on = |page| {
        let mut found = None;
        device.places(Extent::of_pages(page, 1), &mut |_, place| {
            if let (Place::On { component, at }, None) = (place, found) {
                found = Some((component, at));
            }
        });
        found
    };
    let ((component, from), (same, end)) = (on(0)?, on(last)?);
    let whole = component == same && end.0.checked_sub(from.0) == Some(last * PAGE_SECTORS);
    whole.then_some((Space::Component(component), from.0))
}

impl BlockDevice for Counted {
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.note(at, &how, false);
        self.device.read(at, into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.note(at, &how, true);
        self.device.write(at, from, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.note(at, &how, true);
        self.device.write_zeroes(at, how, zeroes)
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_core::Slice;
    use seekless_core::runtime::Runtime;
    use seekless_drive::{Disk, QueueOptions, spec};

    use crate::split::{self, Split};
    use crate::units::Bytes;

    fn disk(number: u32) -> Rc<Disk> {
        Rc::new(Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
    }

    fn of_class(class: Class) -> Hints {
        Hints { class, ..Hints::default() }
    }

    /// Two devices that are asked in turn.
    async fn ask(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> LayerTraffic {
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let (origin, bopt) = (Counted::new(origin, 0, &ledger), Counted::new(bopt, 1, &ledger));
        let foreground = || of_class(Class::Foreground);
        for (device, start) in [(&origin, 100), (&origin, 108), (&bopt, 0), (&bopt, 8), (&origin, 84)] {
            device.read(Extent::new(start, 8), Buffer::hollow_sectors(8), foreground()).await.unwrap();
            let (copy, how) = (Extent::new(8_000 - start, 1), of_class(Class::Background));
            device.write(copy, Buffer::hollow_sectors(1), how).await.unwrap();
        }
        ledger.borrow_mut().all()
    }

    #[test]
    fn slices_of_a_component_are_as_far_apart_as_they_are_on_it() {
        let both = async {
            let disk = disk(3);
            let slice = |start| Rc::new(Slice::new(disk.clone(), Extent::new(start, 10_000)).unwrap());
            ask(slice(0), slice(10_000)).await
        };
        let traffic = Runtime::new(1).run(both).unwrap();
        let below = Traffic {
            requests: 5,
            blocks_read: 40,
            blocks_written: 0,
            seeks: 2,
            crossings: 0,
            distance_blocks: (10_000 - 116) + (10_016 - 84),
        };
        assert_eq!(traffic.below, below);
        assert_eq!((traffic.background.requests, traffic.background.blocks_written), (5, 5));
        assert_eq!((traffic.background.seeks, traffic.above), (4, Traffic::default()));
    }

    #[test]
    fn from_one_component_to_another_there_is_no_distance() {
        let traffic = Runtime::new(1).run(async { ask(disk(0), disk(1)).await }).unwrap();
        assert_eq!((traffic.below.seeks, traffic.below.crossings, traffic.below.distance_blocks), (2, 2, 0));
        assert_eq!(traffic.below.mean_seek_bytes().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn a_layer_that_knows_nothing_of_it_is_counted_on_both_sides() {
        let both = async {
            let ledger = Rc::new(RefCell::new(Ledger::default()));
            let below = Counted::new(disk(0), 0, &ledger);
            let layer = Rc::new(Split::new(below, &split::Options { largest: Bytes(4 << 10) }));
            let top = Counted::above(layer, &ledger);
            for start in [0, 1_000] {
                let at = Extent::new(start, 32);
                top.write(at, Buffer::hollow_sectors(32), of_class(Class::Foreground)).await.unwrap();
            }
            let zeroes = Extent::new(1_032, 8);
            top.write_zeroes(zeroes, of_class(Class::Foreground), Zeroes::default()).await.unwrap();
            ledger.borrow_mut().all()
        };
        let LayerTraffic { above, below, .. } = Runtime::new(1).run(both).unwrap();
        assert_eq!((above.requests, above.blocks_written, above.seeks), (3, 72, 1));
        assert_eq!(
            (below.requests, below.blocks_written, below.seeks),
            (9, 72, 1),
            "in parts, one after the other"
        );
    }

    /// Requests for a page at these sectors and times, from these accounts: counted as (requests, seeks, blocks
    /// between).
    fn above(asked: Vec<(u64, u16, u64)>, accounts: u16) -> Vec<(u64, u64, u64)> {
        let counted = async move {
            let mut ledger = Ledger::default();
            for (time, account, start) in asked {
                runtime::sleep(Nanos(time).since(runtime::now())).await;
                let how = Hints { account: Account(account), ..Hints::default() };
                ledger.above(Extent::new(start, 8), &how, false);
            }
            let above = (0..accounts).map(|account| ledger.get(Account(account)).above);
            above.map(|above| (above.requests, above.seeks, above.distance_blocks)).collect()
        };
        Runtime::new(1).run(counted).unwrap()
    }

    #[test]
    fn accounts_share_the_head_but_not_the_bill() {
        let counted = above(vec![(0, 0, 0), (1, 1, 8), (2, 0, 24), (3, 2, 0)], 4);
        assert_eq!(counted, [(2, 1, 8), (1, 0, 0), (1, 1, 32), (0, 0, 0)]);
    }

    #[test]
    fn those_of_one_instant_count_in_ascending_order() {
        assert_eq!(above(vec![(0, 0, 16), (0, 0, 0), (0, 0, 8), (5, 0, 24)], 1), [(4, 0, 0)]);
        assert_eq!(above(vec![(0, 0, 16), (1, 0, 0), (2, 0, 8), (3, 0, 24)], 1), [(4, 2, 32)]);
    }
}
