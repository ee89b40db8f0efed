//! A simulated kernel and disk for a file: each system call on the file is logged, as an exploration logs a component's
//! requests, so that power can be cut.
//!
//! Fault model: calls complete in any order. Reads and writes are short. Reads, writes and flushes fail; a failed write
//! was carried out in part, in full or not at all, and data pending at a failed flush is dropped: of the callers that
//! then sync the page cache one gets the error, perhaps after others got a success. A file system may not
//! support zeroing or holes.

use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use seekless_core::runtime::Rng;
use seekless_core::{Buffer, Extent, Nanos, SECTOR_BYTES};
use seekless_lab::explore::conditions::Conditions;
use seekless_lab::explore::image::{Content, Image};
use seekless_lab::explore::log::{Event, Shared, Write};

use crate::reactor::shim::{Call, Kernel};

/// Delay, in nanoseconds at most, until a failure is reported.
const LATE: u64 = 1_000_000;
/// Bytes that a short call moves at least; longer ones move a multiple.
const PIECE: usize = 64;

/// A system call in flight.
struct PendingCall {
    key: usize,
    ends: Nanos,
    result: io::Result<usize>,
    op: Effect,
}

enum Effect {
    /// Only its completion is left.
    Completing,
    /// Write `number` of the log is carried out; or it failed, and the page cache drops all before `drops`.
    Writing { number: usize, drops: Option<usize> },
    /// A flush that began after `began` events.
    Syncing { began: usize, fails: bool },
}

/// See the file's header.
pub struct Disk {
    pub log: Shared,
    /// Rate of failures, and latency of calls.
    pub conditions: Conditions,
    /// One call in this many is short.
    pub short: u64,
    /// Whether the file goes through the page cache.
    pub cached: bool,
    /// Bytes of a block, of which a call without the page cache moves whole ones.
    pub block: u64,
    /// What the file system's `fallocate` supports.
    pub allocates: FallocateFlags,
    image: Image,
    now: Nanos,
    in_flight: Vec<PendingCall>,
    rng: Rng,
    /// Counts of faults that occurred.
    pub faults: FaultCounts,
}

/// See [`Disk::faults`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultCounts {
    pub shorter: u64,
    pub failed: u64,
    pub flushes_failed: u64,
    pub write_through: u64,
    pub refused: u64,
}

fn failed() -> io::Result<usize> {
    Err(Errno::IO.into())
}

impl Disk {
    /// A file of `sectors` sectors, all zeroes.
    pub fn new(sectors: u64, conditions: Conditions, log: Shared) -> Disk {
        Disk {
            log,
            conditions,
            short: 0,
            cached: false,
            block: SECTOR_BYTES,
            allocates: FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE,
            image: Image::new(sectors),
            now: Nanos::ZERO,
            in_flight: Vec::new(),
            rng: Rng::seeded(conditions.seed),
            faults: FaultCounts::default(),
        }
    }

    fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.rng.chance(1, many)
    }

    /// Bytes that a call for `len` moves: at least one piece.
    fn moved(&mut self, len: usize) -> usize {
        let piece = if self.cached { PIECE } else { self.block as usize };
        if len <= piece || !self.one_in(self.short) {
            return len;
        }
        self.faults.shorter += 1;
        ((1 + self.rng.below((len / piece) as u64) as usize) * piece).min(len)
    }

    fn schedule(&mut self, key: usize, result: io::Result<usize>, op: Effect) {
        let time = self.conditions.pace.time(0, &mut self.rng);
        let ends = self.now + time;
        self.in_flight.push(PendingCall { key, ends, result, op });
    }

    /// Begins a write; its number in the log. Of the last sector the remainder stays as it is.
    fn began(&mut self, at: u64, bytes: &[u8], fua: bool) -> usize {
        let sectors = (bytes.len() as u64).div_ceil(SECTOR_BYTES);
        let at = Extent::new(at / SECTOR_BYTES, sectors);
        let buffer = Buffer::zeroed(at.bytes());
        self.image.read(at, &buffer);
        buffer.put(0, bytes);
        let mut log = self.log.borrow_mut();
        let number = log.writes.len();
        log.writes.push(Write {
            component: 0,
            at,
            contents: Content::of_buffer(&buffer),
            fua,
            late: false,
            repairs: Vec::new(),
        });
        log.events.push(Event::WriteBegan(number));
        number
    }

    fn read(&mut self, key: usize, at: u64, memory: &mut [u8]) {
        let whole = Extent::new(at / SECTOR_BYTES, memory.len() as u64 / SECTOR_BYTES);
        let buffer = Buffer::zeroed(whole.bytes());
        self.image.read(whole, &buffer);
        memory.copy_from_slice(&buffer.to_vec());
        if self.one_in(self.conditions.faults.reads) {
            self.faults.failed += 1;
            return self.schedule(key, failed(), Effect::Completing);
        }
        let moved = self.moved(memory.len());
        memory[moved..].fill(0xee);
        self.schedule(key, Ok(moved), Effect::Completing);
    }

    fn write(&mut self, key: usize, at: u64, bytes: &[u8], write_through: bool) {
        self.faults.write_through += u64::from(write_through);
        let before = self.log.borrow().events.len();
        if !self.one_in(self.conditions.faults.writes) {
            let moved = self.moved(bytes.len());
            let number = self.began(at, &bytes[..moved], write_through);
            return self.schedule(key, Ok(moved), Effect::Writing { number, drops: None });
        }
        self.faults.failed += 1;
        let carried = match self.rng.below(3) {
            0 => return self.schedule(key, failed(), Effect::Completing),
            1 => bytes.len(),
            _ => (1 + self.rng.below(bytes.len() as u64 / SECTOR_BYTES) as usize) * SECTOR_BYTES as usize,
        };
        let number = self.began(at, &bytes[..carried], false);
        let drops = (write_through && self.cached).then_some(before);
        self.schedule(key, failed(), Effect::Writing { number, drops });
    }

    /// Carries out what is due; returns the call's result if that is due too.
    fn carry_out(&mut self, call: PendingCall) -> Option<(usize, io::Result<usize>)> {
        let PendingCall { key, result, op, .. } = call;
        let happened = |event| self.log.borrow_mut().events.push(event);
        let dropped = match op {
            Effect::Completing => None,
            Effect::Writing { number, drops } => {
                let write = self.log.borrow().writes[number].clone();
                self.image.put(write.at.start.0, &write.contents, |_| true);
                happened(Event::WriteEnded(number));
                drops
            }
            Effect::Syncing { began, fails: false } => {
                happened(Event::FlushEnded(0, began));
                None
            }
            Effect::Syncing { began, fails: true } => Some(began),
        };
        let Some(began) = dropped else { return Some((key, result)) };
        happened(Event::FlushFailed(0, began));
        self.faults.flushes_failed += 1;
        let ends = self.now + Nanos(self.rng.below(LATE));
        self.in_flight.push(PendingCall { key, ends, result, op: Effect::Completing });
        None
    }
}

impl Kernel for Disk {
    fn start(&mut self, key: usize, call: Call, memory: &mut [u8]) {
        match call {
            Call::Read(at) => self.read(key, at, memory),
            Call::Write(at, how) => self.write(key, at, memory, how.contains(ReadWriteFlags::DSYNC)),
            Call::DataSync => {
                let began = self.log.borrow().events.len();
                self.log.borrow_mut().events.push(Event::FlushBegan(0));
                let fails = self.one_in(self.conditions.faults.flushes);
                let result = if fails { failed() } else { Ok(0) };
                self.schedule(key, result, Effect::Syncing { began, fails });
            }
            Call::Allocate(how, at, len) => {
                assert!(how.contains(FallocateFlags::KEEP_SIZE), "the file keeps its size");
                if !self.allocates.contains(how.difference(FallocateFlags::KEEP_SIZE)) {
                    self.faults.refused += 1;
                    return self.schedule(key, Err(Errno::OPNOTSUPP.into()), Effect::Completing);
                }
                let number = self.began(at, &vec![0; len as usize], false);
                self.schedule(key, Ok(0), Effect::Writing { number, drops: None });
            }
        }
    }

    fn turn(&mut self, until: Option<Nanos>) -> (Nanos, Vec<(usize, io::Result<usize>)>) {
        let next = (0..self.in_flight.len())
            .min_by_key(|index| (self.in_flight[*index].ends, self.in_flight[*index].key));
        let next = next.filter(|index| until.is_none_or(|until| self.in_flight[*index].ends <= until));
        let Some(next) = next else {
            self.now = self.now.max(until.expect("a task waits for a completion that never comes"));
            return (self.now, Vec::new());
        };
        let call = self.in_flight.swap_remove(next);
        self.now = self.now.max(call.ends);
        let answer = self.carry_out(call);
        (self.now, answer.into_iter().collect())
    }
}
