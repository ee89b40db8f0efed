//! *churn*: every kind of request, of any length, anywhere and often at the same places: what finds out
//! whether a layer keeps its promises, and no load that anybody has.

use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Extent, Flags, Op, PAGE_SECTORS, SECTOR_BYTES};

use super::client::{Client, together};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// How the registry knows it.
pub const ENTRY: Entry = Entry {
    name: "churn",
    does: "every kind of request, of any length, often at the same places",
    source: "for `lab explore`",
    options: &[
        Opt { key: "size", default: "16KiB", what: "the largest request; lengths are by chance" },
        Opt { key: "reads", default: "20%", what: "reads" },
        Opt { key: "flushes", default: "8%", what: "flushes" },
        Opt { key: "fua", default: "6%", what: "writes with FUA" },
        Opt { key: "discards", default: "5%", what: "discards" },
        Opt { key: "zeroes", default: "5%", what: "write zeroes" },
        Opt { key: "hot", default: "50%", what: "requests to the first sixteenth" },
        Opt { key: "outstanding", default: "4", what: "clients, each with one request at a time" },
    ],
    area: "all",
    make: Some(make),
};

struct Churn {
    sectors: u64,
    hot: Share,
    kinds: [(Share, Op, Flags); 5],
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
    ];
    Ok(Rc::new(Churn {
        sectors: keys.sectors("size", SECTOR_BYTES..=LARGEST)?,
        hot: keys.share("hot")?,
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
                        churn.place(&mut rng, client.sectors())
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
    /// Each share is of all requests; what is left are writes.
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

    /// Half of them whole pages, as file systems ask.
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
