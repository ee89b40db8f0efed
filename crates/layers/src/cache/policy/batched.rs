//! A policy that decides elsewhere, such as in Python: what happens is collected until a decision is needed, and
//! several decisions are taken at once, since each call there is slow.
//!
//! With one decision at a time the pages that leave are those that the policy itself would choose at each moment. With
//! more, the pages chosen last were chosen too early: one that is accessed meanwhile stays, and is inserted again. What
//! to fetch is decided for as many reads at once, after the last of them.
//!
//! Invariants: the decider knows all resident pages except those that it has chosen; a chosen page is evicted, or the
//! decider is informed that it stays. A page that is not resident, or is pinned, never leaves, whatever is chosen: the
//! decider is informed of its mistake, and from then on pages leave in the order of their numbers.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{Access, Policy};

/// Events that are collected at most, if no decision is needed meanwhile.
const COLLECTED: usize = 1 << 16;

/// Share of the cache's pages that are chosen at once, at most.
const CHOSEN_SHARE: u64 = 64;

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It is accessed and not resident; room is made for it.
    Miss,
    /// It becomes resident.
    Insert,
    /// It is accessed and resident.
    Hit,
    /// It is dropped.
    Remove,
    /// It cannot be evicted from now on.
    Pin,
    /// It can be evicted from now on.
    Unpin,
    /// No page: the cache has room for this many from now on.
    Resize,
}

/// Something that happened, and the page; the number of pages for a resize.
pub type Event = (Happened, u64);

/// What a decider wants to know besides inserts, hits and removals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Misses.
    pub misses: bool,
    /// Pinned pages, which it does not choose. One that does not may choose them: such a page leaves once it can,
    /// unless it is accessed before; until then others leave.
    pub pins: bool,
    /// Reads that missed, whose neighbours it may fetch.
    pub prefetches: bool,
}

/// Chooses pages to evict.
pub trait Decider {
    /// What it wants to know.
    fn wants(&self) -> Wants;

    /// Learns of `events`, in order, and then chooses up to `pages` pages, which are not resident any more as far as it
    /// is concerned; none if there are none.
    fn decide(&mut self, events: &[Event], pages: usize) -> Vec<u64>;

    /// Learns of `events`, in order, and then chooses the pages to fetch beside these runs of pages, whose reads
    /// missed.
    fn prefetch(&mut self, _events: &[Event], _missed: &[Range<u64>]) -> Vec<u64> {
        Vec::new()
    }

    /// It chose what cannot be evicted, or nothing (`None`) although there are pages that can be.
    fn mistaken(&mut self, chosen: Option<u64>);
}

/// A resident page.
#[derive(Clone, Copy)]
struct Resident {
    pinned: bool,
    /// Whether the decider knows it.
    known: bool,
}

/// A policy with a decider.
pub struct Batched<D> {
    decider: D,
    wants: Wants,
    at_once: usize,
    pages: u64,
    events: Vec<Event>,
    /// Chosen pages that are to leave, next first; those that stay are skipped.
    chosen: VecDeque<u64>,
    resident: FxHashMap<u64, Resident>,
    /// Reads that missed, of which the decider has not learned.
    missed: Vec<Range<u64>>,
    mistaken: bool,
}

impl<D: Decider> Batched<D> {
    /// One for a cache of this many pages that takes up to `at_once` decisions at once, and no more than a 64th of the
    /// cache.
    pub fn new(decider: D, pages: u64, at_once: usize) -> Batched<D> {
        Batched {
            wants: decider.wants(),
            decider,
            at_once,
            pages,
            events: Vec::new(),
            chosen: VecDeque::new(),
            resident: FxHashMap::default(),
            missed: Vec::new(),
            mistaken: false,
        }
    }

    fn add(&mut self, happened: Happened, page: u64) {
        self.events.push((happened, page));
        if self.events.len() >= COLLECTED {
            self.decider.decide(&self.events, 0);
            self.events.clear();
        }
    }

    /// The next chosen page that leaves.
    fn next_chosen(&mut self) -> Option<u64> {
        while let Some(page) = self.chosen.pop_front() {
            let leaves = self.resident.get(&page).is_some_and(|found| !found.known && !found.pinned);
            if leaves {
                self.resident.remove(&page);
                return Some(page);
            }
        }
        None
    }

    /// Takes over decisions; false if there were none, or a wrong one.
    fn choose(&mut self) -> bool {
        let at_most = (self.pages / CHOSEN_SHARE).clamp(1, self.at_once.max(1) as u64);
        let chosen = self.decider.decide(&self.events, at_most as usize);
        self.events.clear();
        if chosen.is_empty() {
            if self.resident.values().any(|page| page.known && !page.pinned) {
                self.err(None);
            }
            return false;
        }
        let pins = self.wants.pins;
        for page in chosen {
            let fits = |found: &&mut Resident| found.known && !(pins && found.pinned);
            let Some(found) = self.resident.get_mut(&page).filter(fits) else {
                self.err(Some(page));
                return false;
            };
            found.known = false;
            self.chosen.push_back(page);
        }
        true
    }

