//! The clock of the machine beside that of the runtime.
//!
//! The runtime's clock stands still while code computes and jumps when all wait. Around a request to a real device the
//! two are brought together: whichever is behind catches up. So a request begins and ends in the runtime at the
//! time at which it does, a sleep before it really passes, and the disk goes on turning while code computes.

use std::time::{Duration, Instant};

use seekless_core::Nanos;
use seekless_core::runtime::{now, sleep_until};

/// Sleeping is not exact: the last stretch is waited for awake.
const AWAKE: Duration = Duration::from_micros(200);

/// The machine's time since the runtime began, as far as this clock saw.
pub struct Clock {
    /// When the runtime's time was zero.
    zero: Instant,
}

impl Clock {
    /// The two clocks agree now.
    #[allow(clippy::disallowed_methods)] // the one place that reads the machine's clock
    pub fn start() -> Clock {
        let passed = Duration::from_nanos(now().0);
        let real = Instant::now();
        Clock { zero: real.checked_sub(passed).unwrap_or(real) }
    }

    /// The machine's time, in the runtime's.
    #[allow(clippy::disallowed_methods)]
    pub fn real(&self) -> Nanos {
        Nanos(Instant::now().saturating_duration_since(self.zero).as_nanos() as u64)
    }

    /// Waits, really, until it is what the runtime says that it is; if it is later already, the runtime catches up.
    pub async fn agree(&self) {
        self.wait_for(now());
        sleep_until(self.real()).await;
    }

    #[allow(clippy::disallowed_methods)]
    fn wait_for(&self, time: Nanos) {
        let ahead = Duration::from_nanos(time.since(self.real()).0);
        std::thread::sleep(ahead.saturating_sub(AWAKE));
        while self.real() < time {
            std::hint::spin_loop();
        }
    }
}
