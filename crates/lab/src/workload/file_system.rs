//! A small model of a journalling file system, enough to turn operations on files into requests: what
//! ext3 does in its ordered mode, simplified.
//!
//! - Directories are spread over the block groups; a file's inode and first block are in its directory's
//!   group, its next block is allocated right after its last one (`blocks`).
//! - Reads come from the page cache, else from the device, neighbouring blocks in one request.
//! - Writes stay in the page cache. A commit, every few seconds or when too much of the cache is dirty, writes
//!   file data in the order of addresses, then the changed metadata blocks one after the other into the
//!   journal with a descriptor before them, flushes, and writes the commit block with FUA.
//! - When half of the journal is used, its metadata are written in place, and it starts anew.
//! - Without a journal a commit writes data and then metadata, all of it in place, and flushes nothing.
//!
//! Left out: indirect blocks (files are small), access times, read-ahead.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use seekless_core::{Extent, Flags, Nanos, Op, PAGE_SECTORS, runtime};
use slab::Slab;

use super::Running;
use super::blocks::{Blocks, DATA, GROUP};
use super::cache::Cache;
use super::client::{Client, together};

/// Size of the smallest device, in sectors: two groups.
pub const LEAST_SECTORS: u64 = 2 * GROUP * PAGE_SECTORS;
/// The journal: 32 MiB in the middle of the device.
const JOURNAL: u64 = 8_192;
/// The largest request of write-back and of the journal, in blocks: 512 KiB.
const LARGEST: u64 = 128;
/// Outstanding requests of a commit.
const OUTSTANDING: usize = 32;
/// Directory entries in a block, at 24 bytes.
const ENTRIES: u64 = 170;
const BLOCK_BYTES: u64 = 4096;

/// A file.
pub type FileId = usize;

struct File {
    dir: u64,
    /// Index of the directory's block with its entry.
    entry: usize,
    inode: u64,
    bytes: u64,
    blocks: Vec<u64>,
}

#[derive(Default)]
struct Dir {
    group: u64,
    inode: u64,
    /// Each block, and the entries in it.
    blocks: Vec<(u64, u64)>,
}

struct State {
    blocks: Blocks,
    cache: Cache,
    files: Slab<File>,
    dirs: Vec<Dir>,
    /// Blocks in the journal that are not yet written in place.
    journalled: BTreeSet<u64>,
    /// Blocks of the journal in use.
    journal_used: u64,
}

/// Options of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Blocks in the page cache, and how many of them may be dirty.
    pub cache: u64,
    pub dirty: u64,
    /// Whether metadata go through a journal.
    pub journal: bool,
    /// Whether blocks of deleted files are discarded.
    pub discard: bool,
}

/// A file system on a client's window.
pub struct FileSystem {
    client: Client,
    journal: Client,
    journal_at: u64,
    committing: Cell<bool>,
    habits: Habits,
    state: RefCell<State>,
}

impl FileSystem {
    /// An empty one, with `dirs` directories.
    pub fn new(client: &Client, habits: Habits, dirs: u64) -> Rc<FileSystem> {
        let mut blocks = Blocks::new(client.sectors() / PAGE_SECTORS);
        let groups = blocks.groups();
        let journal_at = groups / 2 * GROUP + DATA;
        for _ in 0..if habits.journal { JOURNAL } else { 0 } {
            blocks.take(journal_at);
        }
        let dirs = (0..dirs).map(|number| {
            let group = number % groups;
            Dir { group, inode: blocks.take_inode(group).unwrap_or_default(), blocks: Vec::new() }
        });
        let dirs = dirs.collect();
        Rc::new(FileSystem {
            client: client.process("postmark"),
            journal: client.process("kjournald"),
            journal_at,
            committing: Cell::new(false),
            habits,
            state: RefCell::new(State {
                blocks,
                cache: Cache::new(habits.cache, habits.dirty),
                files: Slab::new(),
                dirs,
                journalled: BTreeSet::new(),
                journal_used: 0,
            }),
        })
    }

    /// The size of a file.
    pub fn bytes(&self, file: FileId) -> u64 {
        self.state.borrow().files.get(file).map_or(0, |file| file.bytes)
    }

