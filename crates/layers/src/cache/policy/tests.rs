//! Each policy against a plain reference: vectors of pages, searched from end to end, as its paper describes it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Access, Ghost, Kind, Policy};

/// A cache that a policy manages.
struct Cache {
    policy: Box<dyn Policy>,
    pages: u64,
    resident: BTreeSet<u64>,
}

impl Cache {
    fn new(kind: Kind, pages: u64) -> Cache {
        Cache { policy: kind.build(pages), pages, resident: BTreeSet::new() }
    }

    /// An access; returns whether it hit, and the page that was evicted for it.
    fn access(&mut self, page: u64, by: Access) -> (bool, Option<u64>) {
        let hit = self.resident.contains(&page);
        let mut evicted = None;
        if hit {
            self.policy.hit(page, by);
        } else {
            self.policy.miss(page);
            if self.resident.len() as u64 == self.pages {
                evicted = self.policy.evict();
                let Some(evicted) = evicted else { return (false, None) };
                assert!(self.resident.remove(&evicted), "{evicted} was not resident");
            }
            self.policy.admit(page, by);
            self.resident.insert(page);
        }
        while let Some(spent) = self.policy.next_spent() {
            assert!(self.resident.remove(&spent), "{spent} was not resident");
        }
        (hit, evicted)
    }
}

/// A policy as its paper has it: lists with the newest page last. Pages have a count.
#[derive(Default)]
struct Reference {
    lists: [Vec<(u64, u8)>; 4],
    hand: usize,
    target: f64,
    full: bool,
}

fn find(list: &[(u64, u8)], page: u64) -> Option<usize> {
    list.iter().position(|entry| entry.0 == page)
}

impl Reference {
    /// An access in a cache of `c` pages; returns whether it hit, and the page evicted.
    fn access(&mut self, kind: Kind, c: usize, page: u64, by: Access) -> (bool, Option<u64>) {
        match kind {
            Kind::Lru => self.lru(c, page),
            Kind::Clock => self.clock(c, page),
            Kind::TwoQ => self.two_q(c, page),
            Kind::Arc => self.arc(c, page),
            Kind::S3Fifo => self.s3_fifo(c, page),
            Kind::Sieve => self.sieve(c, page),
            Kind::DropWhenRead => self.drop_when_read(c, page, by),
            Kind::Outside(name) => unreachable!("{name} has no reference"),
        }
    }

    fn lru(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let list = &mut self.lists[0];
        let hit = find(list, page).map(|at| list.remove(at)).is_some();
        let evicted = (list.len() == c).then(|| list.remove(0).0);
        list.push((page, 0));
        (hit, evicted)
    }

    fn clock(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let list = &mut self.lists[0];
        if let Some(at) = find(list, page) {
            list[at].1 = 1;
            return (true, None);
        }
        let mut evicted = None;
        while list.len() == c {
            match list.remove(0) {
                (page, 0) => evicted = Some(page),
                (page, _) => list.push((page, 0)),
            }
        }
        list.push((page, 0));
        (false, evicted)
    }

    fn sieve(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let list = &mut self.lists[0];
        if let Some(at) = find(list, page) {
            list[at].1 = 1;
            return (true, None);
        }
        let mut evicted = None;
        if list.len() == c {
            while std::mem::take(&mut list[self.hand].1) == 1 {
                self.hand = (self.hand + 1) % c;
            }
            evicted = Some(list.remove(self.hand).0);
            self.hand = if self.hand + 1 == c { 0 } else { self.hand };
        }
        list.push((page, 0));
        (false, evicted)
    }

