//! A client, from its first byte to its last.
//!
//! Fault model: it may be silent (a handshake has a time limit), send what makes no sense (answered with an error where
//! the protocol still knows where the next request begins, and else sent away), or vanish at any byte.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::{sleep, spawn};

use super::input::Input;
use super::outbox::Outbox;
use super::request::{Asked, Session};
use super::tls::Tunnel;
use super::{Offer, Server};
use crate::nbd::{Agreed, Command, Encryption, GREETING, Handshake, Replies, Request, Step, Style, request};
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
    offer: &Rc<Offer>,
) -> Result<(), String> {
    let mut input = Input::new(&server.reactor, &socket);
    let late = spawn({
        let socket = socket.clone();
        async move {
            sleep(PATIENCE).await;
            let _ = shutdown(socket, Shutdown::Both);
        }
    });
    let greeted = shake_hands(server, &socket, &mut input, offer).await;
    drop(late);
    let (agreed, tunnel) = match greeted {
        Ok(Some(agreed)) => agreed,
        // Whoever only looks, or asks for the list, goes without a word; not so who was not let in.
        Ok(None) | Err(Ended::Gone) => return Ok(()),
        Err(Ended::NotLetIn(why)) => return Err(why),
    };
    let outbox = Rc::new(Outbox::default());
    let sent = spawn(outbox.clone().send(server.reactor.clone(), socket.clone(), tunnel.clone()));
    let export = offer.exports[agreed.export].clone();
    let any_bytes = if agreed.knows_blocks { None } else { Some(export.device.any_bytes().await) };
    let session = Rc::new(Session {
        server: server.clone(),
        export,
        replies: Replies(agreed.style),
        contexts: agreed.contexts,
        any_bytes,
        outbox: outbox.clone(),
        client: number,
    });
    let ended = transmission(&session, &mut input).await;
    outbox.answered().await;
    sent.await;
    if let Some(farewell) = tunnel.map(|tunnel| tunnel.close()).filter(|_| !outbox.is_closed()) {
        let _ = server.reactor.ask(Job::new(What::Send, &socket, Memory::of(farewell))).await;
    }
    // The other end learns now that this is over; whoever holds the socket besides would keep it open.
    let _ = shutdown(socket, Shutdown::Both);
    ended
}

/// Why a handshake ended before anything was agreed on.
enum Ended {
    /// The client went.
    Gone,
    /// It could not show that it may be here, or spoke no TLS.
    NotLetIn(String),
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended::Gone
    }
}

/// What was agreed on, and whether it is encrypted; `None` if the client does not want to go on.
async fn shake_hands(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    input: &mut Input,
    offer: &Rc<Offer>,
) -> Result<Option<(Agreed, Option<Rc<Tunnel>>)>, Ended> {
    let told: Vec<_> = offer.exports.iter().map(|export| export.told.clone()).collect();
    let demanded = if offer.keys.is_some() { Encryption::Demanded } else { Encryption::None };
    let mut handshake = Handshake::new(&told, demanded);
    let (mut out, mut tunnel): (Vec<u8>, Option<Rc<Tunnel>>) = (GREETING.to_vec(), None);
    loop {
        send(server, socket, tunnel.as_deref(), std::mem::take(&mut out)).await?;
        let (took, step) = handshake.feed(input.rest(), &mut out);
        input.take(took);
        let ended = match (step, &offer.keys) {
            (Step::More, _) if took > 0 || receive_more(input).await? => continue,
            (Step::Encrypt, Some(keys)) if input.rest().is_empty() => {
                send(server, socket, None, std::mem::take(&mut out)).await?;
                let opened = Tunnel::new(keys).map_err(Ended::NotLetIn)?;
                open(server, socket, input, &opened).await?;
                tunnel = Some(opened);
                continue;
            }
            // What came behind the wish for TLS, before there was any, nobody vouches for.
            (Step::Encrypt, _) => return Err(Ended::NotLetIn("it sent more before TLS began".to_owned())),
            (Step::Serve(agreed), _) => Some(agreed),
            (Step::More, _) => return Ok(None),
            (Step::End, _) => None,
        };
        send(server, socket, tunnel.as_deref(), out).await?;
        return Ok(ended.map(|agreed| (agreed, tunnel)));
    }
}

/// Sends what is to be said, through the tunnel if there is one.
async fn send(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    tunnel: Option<&Tunnel>,
    out: Vec<u8>,
) -> io::Result<()> {
    let bytes = match tunnel {
        Some(tunnel) => tunnel.seal(&out),
        None => out,
    };
    if bytes.is_empty() {
        return Ok(());
    }
    server.reactor.ask(Job::new(What::Send, socket, Memory::of(bytes))).await.result.map(drop)
}

/// Agrees on TLS: each shows its certificate.
async fn open(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    input: &mut Input,
    tunnel: &Rc<Tunnel>,
) -> Result<(), Ended> {
    input.decrypt(tunnel.clone());
    while tunnel.is_opening() {
        let received = input.unseal().await;
        // Also the word of an error.
        send(server, socket, Some(tunnel), Vec::new()).await?;
        match received {
            Ok(true) => {}
            // What TLS refuses, and not what the system could not do.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                return Err(Ended::NotLetIn(error.to_string()));
            }
            Ok(false) | Err(_) => return Err(Ended::Gone),
        }
    }
    Ok(())
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
        let Some(payload) = payload(session, asked, &request, input).await.map_err(gone)? else {
            session.outbox.reply(asked.holds(&request), |_| {});
            return Ok(());
        };
        begin(Box::pin(session.clone().answer(request, asked, payload))).await;
    }
}

/// The payload of a request, empty if it has none or makes no sense; `None` if it does not come.
async fn payload(
    session: &Session,
    asked: Asked,
    request: &Request,
    input: &mut Input,
) -> io::Result<Option<Vec<u8>>> {
    if matches!(asked, Asked::Takes(_)) {
        let len = request.payload as usize;
        return input.fill(session.outbox.memory(len), len).await;
    }
    let passed = request.payload <= LONGEST_PASSED_OVER && input.pass_over(request.payload).await?;
    Ok(passed.then(Vec::new))
}

/// Carries a request as far as it gets at once; what then still waits goes on by itself.
async fn begin(mut work: Pin<Box<impl Future<Output = ()> + 'static>>) {
    let done = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
    if !done {
        spawn(work).detach();
    }
}