    fn err(&mut self, chosen: Option<u64>) {
        self.mistaken = true;
        self.decider.mistaken(chosen);
    }

    /// A page, when nothing chooses any more.
    fn first(&mut self) -> Option<u64> {
        let free = self.resident.iter().filter(|(_, found)| !found.pinned);
        let page = free.map(|(page, _)| *page).min()?;
        self.resident.remove(&page);
        Some(page)
    }
}

impl<D: Decider> Policy for Batched<D> {
    fn miss(&mut self, page: u64) {
        if self.wants.misses {
            self.add(Happened::Miss, page);
        }
    }

    fn admit(&mut self, page: u64, _: Access) {
        self.resident.insert(page, Resident { pinned: false, known: true });
        self.add(Happened::Insert, page);
    }

    fn hit(&mut self, page: u64, _: Access) {
        let Some(found) = self.resident.get_mut(&page) else { return };
        let stays = !std::mem::replace(&mut found.known, true);
        self.add(if stays { Happened::Insert } else { Happened::Hit }, page);
    }

    fn evict(&mut self) -> Option<u64> {
        loop {
            if let Some(page) = self.next_chosen() {
                return Some(page);
            }
            if self.mistaken {
                return self.first();
            }
            if !self.choose() && !self.mistaken {
                return None;
            }
        }
    }

    fn remove(&mut self, page: u64) {
        if self.resident.remove(&page).is_some_and(|found| found.known) {
            self.add(Happened::Remove, page);
        }
    }

    fn pin(&mut self, page: u64, pinned: bool) {
        let Some(found) = self.resident.get_mut(&page).filter(|found| found.pinned != pinned) else { return };
        found.pinned = pinned;
        if !self.wants.pins {
            // One that was chosen while it was pinned leaves now.
            if !pinned && !found.known {
                self.chosen.push_back(page);
            }
            return;
        }
        if !std::mem::replace(&mut found.known, true) {
            self.add(Happened::Insert, page);
        }
        self.add(if pinned { Happened::Pin } else { Happened::Unpin }, page);
    }

    fn prefetch(&mut self, missed: Range<u64>) -> Option<Vec<u64>> {
        if !self.wants.prefetches {
            return None;
        }
        self.missed.push(missed);
        if self.missed.len() < self.at_once {
            return Some(Vec::new());
        }
        let chosen = self.decider.prefetch(&self.events, &self.missed);
        self.events.clear();
        self.missed.clear();
        Some(chosen)
    }

