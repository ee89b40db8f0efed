//! The analyzer in bytes, to be kept beyond a restart: graphs as differences from page to page.
//!
//! Invariant: an analyzer that was decoded is one that could have been encoded, so no bytes make a plan fail.

use seekless_core::ProcessId;

use super::access::AccessGraph;
use super::{Analyzer, Last, PROCESSES};
use crate::borg::code::{self, Reader, Unfit, put};

impl Analyzer {
    /// Encodes it.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.requests);
        put(bytes, self.last_of_all.map_or(0, |page| u64::from(page) + 1));
        put(bytes, self.graphs.len() as u64);
        self.graphs.iter().for_each(|graph| graph.encode(bytes));
        let mut last: Vec<(ProcessId, Last)> =
            self.last.iter().map(|(process, last)| (*process, *last)).collect();
        last.sort_unstable_by_key(|(process, _)| *process);
        put(bytes, last.len() as u64);
        let mut before = 0;
        for (process, Last { page, at }) in last {
            code::put_step(bytes, before, process.0);
            put(bytes, u64::from(page));
            put(bytes, at);
            before = process.0;
        }
    }

    /// What was encoded, of a volume of `pages` pages, with the limit and jumps of this one.
    pub fn decode(&self, bytes: &mut Reader<'_>, pages: u64) -> Result<Analyzer, Unfit> {
        let mut analyzer = self.anew();
        analyzer.requests = bytes.number()?;
        let last_of_all = bytes.number()?;
        bytes.ensure(last_of_all <= pages, "a page of the volume")?;
        analyzer.last_of_all = last_of_all.checked_sub(1).map(|page| page as u32);
        for _ in 0..bytes.count(3)? {
            analyzer.graphs.push(AccessGraph::decode(bytes, pages)?.into());
        }
        let (mut process, count) = (0, bytes.count(3)?);
        bytes.ensure(count <= PROCESSES, "fewer processes")?;
        for _ in 0..count {
            process = bytes.step(process)?;
            let last = Last { page: bytes.word()?, at: bytes.number()? };
            bytes.ensure(u64::from(last.page) < pages, "a page of the volume")?;
            analyzer.last.insert(ProcessId(process), last);
        }
        Ok(analyzer)
    }
}
