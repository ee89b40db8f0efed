//! *churn*: every kind of request, of any length, anywhere and often at the same places: to test the guarantees of a
//! layer, not a realistic load.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Extent, Flags, Op, PAGE_SECTORS, SECTOR_BYTES};

use super::client::{Client, together};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "churn",
    does: "every kind of request, of any length, often at the same places",
    source: "for `lab explore`",
    options: &[
        Opt { key: "size", default: "16KiB", what: "the largest request; lengths are random" },
        Opt { key: "reads", default: "20%", what: "reads" },
        Opt { key: "flushes", default: "8%", what: "flushes" },
        Opt { key: "fua", default: "6%", what: "writes with FUA" },
        Opt { key: "discards", default: "5%", what: "discards" },
        Opt { key: "zeroes", default: "5%", what: "write zeroes" },
        Opt { key: "fua_zeroes", default: "0%", what: "write zeroes with FUA" },
        Opt { key: "fua_discards", default: "0%", what: "discards with FUA" },
        Opt { key: "hot", default: "50%", what: "requests to the first sixteenth" },
        Opt {
            key: "meets",
            default: "0%",
            what: "requests at an end of the one before, overlapping it by a sector or after it, or at an end of its pages",
        },
        Opt { key: "outstanding", default: "4", what: "clients, each with one request at a time" },
    ],
    area: "all",
    make: Some(make),
};

struct Churn {
    sectors: u64,
    hot: Share,
    meets: Share,
    /// Extent of the previous request.
    last: Cell<Extent>,
    kinds: [(Share, Op, Flags); 7],
    outstanding: u64,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let none = Flags::default();
    let kinds = [
        (keys.share("reads")?, Op::Read, none),
        (keys.share("flushes")?, Op::Flush, none),
        (keys.share("fua")?, Op::Write, Flags::FUA),
        (keys.share("discards")?, Op::Discard, none),
        (keys.share("zeroes")?, Op::WriteZeroes, none),
        (keys.share("fua_zeroes")?, Op::WriteZeroes, Flags::FUA),
        (keys.share("fua_discards")?, Op::Discard, Flags::FUA),
    ];
    Ok(Rc::new(Churn {
        sectors: keys.sectors("size", SECTOR_BYTES..=LARGEST)?,
        hot: keys.share("hot")?,
        meets: keys.share("meets")?,
        last: Cell::default(),
        kinds,
        outstanding: keys.number("outstanding", 1..=1_000)?,
    }))
}

impl Workload for Churn {
    fn run(self: Rc<Self>, client: Client) -> Running {
        together((0..self.outstanding).map(|_| -> Running {
            let (churn, client) = (self.clone(), client.process(ENTRY.name));
            let mut rng = runtime::rng(ENTRY.name);
            Box::pin(async move {
                loop {
                    let (op, flags) = churn.kind(&mut rng);
                    let at = if op == Op::Flush {
                        Extent::default()
                    } else {
                        churn.meeting(&mut rng, client.sectors())
                    };
                    client.ask(op, at, flags).await;
                }
            })
        }))
    }

    fn needs(&self) -> u64 {
        self.sectors
    }
}

impl Churn {
    /// Draws a kind: each share is of all requests; the remainder are writes.
    fn kind(&self, rng: &mut Rng) -> (Op, Flags) {
        let mut draw = rng.below(1_000_000);
        for (share, op, flags) in self.kinds {
            let part = share.part * 1_000_000 / share.whole;
            if draw < part {
                return (op, flags);
            }
            draw -= part;
        }
        (Op::Write, Flags::default())
    }

    /// Next to the previous request, if there is room, or anywhere.
    fn meeting(&self, rng: &mut Rng, window: u64) -> Extent {
        let last = self.last.get();
        // A share of 0 does not affect the random numbers of others.
        let meets = self.meets.part > 0 && rng.chance(self.meets.part, self.meets.whole);
        let mut at = if meets && last.sectors > 0 { self.near_last(last, rng) } else { Extent::default() };
        if at.sectors == 0 || at.end().0 > window {
            at = self.place(rng, window);
        }
        self.last.set(at);
        at
    }

    /// Over its last sector or its first, right after or before it, within it, or the last sector or first of one of
    /// its pages.
    fn near_last(&self, last: Extent, rng: &mut Rng) -> Extent {
        let sectors = rng.below(self.sectors) + 1;
        match rng.below(7) {
            0 => Extent::new(last.end().0 - 1, sectors),
            1 => Extent::new(last.end().0, sectors),
            2 => Extent::new((last.start.0 + 1).saturating_sub(sectors), sectors),
            3 => Extent::new(last.start.0.saturating_sub(sectors), sectors),
            4 | 5 => {
                let page = last.start.page() + rng.below(last.page_count());
                let ends = [(page + 1) * PAGE_SECTORS - 1, page * PAGE_SECTORS];
                Extent::new(ends[rng.below(2) as usize], 1)
            }
            _ => Extent::new(last.start.0 + rng.below(last.sectors), 1),
        }
    }

    /// Half of them whole pages, as from file systems.
    fn place(&self, rng: &mut Rng, window: u64) -> Extent {
        let hot = (window / 16).max(self.sectors);
        let room = if rng.chance(self.hot.part, self.hot.whole) { hot } else { window };
        let sectors = rng.below(self.sectors) + 1;
        if rng.chance(1, 2) && self.sectors >= PAGE_SECTORS {
            let whole = sectors.div_ceil(PAGE_SECTORS).min(self.sectors / PAGE_SECTORS) * PAGE_SECTORS;
            return Extent::new(rng.below((room - whole) / PAGE_SECTORS + 1) * PAGE_SECTORS, whole);
        }
        Extent::new(rng.below(room - sectors + 1), sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn requests_meet_at_their_ends() {
        let keys = |text: &str| workload::parse(text).map(drop);
        assert!(keys("churn:meets=60%").is_ok() && keys("churn:meets=101%").is_err());
        let churn = Churn {
            sectors: 8,
            hot: Share { part: 0, whole: 1 },
            meets: Share { part: 1, whole: 1 },
            last: Cell::default(),
            kinds: [(); 7].map(|()| (Share { part: 0, whole: 1 }, Op::Read, Flags::default())),
            outstanding: 1,
        };
        let mut rng = Rng::seeded(1);
        let drawn: Vec<Extent> = (0..400).map(|_| churn.meeting(&mut rng, 64)).collect();
        assert!(drawn.iter().all(|at| (1..=8).contains(&at.sectors) && at.end().0 <= 64));
        let count = |which: fn(Extent, Extent) -> bool| {
            drawn.windows(2).filter(|pair| which(pair[0], pair[1])).count()
        };
        assert!(count(|last, at| at.start.0 + 1 == last.end().0) > 40, "over its last sector");
        assert!(count(|last, at| at.start == last.end()) > 40, "behind it");
        assert!(count(|last, at| at.end() == last.start) > 20, "before it");
    }
}
