//! A guard around the Parquet library, which panics on some kinds of damage (a missing dictionary, invalid bit widths):
//! here that is an error, without output on standard error.
//!
//! Invariant: panics elsewhere, and on other threads, are reported as before. A reader is not used again after it
//! panicked: the caller gives up the file.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use ::parquet::errors::{ParquetError, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a closure that may panic on damage.
pub fn guarded<T>(does: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let around = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(does));
    GUARDED.set(around);
    done.unwrap_or_else(|_| Err(ParquetError::General("damage that the Parquet library gave up on".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let error = guarded::<()>(|| panic!("quietly")).unwrap_err();
        assert!(error.to_string().contains("gave up") && !GUARDED.get());
        assert!(guarded(|| Ok(1)).is_ok());
    }
}
