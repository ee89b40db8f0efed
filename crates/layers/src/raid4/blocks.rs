//! Transfers of blocks from members and to them.

use std::collections::BTreeMap;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, Extent, Hints, IoError};

use super::members::Members;
use crate::join::join_all;

/// Blocks of a member, by number.
pub type Blocks = BTreeMap<u64, Buffer>;

impl Members {
    /// Contiguous runs of blocks, each for one command: a checksum block goes together with its group only if all of
    /// that is transferred.
    fn runs<'a>(&self, blocks: &'a Blocks) -> Vec<Vec<(u64, &'a Buffer)>> {
        let group = self.layout.group_blocks();
        let mut runs: Vec<Vec<(u64, &Buffer)>> = Vec::new();
        for (&block, buffer) in blocks {
            let sums = if self.layout.is_sums(block) { block } else { block - 1 };
            let follows = runs.last().and_then(|run| run.last()).is_some_and(|(last, _)| last + 1 == block);
            let whole =
                || !self.layout.is_sums(sums) || blocks.range(sums..sums + group).count() as u64 == group;
            match runs.last_mut() {
                Some(run) if follows && whole() => run.push((block, buffer)),
                _ => runs.push(vec![(block, buffer)]),
            }
        }
        runs
    }

    /// Reads blocks of a member into their buffers; the errors of those that cannot be read.
    pub async fn read(&self, member: usize, blocks: &Blocks, how: &Hints) -> BTreeMap<u64, IoError> {
        let runs = self.runs(blocks).into_iter().map(async |run| {
            let mut failed = BTreeMap::new();
            if let Err(error) = self.read_run(member, &run, how).await {
                if run.len() == 1 {
                    failed.insert(run[0].0, error);
                    return failed;
                }
                edge("of a run that cannot be read, each block is");
                for block in run {
                    if let Err(error) = self.read_run(member, &[block], how).await {
                        failed.insert(block.0, error);
                    }
                }
            }
            failed
        });
        join_all(runs).await.into_iter().flatten().collect()
    }

    async fn read_run(&self, member: usize, run: &[(u64, &Buffer)], how: &Hints) -> Result<(), IoError> {
        self.reads.set(self.reads.get() + 1);
        let (device, at) = (self.device(member), Extent::of_pages(run[0].0, run.len() as u64));
        let into = Buffer::join(run.iter().map(|(_, buffer)| (*buffer).clone()));
        let parts = into.split(at, device.geometry().largest_sectors);
        let parts = parts.map(|(part, into)| device.read(part, into, how.clone()));
        join_all(parts).await.into_iter().try_for_each(|read| read.map(drop))
    }

    /// Writes blocks of a member.
    pub async fn write(&self, member: usize, blocks: &Blocks, how: &Hints) -> Result<(), IoError> {
        let runs = self.runs(blocks).into_iter().map(async |run| {
            self.writes.set(self.writes.get() + 1);
            let (device, at) = (self.device(member), Extent::of_pages(run[0].0, run.len() as u64));
            let from = Buffer::join(run.iter().map(|(_, buffer)| (*buffer).clone()));
            let parts = from.split(at, device.geometry().largest_sectors);
            let parts = parts.map(|(part, from)| device.write(part, from, how.clone()));
            join_all(parts).await.into_iter().collect::<Result<(), IoError>>()
        });
        join_all(runs).await.into_iter().collect()
    }
}
