//! *postmark*: many small files, as on a mail server (Katcher, *`PostMark`: a new file system benchmark*, TR3022,
//! Network Appliance, 1997; used in section 5.2 of the freeblock paper and 6.3 of BORG's).
//!
//! A pool of files of random size is created in subdirectories; then come transactions, each one access to a file (read
//! it whole, or append to it) and one manipulation (create a file, or delete one), each half and half; then everything
//! is deleted. One process, closed: it waits for its reads, and for room in the page cache for its writes; in between
//! it computes for a given time. The model of a file system in `file_system` turns this into requests to the device.

use std::rc::Rc;

use seekless_core::runtime::{self, Rng};
use seekless_core::{Nanos, PAGE_BYTES};

use super::client::Client;
use super::file_system::{FileId, FileSystem, Habits, LEAST_SECTORS};
use super::keys::{Keys, WorkloadError};
use super::{Entry, Opt, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "postmark",
    does: "many small files created, read, appended to and deleted, through a model of a file system",
    source: "PostMark (Katcher, TR3022, 1997); freeblock paper, section 5.2; BORG paper, section 6.3",
    options: &[
        Opt { key: "files", default: "2000", what: "in the pool at first" },
        Opt { key: "dirs", default: "100", what: "subdirectories" },
        Opt { key: "transactions", default: "10000", what: "how many" },
        Opt { key: "rounds", default: "1", what: "number of transactions; then all is deleted" },
        Opt { key: "min", default: "5kB", what: "the smallest size of a file" },
        Opt { key: "max", default: "10kB", what: "the largest" },
        Opt { key: "cpu", default: "1ms", what: "computing time before each transaction" },
        Opt { key: "cache", default: "16MiB", what: "the page cache" },
        Opt { key: "dirty", default: "half", what: "its limit of dirty data, or half" },
        Opt { key: "commit", default: "5s", what: "between two commits" },
        Opt { key: "journal", default: "1", what: "metadata go through a journal: 0 or 1" },
        Opt { key: "discard", default: "0", what: "blocks of deleted files are discarded: 0 or 1" },
    ],
    area: "all",
    make: Some(make),
};

struct Postmark {
    files: u64,
    dirs: u64,
    transactions: u64,
    rounds: u64,
    /// In bytes.
    min: u64,
    max: u64,
    cpu: Nanos,
    habits: Habits,
    commit: Nanos,
}

fn make(keys: &Keys) -> Result<Rc<dyn Workload>, WorkloadError> {
    let min = keys.bytes("min", 1..=64 << 20)?;
    let commit = keys.time("commit")?;
    if commit == Nanos::ZERO {
        return Err(keys.error("commit", "more than zero"));
    }
    let cache = keys.bytes("cache", 1 << 20..=1 << 40)? / PAGE_BYTES;
    let dirty = if keys.text("dirty") == "half" {
        cache / 2
    } else {
        keys.bytes("dirty", PAGE_BYTES..=cache * PAGE_BYTES)? / PAGE_BYTES
    };
    let habits = Habits {
        cache,
        dirty,
        journal: keys.number("journal", 0..=1)? == 1,
        discard: keys.number("discard", 0..=1)? == 1,
    };
    Ok(Rc::new(Postmark {
        rounds: keys.number("rounds", 1..=1_000)?,
        habits,
        files: keys.number("files", 1..=1_000_000)?,
        dirs: keys.number("dirs", 1..=100_000)?,
        transactions: keys.number("transactions", 0..=1_000_000_000)?,
        min,
        max: keys.bytes("max", min..=64 << 20)?,
        cpu: keys.time("cpu")?,
        commit,
    }))
}

impl Workload for Postmark {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let disk = FileSystem::new(&client, self.habits, self.dirs);
        let mut rng = runtime::rng("postmark");
        let committer = disk.clone().committer(self.commit);
        Box::pin(async move {
            // Dropped with this task: it never ends by itself.
            let _committer = runtime::spawn(committer);
            let mut pool = Vec::new();
            for _ in 0..self.files {
                runtime::sleep(self.cpu).await;
                self.create(&disk, &mut pool, &mut rng).await;
            }
            for _ in 0..self.rounds {
                client.mark("transactions");
                for _ in 0..self.transactions {
                    runtime::sleep(self.cpu).await;
                    self.transaction(&disk, &mut pool, &mut rng).await;
                }
            }
            client.mark("deletions");
            for file in pool {
                disk.delete(file).await;
            }
            disk.commit().await;
        })
    }

    fn needs(&self) -> u64 {
        LEAST_SECTORS
    }

    fn ends(&self) -> bool {
        true
    }
}

impl Postmark {
    async fn transaction(&self, disk: &FileSystem, pool: &mut Vec<FileId>, rng: &mut Rng) {
        if !pool.is_empty() {
            let file = pool[rng.below(pool.len() as u64) as usize];
            if rng.chance(1, 2) {
                disk.read(file).await;
            } else if disk.bytes(file) < self.max {
                let more = rng.below(self.max - disk.bytes(file)) + 1;
                disk.append(file, more).await;
            }
        }
        if rng.chance(1, 2) || pool.is_empty() {
            self.create(disk, pool, rng).await;
        } else {
            let file = pool.swap_remove(rng.below(pool.len() as u64) as usize);
            disk.delete(file).await;
        }
    }

    /// On a full file system no file is created, as the benchmark goes on after an error.
    async fn create(&self, disk: &FileSystem, pool: &mut Vec<FileId>, rng: &mut Rng) {
        let (dir, bytes) = (rng.below(self.dirs), self.min + rng.below(self.max - self.min + 1));
        if let Some(file) = disk.create(dir).await {
            disk.append(file, bytes).await;
            pool.push(file);
        }
    }
}
