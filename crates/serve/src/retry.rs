//! A server that was killed holds its locks and sockets until the kernel has ended what `io_uring` did for it: whoever
//! comes after it waits that long, and no longer.

use std::time::Duration;

/// How often it is tried again, and how long after each other.
const TRIES: u32 = 75;
const PAUSE: Duration = Duration::from_millis(20);

/// Does `attempt` until it succeeds, fails for another reason than that something is `is_busy`, or was tried often enough.
pub fn retry_while<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_busy: impl Fn(&E) -> bool,
) -> Result<T, E> {
    for _ in 0..TRIES {
        match attempt() {
            Err(error) if is_busy(&error) => {}
            done => return done,
        }
        #[allow(clippy::disallowed_methods)] // nothing is served yet
        std::thread::sleep(PAUSE);
    }
    attempt()
}
