//! The answer to a queued request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use seekless_core::{Buffer, Extent, Hints, IoError, Op, Zeroes};

use super::Queue;
use super::wait_queue::State;
use crate::scheduler::Slot;

/// The future of a request's answer.
pub struct Answer<'a> {
    pub(super) queue: &'a Queue,
    pub(super) state: AnswerState,
}

/// State of an answer.
pub(super) enum AnswerState {
    Unsent(Op, Extent, Buffer, Hints, Zeroes),
    InLine(Slot),
    Taken,
}

impl Future for Answer<'_> {
    type Output = Result<Buffer, IoError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        let slot = match self.state {
            AnswerState::InLine(slot) => slot,
            AnswerState::Taken => return Poll::Pending,
            AnswerState::Unsent(..) => {
                let unsent = std::mem::replace(&mut self.state, AnswerState::Taken);
                if let AnswerState::Unsent(op, at, buffer, how, zeroes) = unsent {
                    let slot = queue.enter((op, at), buffer, how, zeroes, context.waker().clone());
                    self.state = AnswerState::InLine(slot);
                }
                return Poll::Pending;
            }
        };
        let mut waiting = queue.waiting.borrow_mut();
        let entry = &mut waiting.entries[slot];
        if let State::Done(result) = &mut entry.state {
            let result = std::mem::replace(result, Ok(Buffer::default()));
            waiting.entries.remove(slot);
            self.state = AnswerState::Taken;
            return Poll::Ready(result);
        }
        match &mut entry.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker @ None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let AnswerState::InLine(slot) = self.state else { return };
        let Ok(mut waiting) = self.queue.waiting.try_borrow_mut() else { return };
        if matches!(waiting.entries[slot].state, State::Done(_)) {
            waiting.entries.remove(slot);
        } else {
            waiting.entries[slot].abandoned = true;
        }
    }
}
