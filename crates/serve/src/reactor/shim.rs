//! A reactor without a kernel, for tests: something else answers its system calls on files, in virtual time.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use seekless_core::Nanos;

use super::{Backend, Job, Reactor};

pub use super::call::Call;

/// What stands in for the kernel.
pub trait Kernel {
    /// A system call begins. What is read is there at once, in this memory; it is answered later.
    fn start(&mut self, key: usize, call: Call, memory: &mut [u8]);

    /// Time goes on until a call is answered, or to this time: the time then, and the answers.
    fn turn(&mut self, until: Option<Nanos>) -> (Nanos, Vec<(usize, io::Result<usize>)>);
}

impl Reactor {
    /// One of which this answers all system calls.
    pub fn over(kernel: Rc<RefCell<dyn Kernel>>) -> Rc<Reactor> {
        Rc::new(Reactor::of(Backend::Shim(kernel)))
    }
}

/// A job of a file begins; it is answered in a later turn.
///
/// # Panics
/// When it is of a socket: tests of files have none.
pub fn start(kernel: &RefCell<dyn Kernel>, key: usize, job: &mut Job) -> Option<io::Result<usize>> {
    let call = Call::of(job.op).expect("only files are here");
    kernel.borrow_mut().start(key, call, job.memory.part_mut());
    None
}