    /// Creates an empty file in this directory; `None` if there is no room.
    pub async fn create(&self, dir: u64) -> Option<FileId> {
        let looked_at: Vec<u64> = {
            let state = self.state.borrow();
            let dir = &state.dirs[dir as usize];
            std::iter::once(Blocks::of_inode(dir.inode))
                .chain(dir.blocks.iter().map(|block| block.0))
                .collect()
        };
        self.bring(&looked_at).await;
        self.room().await;
        self.state.borrow_mut().create(dir)
    }

    /// Reads a whole file.
    pub async fn read(&self, file: FileId) {
        let needed = self.state.borrow().path(file, true);
        self.bring(&needed).await;
    }

    /// Appends to a file, as far as there is room; a partial last block is read first.
    pub async fn append(&self, file: FileId, bytes: u64) {
        let mut needed = self.state.borrow().path(file, false);
        let partial = self.bytes(file) % BLOCK_BYTES > 0;
        needed.extend(
            self.state.borrow().files.get(file).and_then(|file| file.blocks.last().filter(|_| partial)),
        );
        self.bring(&needed).await;
        self.room().await;
        self.state.borrow_mut().append(file, bytes);
    }

    /// Deletes a file; its unwritten blocks are never written.
    pub async fn delete(&self, file: FileId) {
        let needed = self.state.borrow().path(file, false);
        self.bring(&needed).await;
        self.room().await;
        let freed = self.state.borrow_mut().delete(file);
        if self.habits.discard {
            for run in runs(freed) {
                self.client.ask(Op::Discard, run, Flags::default()).await;
            }
        }
    }

    /// Reads blocks into the cache, neighbours in one request.
    async fn bring(&self, blocks: &[u64]) {
        let missing: Vec<u64> = {
            let mut state = self.state.borrow_mut();
            blocks.iter().copied().filter(|block| !state.cache.has(*block)).collect()
        };
        for run in runs(missing) {
            self.client.read(run).await;
            run.pages().for_each(|block| self.state.borrow_mut().cache.keep(block));
        }
    }

    /// Waits until the cache takes more dirty blocks.
    async fn room(&self) {
        while self.state.borrow().cache.is_full() {
            self.commit().await;
        }
    }

    /// Commits periodically, for ever.
    pub fn committer(self: Rc<Self>, every: Nanos) -> Running {
        Box::pin(async move {
            loop {
                runtime::sleep(every).await;
                self.commit().await;
            }
        })
    }

    /// Writes dirty blocks: data, then metadata through the journal. One commit at a time.
    pub async fn commit(&self) {
        self.journal.at_gates(|| !self.committing.get()).await;
        let (data, meta) = {
            let cache = &mut self.state.borrow_mut().cache;
            (std::mem::take(&mut cache.data), std::mem::take(&mut cache.meta))
        };
        if data.is_empty() && meta.is_empty() {
            return;
        }
        self.committing.set(true);
        self.write_back(data.iter().copied().collect()).await;
        if self.habits.journal {
            self.write_journal(meta.len() as u64).await;
        } else {
            self.write_back(meta.iter().copied().collect()).await;
        }
        let full = {
            let mut state = self.state.borrow_mut();
            for &block in data.iter().chain(&meta) {
                if !state.cache.has(block) {
                    state.cache.keep(block);
                }
            }
            if self.habits.journal {
                state.journalled.extend(meta);
            }
            state.journal_used * 2 > JOURNAL
        };
        if full {
            let home = std::mem::take(&mut self.state.borrow_mut().journalled);
            self.write_back(home.into_iter().collect()).await;
            self.journal.flush().await;
            self.state.borrow_mut().journal_used = 0;
        }
        self.committing.set(false);
        self.journal.gates_changed();
    }

    /// Writes blocks in the order of their addresses, neighbours in one request.
    async fn write_back(&self, blocks: Vec<u64>) {
        for some in runs(blocks).chunks(OUTSTANDING) {
            together(some.iter().map(|&run| -> Running {
                let client = self.journal.clone();
                Box::pin(async move { client.write(run).await })
            }))
            .await;
        }
    }

    /// Writes a descriptor and `meta` metadata blocks, flushes, and writes the commit block.
    async fn write_journal(&self, meta: u64) {
        // The journal is a ring.
        let mut left = meta + 1;
        while left > 0 {
            let at = self.journal_head();
            let blocks = left.min(LARGEST).min(JOURNAL - at);
            self.journal.write(Extent::of_pages(self.journal_at + at, blocks)).await;
            self.state.borrow_mut().journal_used += blocks;
            left -= blocks;
        }
        self.journal.flush().await;
        let commit = Extent::of_pages(self.journal_at + self.journal_head(), 1);
        self.journal.ask(Op::Write, commit, Flags::FUA).await;
        self.state.borrow_mut().journal_used += 1;
    }

