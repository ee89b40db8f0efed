//! The control socket: a line of JSON as a request, a line of JSON as its reply, or a stream of them. Only the server's
//! owner may connect.
//!
//! Fault model: a peer may send anything, or nothing; a line is at most [`LONGEST`] bytes, and a longer one is refused
//! and ends the connection. A peer with a stream that sends anything more, or disconnects, ends the stream.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::Listener;
use crate::reactor::{Job, Memory, Op, Reactor};
use crate::wire::Input;

/// Bytes of a line.
const LONGEST: usize = 64 << 10;

/// The reply to a request.
pub enum ControlReply {
    /// One line.
    Once(Reply<String>),
    /// The next line of a stream each time it is called, and `None` at its end.
    Each(Box<dyn FnMut() -> Reply<Option<String>>>),
}

/// The future of a reply.
pub type Reply<T> = Pin<Box<dyn Future<Output = T>>>;

/// Replies to each line from clients of `listener` with `answer`, from now on. Replies come without a line end.
pub fn control(reactor: &Rc<Reactor>, listener: Listener, answer: impl Fn(String) -> ControlReply + 'static) {
    let (reactor, answer) = (reactor.clone(), Rc::new(answer));
    spawn(async move {
        loop {
            match reactor.submit(Job::without(Op::Accept, &listener.socket)).await.socket {
                Some(socket) => {
                    let socket = Arc::new(listener.accepted(socket));
                    spawn(lines(reactor.clone(), socket, answer.clone())).detach();
                }
                None => sleep(Nanos::from_millis(10)).await,
            }
        }
    })
    .detach();
}

async fn lines(reactor: Rc<Reactor>, socket: Arc<OwnedFd>, answer: Rc<impl Fn(String) -> ControlReply>) {
    let mut input = Input::new(&reactor, &socket);
    loop {
        let Some(end) = input.rest().iter().position(|byte| *byte == b'\n') else {
            let before = input.rest().len();
            if before >= LONGEST {
                let refusal =
                    format!("found a line of {LONGEST} bytes without an end, expected a shorter one");
                send(&reactor, &socket, format!("{{\"error\":\"{refusal}\"}}")).await;
                return input.disconnect();
            }
            let more = input.more().await.unwrap_or(false);
            if !more || input.rest().len() == before {
                return;
            }
            continue;
        };
        let line = String::from_utf8_lossy(&input.rest()[..end]).into_owned();
        input.take(end + 1);
        match answer(line) {
            ControlReply::Once(reply) => {
                if !send(&reactor, &socket, reply.await).await {
                    return;
                }
            }
            ControlReply::Each(mut next) => {
                let mut more = std::pin::pin!(input.more());
                while let Either::Left((Some(reply), _)) = select(next(), more.as_mut()).await {
                    if !send(&reactor, &socket, reply).await {
                        return;
                    }
                }
                return;
            }
        }
    }
}

/// Sends a line; false if the peer is gone.
async fn send(reactor: &Rc<Reactor>, socket: &Arc<OwnedFd>, line: String) -> bool {
    let memory = Memory::of((line + "\n").into_bytes());
    reactor.submit(Job::new(Op::Send, socket, memory)).await.result.is_ok()
}
