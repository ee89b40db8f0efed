//! Reads: from one member; what it cannot read comes from another one, and is written to it again.

use std::collections::BTreeSet;

use seekless_core::runtime::edge;
use seekless_core::{Buffer, ErrorKind, Extent, Hints, IoError, Nanos, Op, PAGE_SECTORS, mutant};

use super::Mirror;
use super::members::Members;

use crate::join::join_all;

/// Times that copies are made the same again, which writes that fail meanwhile left different, before a read fails.
const ATTEMPTS: u32 = 4;

impl Mirror {
    /// A buffer for sectors: hollow, if only time is measured.
    pub(super) fn buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow(at.bytes()) } else { Buffer::zeroed(at.bytes()) }
    }

    /// Reads sectors of a member. One that is gone is out of service from then on.
    pub(super) async fn read_member(
        &self,
        member: usize,
        at: Extent,
        into: Buffer,
        how: &Hints,
    ) -> Result<Buffer, IoError> {
        self.reads.set(self.reads.get() + 1);
        let pending = &self.pending[member];
        pending.set(pending.get() + 1);
        let read = self.members.device(member).read(Members::place(at), into, how.clone()).await;
        pending.set(pending.get() - 1);
        if let Err(error) = read.as_ref()
            && error.kind() == ErrorKind::Gone
        {
            self.members.fail(member, error);
        }
        read
    }

    /// See [`seekless_core::BlockDevice::read`].
    pub(super) async fn read_one(&self, at: Extent, into: Buffer, how: &Hints) -> Result<Buffer, IoError> {
        for _ in 0..ATTEMPTS {
            let held = self.locks.shared(at.whole_pages(), how).await;
            if self.members.are_several() && self.is_unsettled(at) {
                drop(held);
                let whole = at.whole_pages();
                let _held = self.locks.exclusive(whole, how).await;
                self.settle_held(whole, false, how).await?;
                continue;
            }
            let Some(member) = self.nearest(at, how) else { return Err(super::none_left()) };
            let read = self.read_member(member, at, into.clone(), how).await;
            let Err(error) = read else { return read };
            drop(held);
            if error.kind() == ErrorKind::Aborted || self.members.serving() == [member] {
                return Err(error);
            }
            edge("a read fails: another member has the data");
            return self.mend(at, into, how).await;
        }
        let why = "found copies that stay different, expected them to be made the same";
        Err(IoError::new(ErrorKind::Medium, super::options::NAME, Some(at), why))
    }

    /// The member in service that reads these sectors first.
    fn nearest(&self, at: Extent, how: &Hints) -> Option<usize> {
        let cost = |member: &usize| {
            let estimate = self.members.device(*member).estimate(Op::Read, Members::place(at), how);
            (self.pending[*member].get(), estimate.unwrap_or(Nanos(0)), *member)
        };
        self.members.serving().into_iter().min_by_key(cost)
    }

    /// Reads each page from the first member that can, and repairs it on those that cannot. If a read verifies, it
    /// compares all members, and repairs those that have something else than most, or than the first one.
    async fn mend(&self, at: Extent, into: Buffer, how: &Hints) -> Result<Buffer, IoError> {
        let _held = self.locks.exclusive(at.whole_pages(), how).await;
        if self.is_unsettled(at) {
            self.settle_held(at.whole_pages(), false, how).await?;
        }
        for (part, into) in into.split(at, PAGE_SECTORS) {
            let read = self.mend_page(part, how).await?;
            if into.is_real() {
                into.put(0, &read.to_vec());
            }
        }
        Ok(into)
    }

    /// Sectors of a page; the caller has its lock.
    async fn mend_page(&self, at: Extent, how: &Hints) -> Result<Buffer, IoError> {
        let serving = self.members.serving();
        let reads = serving
            .iter()
            .map(async |member| (*member, self.read_member(*member, at, self.buffer(at), how).await));
        let (mut good, mut bad) = (Vec::new(), BTreeSet::new());
        for (member, read) in join_all(reads).await {
            match read {
                Ok(read) => good.push((member, read)),
                Err(error) => {
                    // A member that is busy, or gone, has nothing to repair.
                    if error.is_medium_error() {
                        bad.insert(member);
                    }
                }
            }
        }
        let content = if let Some(content) = most_common(&good) {
            content
        } else {
            edge("no member can verify a page: one is read without");
            self.read_first(at, &Hints { verify: false, ..how.clone() }).await?
        };
        if !self.timing_only {
            let bytes = content.to_vec();
            for (member, _) in good.iter().filter(|(_, other)| other.to_vec() != bytes) {
                edge("members have different data");
                self.mismatches.set(self.mismatches.get() + 1);
                bad.insert(*member);
            }
        }
        self.repair(at, &content, &bad).await;
        Ok(content)
    }

    /// Writes sectors durably to members that do not have them. They were read, whether that succeeds or not.
    async fn repair(&self, at: Extent, content: &Buffer, members: &BTreeSet<usize>) {
        let how = Hints { fua: !mutant::is("mirror: a repair without FUA"), ..Hints::default() };
        for member in members.iter().filter(|member| !self.members.is_out(**member)) {
            edge("a page is repaired");
            self.repaired.set(self.repaired.get() + 1);
            if let Err(error) = self.write_member(*member, at, content.clone(), &how).await {
                edge("a repair fails: its member is out of service");
                self.members.fail(*member, &error);
            }
        }
        // If it cannot be recorded, writes will say so.
        let _ = self.members.confirm().await;
    }

    /// Compares all members, on the medium, and repairs those that cannot be read or have something else. What cannot
    /// be repaired fails when it is read.
    pub(super) async fn verify(&self, at: Extent, how: &Hints) {
        let reads = self.members.serving().into_iter();
        let reads = reads.map(|member| self.read_member(member, at, self.buffer(at), how));
        let read = join_all(reads).await;
        let mut whole = read.iter().map(|read| read.as_ref().ok());
        let first = whole.next().flatten();
        let same = |other: Option<&Buffer>| {
            first
                .zip(other)
                .is_some_and(|(first, other)| self.timing_only || first.to_vec() == other.to_vec())
        };
        if first.is_some() && whole.all(same) {
            return;
        }
        edge("a verifying read finds a difference or a page that cannot be read");
        // It fails where an ordinary read does, too.
        let _ = self.mend(at, self.buffer(at), how).await;
    }
}

/// What most members have, of those that as many have what the first one has.
fn most_common(read: &[(usize, Buffer)]) -> Option<Buffer> {
    let bytes: Vec<Vec<u8>> = read.iter().map(|(_, content)| content.to_vec()).collect();
    let votes = |content: &Vec<u8>| bytes.iter().filter(|other| *other == content).count();
    // Of several, `max_by_key` returns the last one.
    let chosen = (0..bytes.len()).rev().max_by_key(|number| votes(&bytes[*number]))?;
    Some(read[chosen].1.clone())
}
