//! Worker threads: pure functions of their own data, on a thread of lower priority than the volume's.
//!
//! Their end is a completion of the reactor like any other: recorded, and delivered at the same place in a replay,
//! where the work itself is done inline. What it observes of the system is recorded too; in a replay it observes
//! nothing.

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use rustix::process::setpriority_process;
use seekless_core::device::ExtentState;
use seekless_core::runtime::{Offloaded, offload};
use seekless_core::{Extent, Nanos};

use super::inputs::placeholder;
use super::{Backend, Job, Memory, Op, Reactor};

/// Niceness of the thread: the lowest priority.
const NICE: i32 = 19;

impl Reactor {
    /// Runs `work` on a worker thread, and waits for its end.
    ///
    /// # Panics
    /// When the system has no thread or socket left: a volume depends on its workers.
    pub fn offload(self: &Rc<Self>, work: Offloaded) -> Pin<Box<dyn Future<Output = ()>>> {
        let ended = if matches!(self.backend, Backend::Replay(_)) {
            work();
            placeholder()
        } else {
            on_worker_thread(work)
        };
        let ended = Arc::new(ended.expect("a worker thread"));
        self.new_descriptor(ended.as_raw_fd());
        let end = self.submit(Job::new(Op::Receive, &ended, Memory::of(vec![0])));
        Box::pin(async move {
            let _ = end.await;
        })
    }
}

impl Reactor {
    /// Runs `work`, which observes the system, on a worker thread; `None` in a replay, where it is not run.
    pub async fn offload_external<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if matches!(self.backend, Backend::Replay(_)) {
            offload(|| (), |()| Nanos::ZERO).await;
            return None;
        }
        Some(offload(work, |_| Nanos::ZERO).await)
    }

    /// Runs `query_extents`, which finds the extents of a part of a file, on a worker thread, and records the result.
    pub async fn query_extents(
        &self,
        at: Extent,
        query_extents: impl FnOnce() -> Vec<ExtentState> + Send + 'static,
    ) -> Vec<ExtentState> {
        let states = self.offload_external(query_extents).await;
        if let (Some(recorder), Some(states)) = (&self.recorder, &states) {
            recorder.borrow_mut().extents(at, states);
        }
        match &self.backend {
            Backend::Replay(replayer) => replayer.borrow_mut().extents(at),
            _ => states.unwrap_or_default(),
        }
    }
}

/// Starts `work`; the returned socket becomes readable when it ends, in whatever way.
fn on_worker_thread(work: Offloaded) -> io::Result<OwnedFd> {
    let (ended, end) = UnixStream::pair()?;
    #[allow(clippy::disallowed_methods)] // the thread that this file is about
    std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        // The priority of this thread alone. Where it may not be changed, the thread is like any other.
        let _ = setpriority_process(None, NICE);
        work();
        drop(end);
    })?;
    Ok(ended.into())
}
