//! Requests counted in a grid over time and address, whose cells double in size whenever there are too many: memory is
//! bounded for any trace.
//!
//! Invariants: no more cells than the limit, unless the grid is a single cell; a request is counted in exactly one
//! cell; cells are in the order of time, place, family, kind, each once.

use seekless_core::Nanos;

/// Size of the finest grid: cells along time, and along addresses. Time is finer, since a picture is zoomed along it:
/// in a week this is a seventh of a second.
const TIMES: u64 = 1 << 22;
const PLACES: u64 = 16_384;
/// Cells along time per cell along addresses, while the grid is made coarser.
const TIMES_A_PLACE: u64 = 32;
/// Requests that wait to be counted, at most.
const PENDING: usize = 65_536;

/// Requests of one family of processes and one kind in one cell of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index along time.
    pub time: u32,
    /// Index along addresses.
    pub place: u32,
    /// Family of processes.
    pub family: u16,
    /// Kind: 0 read, 1 write, 2 discard.
    pub kind: u8,
    /// Number of requests.
    pub count: u64,
}

impl Cell {
    fn key(&self) -> (u32, u32, u16, u8) {
        (self.time, self.place, self.family, self.kind)
    }
}

/// The grid.
#[derive(Debug)]
pub struct Cells {
    /// Cells in order.
    all: Vec<Cell>,
    most: usize,
    /// Nanoseconds per cell.
    nanos: u64,
    /// Sectors per cell.
    sectors: u64,
    times: u64,
    places: u64,
    /// Requests of one time, not counted yet.
    pending: Vec<(u32, u16, u8)>,
    now: u32,
    /// Index of the first cell of this time.
    first: usize,
}

impl Cells {
    /// An empty grid of at most `most` cells; for a trace that ends at `end`, on `sectors` sectors.
    pub fn new(most: usize, end: Nanos, sectors: u64) -> Cells {
        let (nanos, sectors) = (end.0 / TIMES + 1, (sectors / PLACES + 1).next_multiple_of(8));
        Cells {
            all: Vec::new(),
            most,
            nanos,
            sectors,
            times: TIMES,
            places: PLACES,
            pending: Vec::new(),
            now: 0,
            first: 0,
        }
    }

    /// Nanoseconds and sectors per cell.
    pub fn size(&self) -> (u64, u64) {
        (self.nanos, self.sectors)
    }

    /// All cells, in order; complete after [`Cells::settle`].
    pub fn iter(&self) -> impl Iterator<Item = &Cell> {
        self.all.iter()
    }

    /// Adds a request; times do not decrease.
    pub fn add(&mut self, time: Nanos, sector: u64, family: u16, kind: u8) {
        let time_number = (time.0 / self.nanos).min(self.times - 1) as u32;
        if time_number != self.now || self.pending.len() >= PENDING {
            self.settle();
            let now = (time.0 / self.nanos).min(self.times - 1) as u32;
            if now != self.now {
                (self.now, self.first) = (now, self.all.len());
            }
        }
        self.pending.push(((sector / self.sectors).min(self.places - 1) as u32, family, kind));
    }

    /// Counts pending requests.
    pub fn settle(&mut self) {
        self.pending.sort_unstable();
        for (place, family, kind) in self.pending.drain(..) {
            let cell = Cell { time: self.now, place, family, kind, count: 1 };
            match self.all.last_mut() {
                Some(last) if last.key() == cell.key() => last.count += 1,
                _ => self.all.push(cell),
            }
        }
        unite(&mut self.all, self.first);
        while self.all.len() > self.most && self.coarsen() {}
    }

    /// Doubles the cells along one of the axes. False if the grid is one cell already.
    pub fn coarsen(&mut self) -> bool {
        if self.times == 1 && self.places == 1 {
            return false;
        }
        if self.places == 1 || (self.times > 1 && self.times >= self.places * TIMES_A_PLACE * 2) {
            self.times /= 2;
            self.nanos = self.nanos.saturating_mul(2);
            self.now /= 2;
            self.all.iter_mut().for_each(|cell| cell.time /= 2);
        } else {
            self.places /= 2;
            self.sectors = self.sectors.saturating_mul(2);
            self.all.iter_mut().for_each(|cell| cell.place /= 2);
        }
        unite(&mut self.all, 0);
        self.first = self.all.partition_point(|cell| cell.time < self.now);
        true
    }

    /// Renumbers families; several may get the same number.
    pub fn rename(&mut self, number: impl Fn(u16) -> u16) {
        self.all.iter_mut().for_each(|cell| cell.family = number(cell.family));
        unite(&mut self.all, 0);
        self.first = self.all.partition_point(|cell| cell.time < self.now);
    }
}

/// Sorts the cells from `first` on and merges equal ones.
fn unite(cells: &mut Vec<Cell>, first: usize) {
    // A stable sort: it is fast with runs that are sorted already.
    cells[first..].sort_by_key(Cell::key);
    let mut end = first;
    for at in first..cells.len() {
        let cell = cells[at];
        if end > first && cells[end - 1].key() == cell.key() {
            cells[end - 1].count += cell.count;
        } else {
            cells[end] = cell;
            end += 1;
        }
    }
    cells.truncate(end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cells_are_few_in_order_and_count_every_request_once(
            mut requests in proptest::collection::vec((0_u64..1 << 40, any::<u64>(), 0_u16..40, 0_u8..3), 1..3_000),
            most in 200_usize..2_000,
        ) {
            requests.sort_unstable();
            let end = requests.last().map_or(0, |last| last.0);
            let mut cells = Cells::new(most, Nanos(end), u64::MAX);
            for &(time, sector, family, kind) in &requests {
                cells.add(Nanos(time), sector, family, kind);
                prop_assert!(cells.all.len() <= most);
            }
            cells.settle();
            prop_assert!(cells.all.len() <= most);
            prop_assert_eq!(cells.iter().map(|cell| cell.count).sum::<u64>(), requests.len() as u64);
            let keys: Vec<_> = cells.iter().map(Cell::key).collect();
            prop_assert!(keys.windows(2).all(|two| two[0] < two[1]));
            let (nanos, sectors) = cells.size();
            for &(time, sector, family, kind) in &requests {
                let key = ((time / nanos) as u32, (sector / sectors) as u32, family, kind);
                prop_assert!(keys.binary_search(&key).is_ok());
            }
        }
    }

    #[test]
    fn a_small_trace_stays_fine() {
        let mut cells = Cells::new(1_000, Nanos(3_600_000_000_000), 1 << 30);
        (0..500).for_each(|at| cells.add(Nanos(at * 7_000_000_000), at << 20, 0, 0));
        cells.settle();
        assert_eq!(
            (cells.all.len(), cells.size()),
            (500, (3_600_000_000_000 / (1 << 22) + 1, (1 << 16) + 8))
        );
    }
}
