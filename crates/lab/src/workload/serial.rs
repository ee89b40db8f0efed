//! *serial*: serial reads after random writes (SRARW; Schindler et al., *Improving Throughput for Small Disk Requests
//! with Proximal I/O*, FAST 2011, sections 1 and 5.3).
//!
//! An area, such as a table or a disk image, is updated in small blocks in random order, each block once; then, after a
//! flush, it is read from start to end in large requests: transactions by day, a scan at night. It ends after a number
//! of rounds.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::{Extent, runtime};

use super::client::{Client, together};
use super::keys::{Keys, Share, WorkloadError};
use super::{Entry, LARGEST, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "serial",
    does: "serial reads after random writes: an area is updated in random order, then read in order",
    source: "proximal I/O paper (FAST 2011), sections 1 and 5.3",
    options: &[
        Opt { key: "write", default: "4KiB", what: "the size of an update" },
        Opt { key: "part", default: "100%", what: "blocks that a round updates, in per cent of the area" },
        Opt { key: "outstanding", default: "8", what: "concurrent updates" },
        Opt { key: "read", default: "1MiB", what: "the size of a read" },
        Opt { key: "rounds", default: "1", what: "rounds of updates and reads" },
    ],
    area: "1GiB",
    make: Some(make),
};

/// Limit of blocks: the order of a round's updates is kept in memory, four bytes a block.
const MOST_BLOCKS: u64 = 1 << 24;

struct Serial {
    write: u64,
    part: Share,
    outstanding: u64,
    read: u64,
    rounds: u64,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let write = keys.sectors("write", 512..=LARGEST)?;
    let most = write.saturating_mul(MOST_BLOCKS);
    if keys.area(ENTRY.area)?.is_none_or(|area| area > most) {
        let most = seekless_core::Size(most.saturating_mul(512));
        return Err(keys.error("area", format!("at most {most}, {MOST_BLOCKS} times write=")));
    }
    Ok(Rc::new(Serial {
        write,
        part: keys.share("part")?,
        outstanding: keys.number("outstanding", 1..=100_000)?,
        read: keys.sectors("read", 512..=LARGEST)?,
        rounds: keys.number("rounds", 1..=1_000_000)?,
    }))
}

impl Workload for Serial {
    fn run(self: Rc<Self>, client: Client) -> Running {
        Box::pin(async move {
            for _ in 0..self.rounds {
                self.update(&client).await;
                let scan = client.process("serial reads");
                scan.flush().await;
                let mut start = 0;
                while start < client.sectors() {
                    let sectors = self.read.min(client.sectors() - start);
                    scan.read(Extent::new(start, sectors)).await;
                    start += sectors;
                }
            }
        })
    }

    fn needs(&self) -> u64 {
        self.write.max(self.read)
    }

    fn ends(&self) -> bool {
        true
    }
}

impl Serial {
    /// Writes blocks in a random order, none twice.
    async fn update(&self, client: &Client) {
        let mut rng = runtime::rng("serial");
        let blocks = client.sectors() / self.write;
        let updates =
            (u128::from(blocks) * u128::from(self.part.part) / u128::from(self.part.whole)) as usize;
        let mut order: Vec<u32> = (0..blocks as u32).collect();
        for at in 0..updates {
            let with = at + rng.below((order.len() - at) as u64) as usize;
            order.swap(at, with);
        }
        order.truncate(updates);
        let order = Rc::new(RefCell::new(order.into_iter()));
        together((0..self.outstanding).map(|_| -> Running {
            let (client, order, write) = (client.process("serial writes"), order.clone(), self.write);
            Box::pin(async move {
                loop {
                    let Some(block) = order.borrow_mut().next() else { return };
                    client.write(Extent::new(u64::from(block) * write, write)).await;
                }
            })
        }))
        .await;
    }
}