    fn resize(&mut self, pages: u64) {
        self.pages = pages;
        self.add(Happened::Resize, pages);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::super::{Ghost, Kind, outside};
    use super::*;

    /// A compiled policy as a decider.
    struct Compiled(Box<dyn Policy>, Wants);

    impl Compiled {
        fn new(kind: Kind, pages: u64, pins: bool) -> Compiled {
            Compiled(kind.build(pages), Wants { misses: true, pins, prefetches: false })
        }
    }

    impl Decider for Compiled {
        fn wants(&self) -> Wants {
            self.1
        }

        fn decide(&mut self, events: &[Event], pages: usize) -> Vec<u64> {
            for &(happened, page) in events {
                match happened {
                    Happened::Miss => self.0.miss(page),
                    Happened::Insert => self.0.admit(page, Access::Read),
                    Happened::Hit => self.0.hit(page, Access::Read),
                    Happened::Remove => self.0.remove(page),
                    Happened::Pin => self.0.pin(page, true),
                    Happened::Unpin => self.0.pin(page, false),
                    Happened::Resize => self.0.resize(page),
                }
            }
            (0..pages).map_while(|_| self.0.evict()).collect()
        }

        fn mistaken(&mut self, chosen: Option<u64>) {
            panic!("a compiled policy chose {chosen:?}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Access(u64),
        Pin(u64, bool),
        Drop(u64),
        Resize(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => (0..40_u64).prop_map(Step::Access),
            3 => (0..40_u64, any::<bool>()).prop_map(|(page, pinned)| Step::Pin(page, pinned)),
            1 => (0..40_u64).prop_map(Step::Drop),
            1 => (8..20_u64).prop_map(Step::Resize),
        ]
    }

    /// What a cache with this policy does: the hits, and the pages that left.
    fn play(policy: &mut dyn Policy, steps: &[Step], pins: bool) -> Vec<(bool, Option<u64>)> {
        let (mut resident, mut pages, mut done) = (BTreeMap::new(), 12, Vec::new());
        for step in steps {
            match *step {
                Step::Access(page) if resident.contains_key(&page) => {
                    policy.hit(page, Access::Read);
                    done.push((true, None));
                }
                Step::Access(page) => {
                    policy.miss(page);
                    let mut left = None;
                    while resident.len() >= pages {
                        left = policy.evict();
                        let Some(left) = left else { break };
                        assert_eq!(resident.remove(&left), Some(false), "{left}");
                    }
                    if resident.len() < pages {
                        policy.admit(page, Access::Read);
                        resident.insert(page, false);
                    }
                    done.push((false, left));
                }
                Step::Pin(page, pinned) if pins => {
                    if let Some(is) = resident.get_mut(&page) {
                        *is = pinned;
                        policy.pin(page, pinned);
                    }
                }
                Step::Drop(page) => {
                    if resident.remove(&page).is_some() {
                        policy.remove(page);
                    }
                }
                Step::Resize(to) => {
                    pages = to as usize;
                    policy.resize(to);
                }
                Step::Pin(..) => {}
            }
        }
        done
    }

    /// Policies without pages that have to leave although there is room.
    const KINDS: [Kind; 6] = [Kind::Lru, Kind::Clock, Kind::TwoQ, Kind::Arc, Kind::S3Fifo, Kind::Sieve];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn one_decision_at_a_time_is_the_compiled_policy(
            steps in prop::collection::vec(step(), 1..200), kind in 0..KINDS.len(), pins: bool,
        ) {
            let kind = KINDS[kind];
            let mut batched = Batched::new(Compiled::new(kind, 12, true), 12, 1);
            prop_assert_eq!(play(&mut batched, &steps, pins), play(&mut *kind.build(12), &steps, pins));
        }

        /// `play` checks that what leaves is resident and not pinned, and `mistaken` panics.
        #[test]
        fn many_decisions_at_once_evict_what_can_be(
            steps in prop::collection::vec(step(), 1..300), kind in 0..KINDS.len(), wants: bool,
        ) {
            let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Resize(_))).collect();
            let mut batched = Batched::new(Compiled::new(KINDS[kind], 12, wants), 5 * CHOSEN_SHARE, 5);
            let done = play(&mut batched, &steps, true);
            prop_assert_eq!(done.len(), steps.iter().filter(|step| matches!(step, Step::Access(..))).count());
        }
    }

    /// Chooses what it is asked to, and counts its mistakes.
    struct Wrong(Vec<u64>, Rc<Cell<u64>>);

    impl Decider for Wrong {
        fn wants(&self) -> Wants {
            Wants::default()
        }
        fn decide(&mut self, _: &[Event], _: usize) -> Vec<u64> {
            self.0.clone()
        }
        fn mistaken(&mut self, _: Option<u64>) {
            self.1.set(self.1.get() + 1);
        }
    }

    #[test]
    fn mistakes_are_reported_once_and_pages_leave_all_the_same() {
        for wrong in [vec![], vec![9], vec![2, 2]] {
            let mistakes = Rc::new(Cell::new(0));
            let mut policy = Batched::new(Wrong(wrong.clone(), mistakes.clone()), 1 << 20, 64);
            for page in [4, 2, 3] {
                policy.admit(page, Access::Read);
            }
            policy.pin(3, true);
            let mut left = [policy.evict(), policy.evict(), policy.evict()];
            left.sort_unstable();
            assert_eq!(left, [None, Some(2), Some(4)], "{wrong:?}");
            assert_eq!(mistakes.get(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn a_policy_is_known_by_its_name_for_as_long_as_it_is_given() {
        let mine = || {
            let make: outside::Make =
                Rc::new(|pages| Box::new(Batched::new(Compiled::new(Kind::Lru, pages, true), pages, 1)));
            vec![("mine".to_owned(), make)]
        };
        assert!("mine".parse::<Kind>().is_err());
        let hits = outside::with(mine(), || {
            let kind: Kind = "mine".parse().unwrap();
            assert_eq!(kind.to_string(), "mine");
            let mut caches = [Ghost::new(kind, 3), Ghost::new(Kind::Lru, 3)];
            let pages = [1, 2, 3, 1, 4, 1, 2, 3, 1, 2];
            caches.each_mut().map(|cache| pages.map(|page| cache.access(page, Access::Read)))
        });
        let [mine_hits, lru_hits] = hits.unwrap();
        assert_eq!(mine_hits, lru_hits);
        assert!("mine".parse::<Kind>().is_err());
        let make = mine().remove(0).1;
        let taken = outside::with(vec![("lru".to_owned(), make.clone())], || ()).unwrap_err();
        assert!(taken.to_string().contains("two policies named 'lru'"), "{taken}");
        assert!(outside::with(vec![("a".to_owned(), make.clone()), ("a".to_owned(), make)], || ()).is_err());
    }
}
