//! A client, from its first byte to its last.
//!
//! Fault model: it may be silent, which is its right once it was agreed with, but neither before nor within a request; send
//! what makes no sense (answered with an error where the protocol still knows where the next request begins, and else sent
//! away), or vanish at any byte.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rustix::net::{Shutdown, shutdown};
use seekless_core::Nanos;
use seekless_core::runtime::{now, sleep, spawn};

use super::input::Input;
use super::outbox::Outbox;
use super::peer::Peer;
use super::places::Place;
use super::request::{Asked, PIECE, Payload, Session};
use super::tls::Tunnel;
use super::{Offer, Server};
use crate::nbd::{Agreed, Command, Encryption, GREETING, Handshake, Replies, Request, Step, Style, request};
use crate::reactor::{Job, Memory, What};

/// A handshake is over within this.
const PATIENCE: Nanos = Nanos::from_millis(30_000);
/// So is what is missing of a request, and of a payload in addition a second for so many bytes.
const SLOWEST: u64 = 64 << 10;
/// The longest payload that is passed over: more is no client's.
const LONGEST_PASSED_OVER: u64 = 1 << 32;

/// Serves a client until it goes; why it was sent away, if it was.
pub async fn serve(
    server: &Rc<Server>,
    socket: Arc<OwnedFd>,
    number: u32,
    peer: Peer,
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
    let greeted = shake_hands(server, &socket, &mut input, (number, peer), offer).await;
    drop(late);
    server.handshakes.end(number);
    let (agreed, tunnel, _place) = match greeted {
        Ok(Some(agreed)) => agreed,
        // Whoever only looks, or asks for the list, goes without a word; not so who was not let in.
        Ok(None) | Err(Ended::Gone) => return Ok(()),
        Err(Ended::NotLetIn(why)) => return Err(why),
    };
    let outbox = Outbox::new(&server.budget, peer);
    let sent = spawn(outbox.clone().send(server.reactor.clone(), socket.clone(), tunnel.clone()));
    let export = offer.exports[agreed.export].clone();
    let session = Rc::new(Session {
        server: server.clone(),
        export,
        replies: Replies(agreed.style),
        contexts: agreed.contexts,
        knows_blocks: agreed.knows_blocks,
        any_bytes: RefCell::default(),
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
    (number, peer): (u32, Peer),
    offer: &Rc<Offer>,
) -> Result<Option<(Agreed, Option<Rc<Tunnel>>, Place)>, Ended> {
    let told: Vec<_> = offer.exports.iter().map(|export| export.told.clone()).collect();
    let demanded = if offer.keys.is_some() { Encryption::Demanded } else { Encryption::None };
    let mut handshake = Handshake::new(&told, demanded);
    let (mut out, mut tunnel): (Vec<u8>, Option<Rc<Tunnel>>) = (GREETING.to_vec(), None);
    loop {
        send(server, socket, tunnel.as_deref(), std::mem::take(&mut out)).await?;
        handshake.has_no_place(server.places.refuses(peer));
        let (took, step) = handshake.feed(input.rest(), &mut out);
        input.take(took);
        if let Some(why) = handshake.was_refused() {
            server.refuse(&format!("client {number} is refused: {why}"));
        }
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
            (Step::Serve(agreed), _) => Some((agreed, server.places.take(peer))),
            (Step::More, _) => return Ok(None),
            (Step::End, _) => None,
        };
        send(server, socket, tunnel.as_deref(), out).await?;
        return Ok(ended.map(|(agreed, place)| (agreed, tunnel, place)));
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
    let mut late = None;
    loop {
        let parsed = request(input.rest(), extended)
            .map_err(|wrong| format!("found {:#010x} where a request should begin", wrong.magic))?;
        let Some((request, header)) = parsed else {
            // Silence between requests may last.
            late = if input.rest().is_empty() { None } else { late.or_else(|| Some(now() + PATIENCE)) };
            input.expect(late);
            let more = !session.outbox.is_closed()
                && receive_more(input).await.map_err(|error| gone(input, &error))?;
            if !more {
                return Ok(());
            }
            continue;
        };
        late = None;
        input.take(header);
        if request.command == Command::Disconnect {
            return Ok(());
        }
        let asked = session.judge(&request);
        if !session.outbox.hold(asked.holds(&request)).await {
            return Ok(());
        }
        let mut payload = Payload { holds: asked.holds(&request), ..Payload::default() };
        let came = receive_payload(session, asked, &request, input, &mut payload).await;
        if !matches!(came, Ok(true)) {
            session.outbox.reply(payload.holds, |_| {});
            return came.map(drop).map_err(|error| gone(input, &error));
        }
        begin(Box::pin(session.clone().answer(request, asked, payload))).await;
    }
}

/// Why a client is gone, or sent away because half of a request came: nothing more is for it either.
fn gone(input: &Input, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::TimedOut {
        input.end();
        return "it sent a part of a request, and the rest did not come in time".to_owned();
    }
    format!("it is gone: {error}")
}

/// When a request has to be here of which so many bytes are missing.
fn until(missing: u64) -> Nanos {
    now() + PATIENCE + Nanos::from_millis(1_000 * (missing / SLOWEST))
}

/// Receives what a request sends, or passes over it if the request makes no sense; false if it does not come. Where
/// memory is short a long write is carried out in parts as they come: so it ends, whatever others hold.
async fn receive_payload(
    session: &Session,
    asked: Asked,
    request: &Request,
    input: &mut Input,
    payload: &mut Payload,
) -> io::Result<bool> {
    let (whole, least) = (request.payload, payload.holds);
    if whole == 0 {
        return Ok(true);
    }
    input.expect(Some(until(whole)));
    if !matches!(asked, Asked::Takes(_)) {
        return Ok(whole <= LONGEST_PASSED_OVER && input.pass_over(whole).await?);
    }
    payload.bytes = session.outbox.memory(least as usize);
    let mut got = 0;
    loop {
        let to = got + PIECE.min((whole - payload.written) as usize - got);
        let filled = input.fill(std::mem::take(&mut payload.bytes), got, to).await?;
        let Some(bytes) = filled else { return Ok(false) };
        (payload.bytes, got) = (bytes, to);
        let left = whole - payload.written - got as u64;
        let next = left.min(PIECE as u64);
        if left == 0 {
            return Ok(true);
        } else if session.outbox.more(next) {
            payload.holds += next;
            continue;
        }
        let (start, part) = (request.offset + payload.written, std::mem::take(&mut payload.bytes));
        if payload.failed.is_none() {
            payload.failed = session.write_part(request, start, part).await.err();
        }
        payload.written += got as u64;
        got = 0;
        session.outbox.less(payload.holds - least);
        payload.holds = least;
        input.expect(Some(until(left)));
    }
}

/// Carries a request as far as it gets at once; what then still waits goes on by itself.
async fn begin(mut work: Pin<Box<impl Future<Output = ()> + 'static>>) {
    let done = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
    if !done {
        spawn(work).detach();
    }
}
