//! Records as text as `blkparse` prints it: a line Q for each arrival and a line C for each answer that is
//! known, in the order of their times.
//!
//! Invariant: what is written here is read back by the trace crate as the same requests. A discard of
//! nothing and the like, which block devices refuse, cannot be written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use seekless_core::{Flags, Names, Nanos, Op, Record};

/// Writes all of them.
pub fn write(out: &mut impl Write, records: &[Record], names: &Names) -> io::Result<()> {
    let mut under_way: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    let mut lines = Lines { out, sequence: 0, names };
    for (index, record) in records.iter().enumerate() {
        while let Some(&Reverse((at, done))) = under_way.peek().filter(|next| next.0.0 <= record.time) {
            under_way.pop();
            lines.line(at, 'C', &records[done])?;
        }
        lines.line(record.time, 'Q', record)?;
        if let Some(took) = record.latency.known() {
            under_way.push(Reverse((Nanos(record.time.0.saturating_add(took.0)), index)));
        }
    }
    while let Some(Reverse((at, done))) = under_way.pop() {
        lines.line(at, 'C', &records[done])?;
    }
    Ok(())
}

struct Lines<'a, W> {
    out: &'a mut W,
    sequence: u64,
    names: &'a Names,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, at: Nanos, action: char, record: &Record) -> io::Result<()> {
        self.sequence += 1;
        let (major, minor) = (record.device >> 20, record.device & 0x000f_ffff);
        let (seconds, nanos) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let (sequence, process, rwbs) = (self.sequence, record.origin.process.0, rwbs(record));
        write!(
            self.out,
            "{major:>3},{minor:<2} 0 {sequence:>8} {seconds:>5}.{nanos:09} {process:>5} {action} {rwbs:>3} "
        )?;
        if record.extent.sectors > 0 {
            write!(self.out, "{} + {} ", record.extent.start.0, record.extent.sectors)?;
        }
        if action == 'Q' {
            // A line's end would end the record; brackets within a name are read as they are.
            let name: String =
                self.names.get(record.origin.name).chars().filter(|c| !c.is_control()).collect();
            writeln!(self.out, "[{name}]")
        } else {
            writeln!(self.out, "[0]")
        }
    }
}

/// The letters of a request: what it is, then its flags.
fn rwbs(record: &Record) -> String {
    let mut letters = String::new();
    if record.flags.has(Flags::PREFLUSH) {
        letters.push('F');
    }
    letters.push(match record.op {
        Op::Read => 'R',
        Op::Write | Op::WriteZeroes => 'W',
        Op::Discard => 'D',
        Op::Flush => 'F',
    });
    if record.op == Op::Flush {
        letters.push('N');
    }
    let flags = [(Flags::FUA, 'F'), (Flags::AHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')];
    letters.extend(flags.into_iter().filter(|(flag, _)| record.flags.has(*flag)).map(|(_, letter)| letter));
    letters
}
