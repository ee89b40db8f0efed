//! The answer to a request that was put in line.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use seekless_core::{Buffer, Extent, Hints, IoError, Op};

use super::Queue;
use super::line::State;
use crate::scheduler::Slot;

/// An answer to come.
pub struct Answer<'a> {
    pub(super) queue: &'a Queue,
    pub(super) state: AnswerState,
}

/// How far it has come.
pub(super) enum AnswerState {
    Unsent(Op, Extent, Buffer, Hints),
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
                if let AnswerState::Unsent(op, at, buffer, how) = unsent {
                    let slot = queue.enter(op, at, buffer, how, context.waker().clone());
                    self.state = AnswerState::InLine(slot);
                }
                return Poll::Pending;
            }
        };
        let mut line = queue.line.borrow_mut();
        let entry = &mut line.entries[slot];
        if let State::Done(result) = &mut entry.state {
            let result = std::mem::replace(result, Ok(Buffer::default()));
            line.entries.remove(slot);
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
        let Ok(mut line) = self.queue.line.try_borrow_mut() else { return };
        if matches!(line.entries[slot].state, State::Done(_)) {
            line.entries.remove(slot);
        } else {
            line.entries[slot].abandoned = true;
        }
    }
}
