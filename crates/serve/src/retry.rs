//! A server that was killed holds its locks and sockets until the kernel has ended its `io_uring`: its successor waits
//! for that, for a limited time.

use std::time::Duration;

/// Number of attempts, and the pause between them: 1.5 s in all.
const TRIES: u32 = 75;
const PAUSE: Duration = Duration::from_millis(20);

/// Repeats `attempt` while it fails with an error that `is_busy`, up to a limit.
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
