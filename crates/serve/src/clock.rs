//! The machine's clock, kept in step with the runtime's.
//!
//! The runtime's clock stands still while code computes and jumps when all tasks wait. Around a request to a real
//! device the clock that is behind catches up with the other. So a request begins and ends at its real time, a sleep
//! before it really takes place, and the disk goes on turning while code computes.

use std::time::{Duration, Instant};

use seekless_core::Nanos;
use seekless_core::runtime::{now, sleep_until};

/// Sleeping is not exact: the remainder is spent spinning.
const AWAKE: Duration = Duration::from_micros(200);

/// The machine's time since the runtime started.
pub struct Clock {
    /// When the runtime's clock was zero.
    zero: Instant,
}

impl Clock {
    /// A clock that agrees with the runtime's now.
    #[allow(clippy::disallowed_methods)] // the one place that reads the machine's clock
    pub fn start() -> Clock {
        let passed = Duration::from_nanos(now().0);
        let real = Instant::now();
        Clock { zero: real.checked_sub(passed).unwrap_or(real) }
    }

    /// The machine's time on the runtime's scale.
    #[allow(clippy::disallowed_methods)]
    pub fn real(&self) -> Nanos {
        Nanos(Instant::now().saturating_duration_since(self.zero).as_nanos() as u64)
    }

    /// Waits in real time until the runtime's time; if that has passed already, the runtime catches up.
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
