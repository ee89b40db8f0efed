//! Names of threads, and which of them the file does not have yet.
//!
//! A name is written only when there is an event of its thread: a machine starts many programs that never use the
//! recorded device. Memory is bounded by the number of threads of a machine, since their numbers are reused.

use rustc_hash::FxHashMap;

use crate::encode::{NAME_BYTES, name};

/// Prefix of the names of kernel workers.
const WORKER: &[u8] = b"kworker/";

/// The names of threads at one instant, updated in order of time.
#[derive(Debug, Default)]
pub struct Names {
    /// The name, and whether the file has it.
    called: FxHashMap<u32, ([u8; NAME_BYTES], bool)>,
}

impl Names {
    /// Sets the name of thread `pid`.
    pub fn rename(&mut self, pid: u32, name: [u8; NAME_BYTES]) {
        match self.called.get(&pid) {
            Some((known, _)) if *known == name => {}
            _ => {
                self.called.insert(pid, (name, false));
            }
        }
    }

    /// The name of thread `pid`, if it has one that the file does not have yet.
    pub fn to_note(&mut self, pid: u32) -> Option<[u8; NAME_BYTES]> {
        let (name, noted) = self.called.get_mut(&pid)?;
        if std::mem::replace(noted, true) { None } else { Some(*name) }
    }
}

/// The kernel's own name from `/proc/PID/comm`, which also shows the work of a kernel worker: `kworker/0:1-events` is
/// called `kworker/0:1`.
pub fn from_proc(comm: &[u8]) -> [u8; NAME_BYTES] {
    let comm = comm.strip_suffix(b"\n").unwrap_or(comm);
    let end = match comm.strip_prefix(WORKER) {
        Some(rest) => WORKER.len() + rest.iter().position(|each| b"-+".contains(each)).unwrap_or(rest.len()),
        None => comm.len(),
    };
    name(&comm[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_noted_once_and_again_after_a_change() {
        let mut names = Names::default();
        assert_eq!(names.to_note(7), None);
        names.rename(7, name(b"bash"));
        assert_eq!(names.to_note(7), Some(name(b"bash")));
        names.rename(7, name(b"bash"));
        assert_eq!(names.to_note(7), None);
        names.rename(7, name(b"dd"));
        assert_eq!((names.to_note(7), names.to_note(7)), (Some(name(b"dd")), None));
    }

    #[test]
    fn kernel_workers_have_their_own_name() {
        assert_eq!(from_proc(b"kworker/u8:3-writeback\n"), name(b"kworker/u8:3"));
        assert_eq!(from_proc(b"kworker/1:0H+kblockd\n"), name(b"kworker/1:0H"));
        assert_eq!(from_proc(b"my-program\n"), name(b"my-program"));
    }
}
