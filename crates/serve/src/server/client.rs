//! A client, from its first byte to its last.
//!
//! Fault model: it may be silent (a handshake has a time limit), send what makes no sense (answered with an error where
//! the protocol still knows where the next request begins, and else sent away), or vanish at any byte.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::Server;
use super::export::Export;
use super::input::Input;
use super::outbox::Outbox;
use super::request::{Asked, Session};
use crate::nbd::{Agreed, Command, GREETING, Handshake, Replies, Request, Step, Style, request};
use crate::reactor::{Job, Memory, What};

/// A handshake is over within this.
const PATIENCE: Nanos = Nanos::from_millis(30_000);
/// The longest payload that is passed over: more is no client's.
const LONGEST_PASSED_OVER: u64 = 1 << 32;

/// Serves a client until it goes; why it was sent away, if it was.
pub async fn serve(
    server: &Rc<Server>,
    socket: Arc<OwnedFd>,
    number: u32,
    exports: &Rc<Vec<Export>>,
) -> Result<(), String> {
    let mut input = Input::new(&server.reactor, &socket);
    let late = spawn({
        let socket = socket.clone();
        async move {
            sleep(PATIENCE).await;
            let _ = shutdown(socket, Shutdown::Both);
        }
    });
    // Whoever only looks, or asks for the list, goes without a word.
    let agreed = shake_hands(server, &socket, &mut input, exports).await.ok().flatten();
    drop(late);
    let Some(agreed) = agreed else { return Ok(()) };
    let outbox = Rc::new(Outbox::default());
    let sent = spawn(outbox.clone().send(server.reactor.clone(), socket.clone()));
    let session = Rc::new(Session {
        server: server.clone(),
        export: exports[agreed.export].clone(),
        replies: Replies(agreed.style),
        contexts: agreed.contexts,
        knows_blocks: agreed.knows_blocks,
        outbox: outbox.clone(),
        client: number,
    });
    let ended = transmission(&session, &mut input).await;
    outbox.answered().await;
    sent.await;
    // The other end learns now that this is over; whoever holds the socket besides would keep it open.
    let _ = shutdown(socket, Shutdown::Both);
    ended
}

/// `None` if the client does not want to go on.
async fn shake_hands(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    input: &mut Input,
    exports: &Rc<Vec<Export>>,
) -> io::Result<Option<Agreed>> {
    let told: Vec<_> = exports.iter().map(|export| export.told.clone()).collect();
    let mut handshake = Handshake::new(&told);
    let mut out = GREETING.to_vec();
    loop {
        if !out.is_empty() {
            server
                .reactor
                .ask(Job::new(What::Send, socket, Memory::of(std::mem::take(&mut out))))
                .await
                .result?;
        }
        let (took, step) = handshake.feed(input.rest(), &mut out);
        input.take(took);
        let ended = match step {
            Step::More if took > 0 || receive_more(input).await? => continue,
            Step::More => return Ok(None),
            Step::Serve(agreed) => Some(agreed),
            Step::End => None,
        };
        if !out.is_empty() {
            server.reactor.ask(Job::new(What::Send, socket, Memory::of(out))).await.result?;
        }
        return Ok(ended);
    }
}

/// Whether anything came.
async fn receive_more(input: &mut Input) -> io::Result<bool> {
    let before = input.rest().len();
    Ok(input.more().await? && input.rest().len() > before)
}

/// Reads requests and has them answered, until the client goes or is sent away.
async fn transmission(session: &Rc<Session>, input: &mut Input) -> Result<(), String> {
    let extended = session.replies.0 == Style::Extended;
    let gone = |error: io::Error| format!("it is gone: {error}");
    loop {
        let parsed = request(input.rest(), extended)
            .map_err(|wrong| format!("found {:#010x} where a request should begin", wrong.magic))?;
        let Some((request, header)) = parsed else {
            if session.outbox.is_closed() || !receive_more(input).await.map_err(gone)? {
                return Ok(());
            }
            continue;
        };
        input.take(header);
        if request.command == Command::Disconnect {
            return Ok(());
        }
        let asked = session.judge(&request);
        session.outbox.hold(asked.holds(&request)).await;
        let Some(payload) = payload(asked, &request, input).await.map_err(gone)? else {
            session.outbox.reply(asked.holds(&request), |_| {});
            return Ok(());
        };
        begin(session.clone().answer(request, asked, payload)).await;
    }
}

/// The payload of a request, empty if it has none or makes no sense; `None` if it does not come.
async fn payload(asked: Asked, request: &Request, input: &mut Input) -> io::Result<Option<Vec<u8>>> {
    if matches!(asked, Asked::Takes(_)) {
        return input.exactly(request.payload as usize).await;
    }
    let passed = request.payload <= LONGEST_PASSED_OVER && input.pass_over(request.payload).await?;
    Ok(passed.then(Vec::new))
}

/// Carries a request as far as it gets at once; what then still waits goes on by itself.
async fn begin(work: impl Future<Output = ()> + 'static) {
    let mut work = Box::pin(work);
    let done = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
    if !done {
        spawn(work).detach();
    }
}
