//! The two sides of the indirector (sections 6 and 7): what clients ask for above it, and what home and BOPT are asked
//! for below. If requests are less sequential below than above, BORG does harm.
//!
//! A request that does not start where the last one of its side ended is a seek, as if there were only one head and no
//! queue: it says what the layout is worth, not what the drive made of it. Distances are of addresses. Background work
//! is counted apart, and has a last request of its own. Discards and flushes move no data and are not counted.
//!
//! Home and BOPT are slices of one component, or on several. Then going from one to the other is a seek that has no
//! distance. Counting costs a request neither time nor memory; nothing here can fail.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::device::{ExtentState, Place, View};
use seekless_core::{
    Account, BlockDevice, Buffer, Class, Extent, Geometry, Hints, IoFuture, Nanos, PAGE_SECTORS,
    SECTOR_BYTES, Zeroes,
};

/// Requests one after the other on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads and writes.
    pub requests: u64,
    /// 512-byte blocks.
    pub blocks_read: u64,
    /// 512-byte blocks.
    pub blocks_written: u64,
    /// Requests that did not start where the one before ended.
    pub seeks: u64,
    /// Of the seeks, those to another component.
    pub crossings: u64,
    /// How far all others went, in 512-byte blocks.
    pub distance_blocks: u64,
}

/// Both sides, and what the indirector did between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    /// What clients asked for.
    pub above: Traffic,
    /// What home and BOPT were asked for in turn, runs' own pages and map pages included.
    pub below: Traffic,
    /// Copies, draining and their map pages.
    pub background: Traffic,
    /// Pages asked for, reads and writes.
    pub pages: u64,
    /// Of them those from or into the BOPT.
    pub hits: u64,
    /// Requests that became several.
    pub splits: u64,
    /// Pages that went into the write buffer instead of home.
    pub absorbed: u64,
    /// Dirty pages that went home.
    pub drained: u64,
}

/// What was counted for each account.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: Vec<Sides>,
    above: Last,
    below: Last,
    background: Last,
}

/// Where addresses are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// The volume.
    Volume,
    /// A component, by its number.
    Component(u32),
    /// A device of which nobody knows on which component it is.
    Device(u8),
}

/// Where the last request ended.
type Last = Option<(Space, u64)>;

/// A device below, with its requests counted.
pub struct Counted {
    device: Rc<dyn BlockDevice>,
    space: Space,
    /// Where the device begins in its space.
    from: u64,
    ledger: Rc<RefCell<Ledger>>,
}

impl Traffic {
    fn note(&mut self, last: &mut Last, space: Space, at: Extent, write: bool) {
        self.requests += 1;
        *(if write { &mut self.blocks_written } else { &mut self.blocks_read }) += at.sectors;
        let here = (space, at.start.0);
        match last.replace((space, at.end().0)) {
            Some(last) if last != here => {
                self.seeks += 1;
                if last.0 == space {
                    self.distance_blocks += last.1.abs_diff(here.1);
                } else {
                    self.crossings += 1;
                }
            }
            _ => {}
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Traffic) {
        self.requests += other.requests;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
        self.seeks += other.seeks;
        self.crossings += other.crossings;
        self.distance_blocks += other.distance_blocks;
    }

    /// How far a seek went on average, in bytes, of those that have a distance.
    pub fn mean_seek_bytes(&self) -> f64 {
        let seeks = (self.seeks - self.crossings).max(1);
        self.distance_blocks as f64 / seeks as f64 * SECTOR_BYTES as f64
    }
}

impl Sides {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Sides) {
        self.above.add(&other.above);
        self.below.add(&other.below);
        self.background.add(&other.background);
        self.pages += other.pages;
        self.hits += other.hits;
        self.splits += other.splits;
        self.absorbed += other.absorbed;
        self.drained += other.drained;
    }
}

impl Ledger {
    /// What was counted for an account, to be counted on.
    pub fn of(&mut self, account: Account) -> &mut Sides {
        let account = usize::from(account.0);
        if account >= self.accounts.len() {
            self.accounts.resize(account + 1, Sides::default());
        }
        &mut self.accounts[account]
    }

    /// What was counted for an account.
    pub fn get(&self, account: Account) -> Sides {
        self.accounts.get(usize::from(account.0)).copied().unwrap_or_default()
    }

    /// What was counted for all.
    pub fn all(&self) -> Sides {
        let mut all = Sides::default();
        self.accounts.iter().for_each(|sides| all.add(sides));
        all
    }

    /// A client asks.
    pub fn above(&mut self, at: Extent, how: &Hints, write: bool) {
        let mut last = self.above;
        self.of(how.account).above.note(&mut last, Space::Volume, at, write);
        self.above = last;
    }

