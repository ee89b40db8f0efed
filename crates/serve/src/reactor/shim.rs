//! A reactor without a kernel, for tests: a test answers its system calls on files, in virtual time.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use seekless_core::Nanos;

use super::{Backend, Job, Reactor};

pub use super::call::Call;

/// A simulated kernel.
pub trait Kernel {
    /// Starts a system call. Data read is in `memory` immediately; the call completes later.
    fn start(&mut self, key: usize, call: Call, memory: &mut [u8]);

    /// Advances time until a call completes, or to `until`; returns the time then, and the completions.
    fn turn(&mut self, until: Option<Nanos>) -> (Nanos, Vec<(usize, io::Result<usize>)>);
}

impl Reactor {
    /// A reactor whose system calls go to `kernel`.
    pub fn over(kernel: Rc<RefCell<dyn Kernel>>) -> Rc<Reactor> {
        Rc::new(Reactor::of(Backend::Shim(kernel)))
    }
}

/// Starts a job on a file; it completes in a later turn.
///
/// # Panics
/// When it is on a socket: tests of files have none.
pub fn start(kernel: &RefCell<dyn Kernel>, key: usize, job: &mut Job) -> Option<io::Result<usize>> {
    let call = Call::of(job.op).expect("only files are here");
    kernel.borrow_mut().start(key, call, job.memory.part_mut());
    None
}
