//! Random histories, checked by the registers and by the model.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seekless_core::{Extent, Op};

use super::model::{Content, Does, Request, Sector};
use crate::check::{Registers, SectorContent, Stamp};

const SECTORS: u64 = 2;

/// Both checkers, and the requests in flight.
struct World {
    registers: Registers,
    sectors: Vec<Sector>,
    /// Number, operation, sectors, FUA.
    flying: Vec<(u64, Op, Extent, bool)>,
    /// Successful flushes, from their start.
    flushes: Vec<(u64, usize)>,
    now: usize,
    last: u64,
    zeroes: bool,
    /// Consecutive sectors that a sector of the model stands for: parts of a page, halves, or whole pages.
    width: u64,
    /// The contents that a crash could leave, a step ago.
    left: Vec<BTreeSet<Content>>,
}

/// Whether the history goes on, or is over since both checkers refuse it.
type Step = Result<bool, TestCaseError>;

fn found(sector: u64, write: Content) -> SectorContent {
    if write == 0 { SectorContent::Zeroes } else { SectorContent::Stamp(Stamp { sector, write }) }
}

impl World {
    fn new(zeroes: bool, width: u64) -> World {
        World {
            registers: Registers::new(),
            sectors: vec![Sector::new(BTreeSet::from([0])); SECTORS as usize],
            flying: Vec::new(),
            flushes: Vec::new(),
            now: 0,
            last: 0,
            zeroes,
            width,
            left: vec![BTreeSet::from([0]); SECTORS as usize],
        }
    }

    fn sectors_of(&self, number: u64) -> std::ops::Range<u64> {
        number * self.width..(number + 1) * self.width
    }

    /// The content of all sectors that a sector of the model stands for.
    fn wide(&self, number: u64, write: Content) -> impl Iterator<Item = SectorContent> + Clone + use<> {
        self.sectors_of(number).map(move |sector| found(sector, write))
    }

    /// A step chosen by three numbers.
    fn step(&mut self, [what, which, more]: [u8; 3]) -> Step {
        self.now += 1;
        match what % 16 {
            0..7 if self.flying.len() < 6 && self.requests() < 9 => self.issue(which, more),
            15 if which % 2 == 0 => self.crash(),
            _ if !self.flying.is_empty() => return self.answer(which, more),
            _ => {}
        }
        self.compare()
    }

    fn requests(&self) -> usize {
        self.sectors.iter().map(|sector| sector.requests.len()).max().unwrap_or(0)
    }

    fn issue(&mut self, which: u8, more: u8) {
        let op = match which % 16 {
            0..6 => Op::Write,
            6..12 => Op::Read,
            14 if self.zeroes => Op::WriteZeroes,
            15 if self.zeroes => Op::Discard,
            _ => Op::Flush,
        };
        let at = match (op, more % 4) {
            (Op::Flush, _) => Extent::default(),
            (_, 0..2) => Extent::new(0, 1),
            (_, 2) => Extent::new(1, 1),
            _ => Extent::new(0, 2),
        };
        let fua = more / 4 % 4 == 0;
        self.last += 1;
        let id = self.last;
        let wide = Extent::new(at.start.0 * self.width, at.sectors * self.width);
        self.registers.issue(id, op, wide, fua);
        self.flying.push((id, op, at, fua));
        let does = match op {
            Op::Write => Does::Write,
            Op::WriteZeroes => Does::Zeroes,
            Op::Discard => Does::Discard,
            Op::Read => Does::Read(u64::MAX),
            Op::Flush => return self.flushes.push((id, self.now)),
        };
        for sector in at.start.0..at.end().0 {
            let request = Request { id, does, start: self.now, end: None, fua, durable: false };
            self.sectors[sector as usize].requests.push(request);
        }
    }

