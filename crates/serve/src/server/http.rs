//! One page over HTTP/1: `GET /metrics`, for programs that collect metrics. A connection gets one answer.
//!
//! Fault model: a peer may send anything, or nothing: a request of more than [`LONGEST`] bytes or later than
//! [`TIMEOUT`] ends the connection. At most [`PEERS`] are connected; more wait to be accepted.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::{now, sleep, spawn};

use super::Listener;
use crate::reactor::{Job, Memory, Op, Reactor};
use crate::wire::Input;

/// Bytes of a request's head.
const LONGEST: usize = 8 << 10;
/// Time limit of a request.
const TIMEOUT: Nanos = Nanos::from_millis(10_000);
/// Connections at a time.
const PEERS: u32 = 16;

/// Answers peers of `listener` with `page`, from now on.
pub fn metrics(reactor: &Rc<Reactor>, listener: Listener, page: impl Fn() -> String + 'static) {
    let (reactor, page, peers) = (reactor.clone(), Rc::new(page), Rc::new(Cell::new(0)));
    spawn(async move {
        loop {
            if peers.get() >= PEERS {
                sleep(Nanos::from_millis(10)).await;
                continue;
            }
            let Some(socket) = reactor.submit(Job::without(Op::Accept, &listener.socket)).await.socket else {
                sleep(Nanos::from_millis(10)).await;
                continue;
            };
            let socket = Arc::new(listener.accepted(socket));
            let (reactor, page, peers) = (reactor.clone(), page.clone(), peers.clone());
            peers.set(peers.get() + 1);
            spawn(async move {
                serve(&reactor, &socket, &*page).await;
                let _ = shutdown(&socket, Shutdown::Both);
                peers.set(peers.get() - 1);
            })
            .detach();
        }
    })
    .detach();
}

async fn serve(reactor: &Rc<Reactor>, socket: &Arc<OwnedFd>, page: &impl Fn() -> String) {
    let mut input = Input::new(reactor, socket);
    input.expect(Some(now() + TIMEOUT));
    let status = loop {
        if let Some(status) = status(input.rest()) {
            break status;
        }
        let before = input.rest().len();
        if !input.more().await.unwrap_or(false) || input.rest().len() == before {
            return;
        }
    };
    let body = if status == "200 OK" { page() } else { format!("{status}\n") };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = reactor.submit(Job::new(Op::Send, socket, Memory::of(answer.into_bytes()))).await;
}

/// The status of the answer, once the head of the request is complete.
fn status(found: &[u8]) -> Option<&'static str> {
    let ended = found.windows(4).any(|end| end == b"\r\n\r\n") || found.windows(2).any(|end| end == b"\n\n");
    if !ended {
        return (found.len() > LONGEST).then_some("431 Request Header Fields Too Large");
    }
    let line = found.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.trim_ascii().split(|byte| *byte == b' ').collect();
    Some(match words[..] {
        [b"GET", path, version] if version.starts_with(b"HTTP/1.") => {
            let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
            if path == b"/metrics" { "200 OK" } else { "404 Not Found" }
        }
        [_, _, version] if version.starts_with(b"HTTP/1.") => "405 Method Not Allowed",
        _ => "400 Bad Request",
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_page_is_there() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Some("200 OK")),
            ("GET /metrics?x=1 HTTP/1.0\n\n", Some("200 OK")),
            ("GET / HTTP/1.1\r\n\r\n", Some("404 Not Found")),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some("405 Method Not Allowed")),
            ("GET /metrics\r\n\r\n", Some("400 Bad Request")),
            ("\r\n\r\n", Some("400 Bad Request")),
            ("GET /metrics HTTP/1.1\r\n", None),
        ] {
            assert_eq!(status(head.as_bytes()), expected, "{head:?}");
        }
        assert_eq!(status(&[b'x'; LONGEST + 1]), Some("431 Request Header Fields Too Large"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_awaited(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let found = status(&bytes);
            prop_assert!(found != Some("200 OK") || bytes.starts_with(b"GET /metrics") || bytes.starts_with(b" "));
        }
    }
}