    fn below(&mut self, space: Space, at: Extent, how: &Hints, write: bool) {
        if how.class <= Class::Foreground {
            let mut last = self.below;
            self.of(how.account).below.note(&mut last, space, at, write);
            self.below = last;
        } else {
            let mut last = self.background;
            self.of(how.account).background.note(&mut last, space, at, write);
            self.background = last;
        }
    }
}

impl Counted {
    /// `device`, the first or second of the layer's.
    pub fn new(device: Rc<dyn BlockDevice>, number: u8, ledger: &Rc<RefCell<Ledger>>) -> Rc<Counted> {
        let (space, from) = place(&*device).unwrap_or((Space::Device(number), 0));
        Rc::new(Counted { device, space, from, ledger: ledger.clone() })
    }

    fn note(&self, at: Extent, how: &Hints, write: bool) {
        let at = Extent { start: at.start + self.from, ..at };
        self.ledger.borrow_mut().below(self.space, at, how, write);
    }
}

/// On which component a device is, in one piece, and where it begins there: if its two ends are as far apart there.
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
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        self.note(at, &how, false);
        self.device.read(at, into, how)
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        self.note(at, &how, true);
        self.device.write(at, from, how)
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        self.device.flush(how)
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.device.discard(at, how)
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        self.note(at, &how, true);
        self.device.write_zeroes(at, how, zeroes)
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        self.device.extents(at)
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.device.places(at, each);
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.device.prefetch(at, how)
    }

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        self.device.estimate(at, how)
    }

    fn views(&self) -> Vec<View> {
        self.device.views()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_core::Slice;
    use seekless_core::runtime::Runtime;
    use seekless_drive::{Disk, QueueOptions, spec};

    fn disk(number: u32) -> Rc<Disk> {
        Rc::new(Disk::new(number, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()))
    }

    fn of_class(class: Class) -> Hints {
        Hints { class, ..Hints::default() }
    }

    /// Two devices that are asked in turn.
    async fn ask(home: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> Sides {
        let ledger = Rc::new(RefCell::new(Ledger::default()));
        let (home, bopt) = (Counted::new(home, 0, &ledger), Counted::new(bopt, 1, &ledger));
        let foreground = || of_class(Class::Foreground);
        for (device, start) in [(&home, 100), (&home, 108), (&bopt, 0), (&bopt, 8), (&home, 84)] {
            device.read(Extent::new(start, 8), Buffer::hollow_sectors(8), foreground()).await.unwrap();
            let (copy, how) = (Extent::new(8_000 - start, 1), of_class(Class::Background));
            device.write(copy, Buffer::hollow_sectors(1), how).await.unwrap();
        }
        ledger.borrow().all()
    }

    #[test]
    fn slices_of_a_component_are_as_far_apart_as_they_are_on_it() {
        let both = async {
            let disk = disk(3);
            let slice = |start| Rc::new(Slice::new(disk.clone(), Extent::new(start, 10_000)).unwrap());
            ask(slice(0), slice(10_000)).await
        };
        let sides = Runtime::new(1).run(both).unwrap();
        let below = Traffic {
            requests: 5,
            blocks_read: 40,
            blocks_written: 0,
            seeks: 2,
            crossings: 0,
            distance_blocks: (10_000 - 116) + (10_016 - 84),
        };
        assert_eq!(sides.below, below);
        assert_eq!((sides.background.requests, sides.background.blocks_written), (5, 5));
        assert_eq!((sides.background.seeks, sides.above), (4, Traffic::default()));
    }

    #[test]
    fn from_one_component_to_another_there_is_no_distance() {
        let sides = Runtime::new(1).run(async { ask(disk(0), disk(1)).await }).unwrap();
        assert_eq!((sides.below.seeks, sides.below.crossings, sides.below.distance_blocks), (2, 2, 0));
        assert_eq!(sides.below.mean_seek_bytes().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn accounts_share_the_head_but_not_the_bill() {
        let mut ledger = Ledger::default();
        for (account, start) in [(0, 0), (1, 8), (0, 24), (2, 0)] {
            let how = Hints { account: Account(account), ..Hints::default() };
            ledger.above(Extent::new(start, 8), &how, account == 2);
        }
        let counted = |account| {
            let above = ledger.get(Account(account)).above;
            (above.requests, above.seeks, above.distance_blocks)
        };
        assert_eq!(
            [counted(0), counted(1), counted(2), counted(9)],
            [(2, 1, 8), (1, 0, 0), (1, 1, 32), (0, 0, 0)]
        );
        let all = ledger.all().above;
        assert_eq!((all.requests, all.blocks_read, all.blocks_written, all.seeks), (4, 24, 8, 2));
        assert_eq!(all.mean_seek_bytes().to_bits(), (20.0 * 512.0_f64).to_bits());
    }
}
