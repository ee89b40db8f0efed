//! Work beside a volume: a pure function of data of its own, on a thread that gives way to the volume's.
//!
//! Its end is an answer of the reactor like any other: so it is noted, and comes at the same place in a replay, where the
//! work itself is done at once. What it finds outside is noted too, and there it does nothing.

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

/// What the thread asks to be, among all of the system's: the last.
const NICE: i32 = 19;

impl Reactor {
    /// Does `work` beside the volume, and waits for its end.
    ///
    /// # Panics
    /// When the system has no thread or socket left: a volume cannot go on without what it counts on.
    pub fn offload(self: &Rc<Self>, work: Offloaded) -> Pin<Box<dyn Future<Output = ()>>> {
        let ended = if matches!(self.backend, Backend::Replay(_)) {
            work();
            placeholder()
        } else {
            on_worker_thread(work)
        };
        let ended = Arc::new(ended.expect("a thread for what is done beside the volume"));
        self.new_descriptor(ended.as_raw_fd());
        let end = self.submit(Job::new(Op::Receive, &ended, Memory::of(vec![0])));
        Box::pin(async move {
            let _ = end.await;
        })
    }
}

impl Reactor {
    /// What `work` finds in the world outside, beside the volume; `None` in a replay, where it is not done.
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

    /// What `query_extents` finds that a part of a file holds; it is asked beside the volume, and noted.
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

/// Begins `work`; what is returned can be received from when it has ended, however that was.
fn on_worker_thread(work: Offloaded) -> io::Result<OwnedFd> {
    let (ended, end) = UnixStream::pair()?;
    #[allow(clippy::disallowed_methods)] // the thread that this file is about
    std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        // The priority of this thread alone. Where it may not be changed it is as good as the others.
        let _ = setpriority_process(None, NICE);
        work();
        drop(end);
    })?;
    Ok(ended.into())
}
