//! Work that one task does for several: the others wait for its result.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use seekless_core::IoError;

/// A result to come.
#[derive(Default)]
pub struct Done {
    result: RefCell<Option<Result<(), IoError>>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Done {
    /// Sets the result.
    pub fn set(&self, result: Result<(), IoError>) {
        self.result.replace(Some(result));
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// The result, if it is there.
    pub fn get(&self) -> Option<Result<(), IoError>> {
        self.result.borrow().clone()
    }

    /// Waits for the result.
    pub async fn wait(&self) -> Result<(), IoError> {
        poll_fn(|context| {
            self.get().map_or_else(
                || {
                    self.waiting.borrow_mut().push(context.waker().clone());
                    Poll::Pending
                },
                Poll::Ready,
            )
        })
        .await
    }
}