    fn two_q(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let [new, evicted, main, _] = &mut self.lists;
        if let Some(at) = find(main, page) {
            let entry = main.remove(at);
            main.push(entry);
            return (true, None);
        }
        if find(new, page).is_some() {
            return (true, None);
        }
        let known = find(evicted, page).map(|at| evicted.remove(at)).is_some();
        let mut left = None;
        if new.len() + main.len() == c {
            if new.len() > c / 4 || main.is_empty() {
                let entry = new.remove(0);
                left = Some(entry.0);
                evicted.push(entry);
                if evicted.len() > c / 2 {
                    evicted.remove(0);
                }
            } else {
                left = Some(main.remove(0).0);
            }
        }
        if known {
            main.push((page, 0));
        } else {
            new.push((page, 0));
        }
        (false, left)
    }

    fn arc(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let [t1, t2, b1, b2] = &mut self.lists;
        let entry = find(t1, page).map(|at| t1.remove(at));
        if let Some(entry) = entry.or_else(|| find(t2, page).map(|at| t2.remove(at))) {
            t2.push(entry);
            return (true, None);
        }
        let (in_b1, in_b2) = (find(b1, page), find(b2, page));
        let full = t1.len() + t2.len() == c;
        let mut plain = None;
        if in_b1.is_some() {
            self.target = (c as f64).min(self.target + (b2.len() as f64 / b1.len() as f64).max(1.0));
        } else if in_b2.is_some() {
            self.target = (self.target - (b1.len() as f64 / b2.len() as f64).max(1.0)).max(0.0);
        } else if full && t1.len() == c {
            plain = Some(t1.remove(0).0);
        } else if full && t1.len() + b1.len() == c {
            b1.remove(0);
        } else if full && t1.len() + t2.len() + b1.len() + b2.len() == 2 * c {
            b2.remove(0);
        }
        let share = self.target - t1.len() as f64;
        let mut evicted = plain;
        if full && plain.is_none() {
            let from_t1 =
                t2.is_empty() || !t1.is_empty() && (share < 0.0 || in_b2.is_some() && share.abs() < 1e-9);
            let (from, to) = if from_t1 { (&mut *t1, &mut *b1) } else { (&mut *t2, &mut *b2) };
            let entry = from.remove(0);
            to.push(entry);
            evicted = Some(entry.0);
        }
        let known = in_b1.or(in_b2).is_some();
        b1.retain(|entry| entry.0 != page);
        b2.retain(|entry| entry.0 != page);
        if known {
            t2.push((page, 0));
        } else {
            t1.push((page, 0));
        }
        (false, evicted)
    }

    fn s3_fifo(&mut self, c: usize, page: u64) -> (bool, Option<u64>) {
        let [small, main, ghost, _] = &mut self.lists;
        for list in [&mut *small, &mut *main] {
            if let Some(at) = find(list, page) {
                list[at].1 = 3.min(list[at].1 + 1);
                return (true, None);
            }
        }
        let known = find(ghost, page).map(|at| ghost.remove(at)).is_some();
        let mut evicted = None;
        let small_size = c.div_ceil(10);
        while small.len() + main.len() == c {
            self.full = true;
            if main.len() > c - small_size || small.is_empty() {
                match main.remove(0) {
                    (page, 0) => evicted = Some(page),
                    (page, uses) => main.push((page, uses - 1)),
                }
                continue;
            }
            // Until one is evicted, even if the main queue gets too long meanwhile.
            while evicted.is_none() && !small.is_empty() {
                match small.remove(0) {
                    (page, 2..) => main.push((page, 0)),
                    (page, _) => {
                        ghost.push((page, 0));
                        evicted = Some(page);
                    }
                }
            }
        }
        if ghost.len() > c * 9 / 10 {
            ghost.remove(0);
        }
        let overflows = !self.full && small.len() >= small_size;
        if known || overflows {
            main.push((page, 0));
        } else {
            small.push((page, 0));
        }
        (false, evicted)
    }

    fn drop_when_read(&mut self, c: usize, page: u64, by: Access) -> (bool, Option<u64>) {
        let list = &mut self.lists[0];
        let hit = find(list, page).map(|at| list.remove(at)).is_some();
        let evicted = (list.len() == c).then(|| list.remove(0).0);
        if by == Access::Write {
            list.push((page, 0));
        }
        (hit, evicted)
    }
}

