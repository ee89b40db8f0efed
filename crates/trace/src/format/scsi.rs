//! SCSI operation codes, as traces below a hypervisor record them.

use seekless_core::Op;

/// What a command asks of the medium; `None` if nothing that a trace of requests holds.
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

/// The warning that `count` commands were passed over.
pub(super) fn others(count: u64) -> Vec<String> {
    let told = format!("{count} commands are neither reads nor writes nor flushes; they were left out");
    if count > 0 { vec![told] } else { Vec::new() }
}
