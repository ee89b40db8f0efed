//! The Parquet schema of a trace: columns, metadata, and the words for operations and flags, for both the writer and
//! the reader.
//!
//! Whole numbers are signed where differences are usual (times, sectors), so that those can be negative in every
//! reader. A set of flags is a column of booleans for each.

use seekless_core::Op;
use seekless_core::record::Flags;

use crate::volumes::Naming;

/// All columns, in their order, in Parquet's own language.
pub const MESSAGE: &str = "message trace {
    required int64 time_ns;
    required binary volume (STRING);
    required int32 device (INTEGER(32,false));
    required binary op (STRING);
    required int64 sector;
    required int64 sectors;
    required boolean sync;
    required boolean meta;
    required boolean ahead;
    required boolean fua;
    required boolean preflush;
    required int32 pid (INTEGER(32,false));
    required binary process (STRING);
    required int32 stream (INTEGER(32,false));
    optional int64 latency_ns;
}";

/// The columns of flags.
pub const FLAGS: [(&str, Flags); 5] = [
    ("sync", Flags::SYNC),
    ("meta", Flags::META),
    ("ahead", Flags::AHEAD),
    ("fua", Flags::FUA),
    ("preflush", Flags::PREFLUSH),
];

/// Units of the columns, for a file's metadata.
pub const UNITS: &str = "time_ns: nanoseconds from the trace's first request; volume: its name; device: its \
    number (Linux: major << 20 | minor); op: read, write, flush, discard or write_zeroes; sector: the first one, \
    of 512 bytes, 0 for a flush; sectors: how many; sync, meta, ahead, fua, preflush: flags of the request; pid: \
    the number of the process, 0 where the trace does not tell; process: its name at that time, ? where the \
    trace does not tell; stream: which client of a workload asked; latency_ns: from arrival to answer, null \
    where the trace does not tell";

/// Metadata key of the volumes' naming.
pub const VOLUMES: &str = "seekless.volumes";

/// The words of operations.
pub const OPS: [(&str, Op); 5] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("flush", Op::Flush),
    ("discard", Op::Discard),
    ("write_zeroes", Op::WriteZeroes),
];

/// The words of [`VOLUMES`].
pub const NAMINGS: [(&str, Naming); 3] =
    [("linux", Naming::Linux), ("numbered", Naming::Numbered), ("named", Naming::Named)];