    fn journal_head(&self) -> u64 {
        self.state.borrow().journal_used % JOURNAL
    }
}

impl State {
    /// The blocks needed in memory to work on a file: its directory up to its entry, its inode, its data.
    fn path(&self, file: FileId, data: bool) -> Vec<u64> {
        let Some(file) = self.files.get(file) else { return Vec::new() };
        let dir = &self.dirs[file.dir as usize];
        let mut blocks = vec![Blocks::of_inode(dir.inode)];
        blocks.extend(dir.blocks.iter().take(file.entry + 1).map(|block| block.0));
        blocks.push(Blocks::of_inode(file.inode));
        if data {
            blocks.extend(&file.blocks);
        }
        blocks
    }

    fn create(&mut self, number: u64) -> Option<FileId> {
        let dir = &mut self.dirs[number as usize];
        let inode = self.blocks.take_inode(dir.group)?;
        let room = dir.blocks.iter().position(|block| block.1 < ENTRIES);
        let entry = room.unwrap_or(dir.blocks.len());
        if room.is_none() {
            let Some(block) = self.blocks.take(dir.group * GROUP) else {
                self.blocks.give_back_inode(inode);
                return None;
            };
            self.cache.meta.insert(Blocks::bitmap(block));
            dir.blocks.push((block, 0));
        }
        dir.blocks[entry].1 += 1;
        let changed = [
            dir.blocks[entry].0,
            Blocks::of_inode(dir.inode),
            Blocks::of_inode(inode),
            Blocks::inode_bitmap(inode),
        ];
        self.cache.meta.extend(changed);
        Some(self.files.insert(File { dir: number, entry, inode, bytes: 0, blocks: Vec::new() }))
    }

    fn append(&mut self, file: FileId, bytes: u64) {
        let Some(file) = self.files.get_mut(file) else { return };
        let needed = (file.bytes + bytes).div_ceil(BLOCK_BYTES);
        if file.bytes % BLOCK_BYTES > 0 {
            self.cache.data.extend(file.blocks.last());
        }
        let group = Blocks::of_inode(file.inode) / GROUP;
        while (file.blocks.len() as u64) < needed {
            let goal = file.blocks.last().map_or(group * GROUP, |last| last + 1);
            let Some(block) = self.blocks.take(goal) else { break };
            file.blocks.push(block);
            self.cache.data.insert(block);
            self.cache.meta.insert(Blocks::bitmap(block));
        }
        file.bytes = (file.bytes + bytes).min(file.blocks.len() as u64 * BLOCK_BYTES);
        self.cache.meta.insert(Blocks::of_inode(file.inode));
    }

    /// The blocks that this frees.
    fn delete(&mut self, file: FileId) -> Vec<u64> {
        let Some(file) = self.files.try_remove(file) else { return Vec::new() };
        for &block in &file.blocks {
            self.blocks.give_back(block);
            self.cache.forget(block);
            self.cache.meta.insert(Blocks::bitmap(block));
        }
        self.blocks.give_back_inode(file.inode);
        let dir = &mut self.dirs[file.dir as usize];
        dir.blocks[file.entry].1 -= 1;
        let changed =
            [dir.blocks[file.entry].0, Blocks::of_inode(file.inode), Blocks::inode_bitmap(file.inode)];
        self.cache.meta.extend(changed);
        file.blocks
    }
}

/// Blocks as requests: sorted, neighbours together.
fn runs(mut blocks: Vec<u64>) -> Vec<Extent> {
    blocks.sort_unstable();
    blocks.dedup();
    let mut runs: Vec<Extent> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end().0 == block * PAGE_SECTORS && run.sectors < LARGEST * PAGE_SECTORS => {
                run.sectors += PAGE_SECTORS;
            }
            _ => runs.push(Extent::of_pages(block, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_go_together_up_to_the_largest_request() {
        let two = runs(vec![7, 5, 6, 9, 6]);
        assert_eq!(two, [Extent::of_pages(5, 3), Extent::of_pages(9, 1)]);
        let long = runs((0..300).collect());
        assert_eq!(
            long.iter().map(|run| run.pages().count() as u64).collect::<Vec<_>>(),
            [LARGEST, LARGEST, 44]
        );
    }
}