    /// Answers a request in flight; one time in eight it fails.
    fn answer(&mut self, which: u8, more: u8) -> Step {
        let at = which as usize % self.flying.len();
        let (id, op, at, _) = self.flying.remove(at);
        let mut read = Vec::new();
        let now = self.now;
        if more % 8 == 0 {
            self.registers.done(id, false).unwrap();
            return self.compare();
        }
        if let Some((_, start)) = self.flushes.iter().find(|(flush, _)| *flush == id) {
            for request in self.sectors.iter_mut().flat_map(|sector| &mut sector.requests) {
                request.durable |= request.end.is_some_and(|end| end < *start);
            }
        }
        for (index, number) in (at.start.0..at.end().0).enumerate() {
            let sector = &mut self.sectors[number as usize];
            let content = Self::pick(sector, (more / 8).rotate_right(3 * index as u32));
            let request = sector.requests.iter_mut().find(|request| request.id == id).unwrap();
            request.end = Some(now);
            request.durable |= request.fua && op != Op::Read;
            if op == Op::Read {
                request.does = Does::Read(content);
                read.push((number, content));
            }
        }
        if op != Op::Read {
            self.registers.done(id, true).unwrap();
            return self.compare();
        }
        let read: Vec<SectorContent> =
            read.into_iter().flat_map(|(sector, content)| self.wide(sector, content)).collect();
        let verdict = self.registers.read(id, read);
        let explained = self.sectors.iter().all(|sector| !sector.by_orders().is_empty());
        let message = || format!("{verdict:?} but {:#?}", self.sectors);
        if explained {
            prop_assert!(verdict.is_ok(), "{}", message());
        } else if !self.zeroes {
            prop_assert!(verdict.is_err(), "{}", message());
        }
        if explained { self.compare() } else { Ok(false) }
    }

    /// The content that a read finds: mostly one of the latest written.
    fn pick(sector: &Sector, by: u8) -> Content {
        let writes = sector.requests.iter().filter(|request| !matches!(request.does, Does::Read(_)));
        let zero = |request: &Request| if request.does == Does::Write { request.id } else { 0 };
        let mut contents: Vec<Content> = sector.first.iter().copied().chain(writes.map(zero)).collect();
        contents.reverse();
        contents[usize::from(by) % contents.len().min(4)]
    }

    fn crash(&mut self) {
        self.registers.crash();
        self.flying.clear();
        self.flushes.clear();
        for sector in &mut self.sectors {
            let left = if self.zeroes { sector.by_orders() } else { sector.by_rule() };
            *sector = Sector::new(left);
        }
        self.now = 1;
    }

    /// Compares the contents that a crash may leave now.
    fn compare(&mut self) -> Step {
        let narrowed = self.registers.narrowed();
        for (number, sector) in self.sectors.iter().enumerate() {
            let number = number as u64;
            let left = |content| {
                let mut all = (number * self.width..).zip(self.wide(number, content));
                let mut left =
                    all.clone().filter(|(sector, found)| self.registers.after_crash(*sector, *found).is_ok());
                let any = left.next().is_some();
                assert!(!any || all.all(|(sector, found)| self.registers.after_crash(sector, found).is_ok()));
                any
            };
            let ours: BTreeSet<Content> = (0..=self.last).filter(|content| left(*content)).collect();
            let before = std::mem::replace(&mut self.left[number as usize], ours.clone());
            prop_assert!(
                before.is_subset(&ours) || self.sectors_of(number).all(|sector| narrowed.contains(&sector)),
                "{before:?}: {sector:#?}"
            );
            let orders = sector.by_orders();
            prop_assert!(orders.is_subset(&ours), "ours {ours:?}, by orders {orders:?}: {sector:#?}");
            if !self.zeroes {
                prop_assert_eq!(&ours, &sector.by_rule(), "{:#?}", sector);
            }
        }
        Ok(true)
    }
}

fn steps() -> impl Strategy<Value = (u64, Vec<[u8; 3]>)> {
    (prop::sample::select(vec![1, 4, 8]), prop::collection::vec(any::<[u8; 3]>(), 4..40))
}

fn run(zeroes: bool, width: u64, steps: &[[u8; 3]]) -> Result<(), TestCaseError> {
    let mut world = World::new(zeroes, width);
    for step in steps {
        if !world.step(*step)? {
            break;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_unique_is_judged_as_by_a_search_through_all_orders((width, steps) in steps()) {
        run(false, width, &steps)?;
    }

    #[test]
    fn zeroes_never_raise_a_false_alarm((width, steps) in steps()) {
        run(true, width, &steps)?;
    }
}
