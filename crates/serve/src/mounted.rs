//! A server whose volume the same machine mounts: memory that the server needs to write a page out must not wait for
//! pages to be written out.
//!
//! Fault model: each measure needs a privilege; without it the server runs as before, and says what is missing.

use std::io;

/// `prctl`: allocations of this thread and those it starts do not wait for I/O, and its writes are throttled against
/// itself alone (Linux 5.6).
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// `mlockall`: pages are locked when they are first used (Linux 4.4).
const MCL_ONFAULT: libc::c_int = 4;

/// Has this process be an I/O flusher, lock its memory, and be spared by the OOM killer; what it could not do, a line
/// each. To be called before it starts threads.
pub fn protect() -> Vec<String> {
    let oom = || std::fs::write("/proc/self/oom_score_adj", "-1000");
    let measures: [(&str, &dyn Fn() -> io::Result<()>); 3] = [
        ("an I/O flusher (it needs CAP_SYS_RESOURCE)", &be_io_flusher),
        ("locked in memory (it needs CAP_IPC_LOCK, or ulimit -l unlimited)", &lock_memory),
        ("spared by the OOM killer (it needs CAP_SYS_RESOURCE)", &oom),
    ];
    let missing = measures.iter().filter_map(|(what, take)| {
        let error = take().err()?;
        Some(format!("mounted: the server is not {what}: {error}"))
    });
    missing.collect()
}

#[allow(unsafe_code)]
fn be_io_flusher() -> io::Result<()> {
    // SAFETY: this call takes no pointers.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code)]
fn lock_memory() -> io::Result<()> {
    // SAFETY: this call takes no pointers; it changes no memory.
    match unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | MCL_ONFAULT) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
