//! The control socket: a line of JSON as a request, a line of JSON as its reply. Only the server's owner may connect.
//!
//! Fault model: a peer may send anything, or nothing; a line is at most [`LONGEST`] bytes, and a longer one ends the
//! connection.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::Listener;
use crate::reactor::{Job, Memory, Op, Reactor};
use crate::wire::Input;

/// Bytes of a line.
const LONGEST: usize = 64 << 10;

/// The future of a reply.
pub type ControlReply = Pin<Box<dyn Future<Output = String>>>;

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
            let more = before < LONGEST && input.more().await.unwrap_or(false);
            if !more || input.rest().len() == before {
                return;
            }
            continue;
        };
        let line = String::from_utf8_lossy(&input.rest()[..end]).into_owned();
        input.take(end + 1);
        let answer = answer(line).await + "\n";
        let sent = reactor.submit(Job::new(Op::Send, &socket, Memory::of(answer.into_bytes()))).await;
        if sent.result.is_err() {
            return;
        }
    }
}
