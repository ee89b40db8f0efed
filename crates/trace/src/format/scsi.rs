//! SCSI operation codes, as recorded by traces below a hypervisor.

use seekless_core::Op;

/// The operation of a command; `None` for one that traces of requests do not hold.
pub(super) fn operation(code: u16) -> Option<Op> {
    match code {
        // READ and WRITE of 6, 10, 12 and 16 bytes.
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        // SYNCHRONIZE CACHE.
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

/// The warning that `count` commands were left out.
pub(super) fn others(count: u64) -> Vec<String> {
    let warning = format!("{count} commands are neither reads nor writes nor flushes; they were left out");
    if count > 0 { vec![warning] } else { Vec::new() }
}
