//! When layers are reconfigured: periodically, or after equal numbers of requests.

use std::rc::Rc;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, IoError, Layer, Nanos, Reconfigured};

/// When layers are reconfigured during a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// This number of times, after equal numbers of requests.
    Times(u32),
    /// With the first request after this interval, from the start of the last reconfiguration.
    Every(Nanos),
}

impl Schedule {
    /// Whether the next reconfiguration is due before request `index` of `requests`, counted from 0, if `started` were
    /// started before, the last one (or the workload) at `last_start`.
    pub fn is_due(self, index: u64, requests: u64, started: u64, last_start: Nanos) -> bool {
        match self {
            Schedule::Times(times) => {
                let times = u64::from(times);
                started < times && index >= requests * (started + 1) / (times + 1)
            }
            Schedule::Every(interval) => runtime::now().since(last_start) >= interval,
        }
    }
}

/// Reconfigures `layer` each time `interval` has passed since the last reconfiguration ended, for as long as the task
/// is kept or detached. `report` gets every result, errors too.
pub fn reconfigure_every(
    layer: Rc<dyn Layer>,
    interval: Nanos,
    report: impl Fn(Result<Option<Reconfigured>, IoError>) + 'static,
) -> Task<()> {
    runtime::spawn(async move {
        loop {
            runtime::sleep(interval).await;
            report(layer.reconfigure(Account::default()).await);
        }
    })
}
