//! Reconfiguration in equal intervals, for any layer.

use std::rc::Rc;

use seekless_core::runtime::{self, Task};
use seekless_core::{Account, IoError, Layer, Nanos, Reconfigured};

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
