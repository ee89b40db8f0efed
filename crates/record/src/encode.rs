//! Encodes blktrace records of version 7, as `blktrace` would.
//!
//! Invariant: a record is a header of 48 bytes and at most 65,535 bytes of payload, in this machine's byte order, which
//! readers detect by the magic number.

/// Bytes of a header of version 7.
pub const HEADER_BYTES: usize = 48;
/// Bytes of a process name in the kernel, the closing zero included.
pub const NAME_BYTES: usize = 16;
/// Offset of the sequence number in a record of version 7 or 8.
const SEQUENCE_AT: usize = 4;
/// The magic number and the version.
const MAGIC: u32 = 0x6561_7407;

/// Actions: the low bits.
pub mod what {
    /// A request was queued.
    pub const QUEUED: u32 = 1;
    /// It was appended to a waiting request.
    pub const BACK_MERGED: u32 = 2;
    /// It was prepended to a waiting request.
    pub const FRONT_MERGED: u32 = 3;
    /// A request structure was allocated for it.
    pub const GOT_REQUEST: u32 = 4;
    /// The device refused it; it waits again.
    pub const REQUEUED: u32 = 6;
    /// It was issued to the device.
    pub const ISSUED: u32 = 7;
    /// The device completed it.
    pub const COMPLETED: u32 = 8;
    /// It was inserted into the scheduler.
    pub const INSERTED: u32 = 12;
    /// It was too large and was split.
    pub const SPLIT: u32 = 13;
    /// It was remapped down a stack of devices.
    pub const REMAPPED: u32 = 15;
    /// Note: the name of a process.
    pub const PROCESS: u32 = 0;
    /// Note: the wall clock when recording began.
    pub const TIMESTAMP: u32 = 1;
}

/// Categories: the high bits of an action.
pub mod category {
    /// A read.
    pub const READ: u32 = 1 << 16;
    /// A write.
    pub const WRITE: u32 = 1 << 17;
    /// A flush, or a write that flushes before it.
    pub const FLUSH: u32 = 1 << 18;
    /// Synchronous.
    pub const SYNC: u32 = 1 << 19;
    /// Queueing and merging.
    pub const QUEUE: u32 = 1 << 20;
    /// Requeueing.
    pub const REQUEUE: u32 = 1 << 21;
    /// Issuing.
    pub const ISSUE: u32 = 1 << 22;
    /// Completing.
    pub const COMPLETE: u32 = 1 << 23;
    /// From a file system, as opposed to a command passed through.
    pub const FS: u32 = 1 << 24;
    /// A command passed through to the device.
    pub const PASSTHROUGH: u32 = 1 << 25;
    /// A note, not about a request.
    pub const NOTE: u32 = 1 << 26;
    /// Read-ahead.
    pub const AHEAD: u32 = 1 << 27;
    /// File-system metadata.
    pub const META: u32 = 1 << 28;
    /// A discard.
    pub const DISCARD: u32 = 1 << 29;
    /// Durable before it completes.
    pub const FUA: u32 = 1 << 31;
}

/// The header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Time, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// First sector.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Action and category.
    pub action: u32,
    /// The current thread.
    pub pid: u32,
    /// `major << 20 | minor`.
    pub device: u32,
    /// The current CPU.
    pub cpu: u32,
    /// The request's error, at its completion.
    pub error: u16,
}

/// Encodes a record. A payload that is too long is truncated, which does not happen here.
pub fn record(header: &Header, payload: &[u8]) -> Box<[u8]> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(HEADER_BYTES + usize::from(length));
    out.extend(MAGIC.to_ne_bytes());
    out.extend(0_u32.to_ne_bytes());
    out.extend(header.time_ns.to_ne_bytes());
    out.extend(header.sector.to_ne_bytes());
    for number in [header.bytes, header.action, header.pid, header.device, header.cpu] {
        out.extend(number.to_ne_bytes());
    }
    out.extend(header.error.to_ne_bytes());
    out.extend(length.to_ne_bytes());
    out.extend(&payload[..usize::from(length)]);
    out.into()
}

/// A note that thread `pid` is called `name` from `time_ns` on.
pub fn process_note(device: u32, time_ns: u64, cpu: u32, pid: u32, name: [u8; NAME_BYTES]) -> Box<[u8]> {
    let action = what::PROCESS | category::NOTE;
    record(&Header { time_ns, action, pid, device, cpu, ..Header::default() }, &name)
}

/// A note of the wall clock at `time_ns`.
pub fn timestamp_note(device: u32, time_ns: u64, seconds: u32, nanoseconds: u32) -> Box<[u8]> {
    let action = what::TIMESTAMP | category::NOTE;
    let payload = [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()].concat();
    record(&Header { time_ns, action, device, ..Header::default() }, &payload)
}

/// Sets an encoded record's sequence number on its CPU; the kernel's tracer leaves it at zero.
pub fn set_sequence(record: &mut [u8], sequence: u32) {
    if let Some(field) = record.get_mut(SEQUENCE_AT..SEQUENCE_AT + 4) {
        field.copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// A name as in the kernel: at most 15 bytes and a zero.
pub fn name(text: &[u8]) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len()).min(NAME_BYTES - 1);
    name[..end].copy_from_slice(&text[..end]);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_laid_out_as_the_kernel_does() {
        // The first record of a raw stream of Linux 6.18: dd's direct write to sector 800 of loop0.
        let captured: [u64; 6] =
            [0x6561_7407, 0x055c_ff34_cd22, 800, 0x001a_0001_0000_1000, 0x0070_0000_0000_2a32, 1];
        let header = Header {
            time_ns: 0x055c_ff34_cd22,
            sector: 800,
            bytes: 4096,
            action: what::QUEUED | category::QUEUE | category::SYNC | category::WRITE,
            pid: 10_802,
            device: 7 << 20,
            cpu: 1,
            error: 0,
        };
        let written = record(&header, b"");
        if cfg!(target_endian = "little") {
            assert_eq!(*written, captured.map(u64::to_le_bytes).concat());
        }
    }

    #[test]
    fn names_are_cut_and_end_with_a_zero() {
        assert_eq!(&name(b"dd\0junk"), b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&name(b"a name that is too long"), b"a name that is \0");
    }
}