fn accesses() -> impl Strategy<Value = Vec<(u64, bool)>> {
    // Few pages often, many now and then, and runs.
    let one = (0_u64..4, 0_u64..12, 0_u64..60, any::<bool>());
    proptest::collection::vec(one, 1..400).prop_map(|all| {
        let mut run = 0;
        let pages = all.into_iter().map(|(what, few, many, write)| {
            run += 1;
            let page = match what {
                0 | 1 => few,
                2 => many,
                _ => 100 + run,
            };
            (page, write)
        });
        pages.collect()
    })
}

fn access(write: bool) -> Access {
    if write { Access::Write } else { Access::Read }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn policies_evict_as_their_references_do(all in accesses(), pages in 8_u64..24) {
        for (kind, name) in Kind::ALL {
            let (mut cache, mut reference) = (Cache::new(kind, pages), Reference::default());
            for (number, &(page, write)) in all.iter().enumerate() {
                let expected = reference.access(kind, pages as usize, page, access(write));
                prop_assert_eq!(cache.access(page, access(write)), expected, "{}, access {}", name, number);
                prop_assert!(cache.resident.len() as u64 <= pages, "{} holds too many", name);
            }
        }
    }

    #[test]
    fn a_cache_of_another_size_holds_as_many_pages_as_it_has_room_for(
        all in accesses(), sizes in proptest::collection::vec(8_u64..40, 1..8)
    ) {
        for (kind, name) in Kind::ALL {
            let mut cache = Ghost::new(kind, sizes[0]);
            let every = all.len() / sizes.len() + 1;
            for (number, &(page, write)) in all.iter().enumerate() {
                if number % every == 0 {
                    let before = cache.held();
                    cache.resize(sizes[number / every]);
                    prop_assert_eq!(cache.held(), before.min(cache.pages()), "{} evicts needlessly", name);
                }
                let held = cache.holds(page);
                prop_assert_eq!(cache.access(page, access(write)), held, "{}", name);
                prop_assert!(cache.held() <= cache.pages(), "{} holds too many", name);
            }
        }
    }

    #[test]
    fn pinned_pages_stay(all in accesses(), pages in 8_u64..24, often in 1_usize..6) {
        for (kind, name) in Kind::ALL {
            let mut cache = Cache::new(kind, pages);
            let mut pinned = BTreeSet::new();
            for (number, &(page, write)) in all.iter().enumerate() {
                let (hit, evicted) = cache.access(page, access(write));
                prop_assert!(!evicted.is_some_and(|page| pinned.contains(&page)), "{}", name);
                let full = cache.resident.len() as u64 == pages && pinned.len() as u64 == pages;
                prop_assert!(hit || evicted.is_some() || full || (cache.resident.len() as u64) < pages
                    || cache.resident.contains(&page), "{}: nothing was evicted", name);
                if number % often == 0 && cache.resident.contains(&page) {
                    cache.policy.pin(page, true);
                    pinned.insert(page);
                } else if let Some(&first) = pinned.iter().next() {
                    cache.policy.pin(first, false);
                    pinned.remove(&first);
                    while let Some(spent) = cache.policy.next_spent() {
                        prop_assert_eq!(spent, first, "{}", name);
                        cache.resident.remove(&spent);
                    }
                }
                prop_assert!(pinned.is_subset(&cache.resident), "{}", name);
            }
        }
    }
}

#[test]
fn policies_are_known_by_their_names() {
    for (kind, name) in Kind::ALL {
        assert_eq!((name.parse(), kind.to_string()), (Ok(kind), name.to_owned()));
        assert_eq!(toml::Value::try_from(kind).unwrap().as_str(), Some(name), "options use the same");
    }
    assert!("lfu".parse::<Kind>().unwrap_err().contains("'lfu', expected one of lru, clock"));
}
