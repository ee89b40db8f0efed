//! A client connection, from its first byte to its last.
//!
//! Fault model: the client may be silent, which is allowed between requests but neither in the handshake nor within a
//! request; send malformed requests (answered with an error where the next request can still be found, otherwise
//! disconnected), or vanish at any byte.

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
use seekless_core::runtime::{now, sleep, spawn, spawn_boxed};

use super::client_slots::ClientSlot;
use super::peer::Peer;
use super::request::{PAYLOAD_PIECE, Payload, Plan, Session};
use super::send_queue::SendQueue;
use super::{Export, Offer, Server};
use crate::nbd::{Agreed, Command, Encryption, GREETING, Handshake, Replies, Request, Step, Style, request};
use crate::reactor::{Job, Memory, Op};
use crate::wire::{Input, Tunnel};

/// Time limit of a handshake, and of the remainder of a request.
const TIMEOUT: Nanos = Nanos::from_millis(30_000);
/// A payload gets a further second for each this many bytes.
const SLOWEST_BYTES_PER_S: u64 = 64 << 10;
/// Bytes of the longest payload that is skipped: no client sends more.
const LARGEST_SKIPPED: u64 = 1 << 32;

/// Serves a client until it disconnects; returns why it was disconnected by the server, if so.
pub async fn serve(
    server: &Rc<Server>,
    socket: Arc<OwnedFd>,
    number: u32,
    peer: Peer,
    offer: &Rc<Offer>,
) -> Result<(), String> {
    let mut input = Input::new(&server.reactor, &socket);
    let deadline = spawn({
        let socket = socket.clone();
        async move {
            sleep(TIMEOUT).await;
            let _ = shutdown(socket, Shutdown::Both);
        }
    });
    let handshaken = handshake(server, &socket, &mut input, (number, peer), offer).await;
    drop(deadline);
    server.handshakes.end(number);
    let (export, agreed, tunnel, _slot) = match handshaken {
        Ok(Some(agreed)) => agreed,
        // Clients that only list exports disconnect silently; rejected ones are logged.
        Ok(None) | Err(HandshakeError::Gone) => return Ok(()),
        Err(HandshakeError::Rejected(why)) => return Err(why),
    };
    let send_queue = SendQueue::new(&server.budget, peer);
    let sent = spawn(send_queue.clone().send(server.reactor.clone(), socket.clone(), tunnel.clone()));
    let session = Rc::new(Session {
        server: server.clone(),
        export,
        replies: Replies(agreed.style),
        contexts: agreed.contexts,
        knows_blocks: agreed.knows_blocks,
        unaligned_permit: RefCell::default(),
        send_queue: send_queue.clone(),
        client: number,
    });
    let ended = transmission(&session, &mut input).await;
    send_queue.drained().await;
    sent.await;
    if let Some(close_notify) = tunnel.map(|tunnel| tunnel.close()).filter(|_| !send_queue.is_closed()) {
        let _ = server.reactor.submit(Job::new(Op::Send, &socket, Memory::of(close_notify))).await;
    }
    // Tells the peer that this is over, even if another process holds the socket open.
    let _ = shutdown(socket, Shutdown::Both);
    ended
}

/// Why a handshake ended without agreement.
enum HandshakeError {
    /// The client disconnected.
    Gone,
    /// It has no valid certificate, or did not start TLS.
    Rejected(String),
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> HandshakeError {
        HandshakeError::Gone
    }
}

/// What a handshake ends with.
type Agreement = (Export, Agreed, Option<Rc<Tunnel>>, ClientSlot);

/// Performs the handshake; the export, the agreement, and the tunnel if any; `None` if the client ended it.
async fn handshake(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    input: &mut Input,
    (number, peer): (u32, Peer),
    offer: &Rc<Offer>,
) -> Result<Option<Agreement>, HandshakeError> {
    let mut offered = offer.exports();
    let exports: Vec<_> = offered.iter().map(|export| export.info.clone()).collect();
    let demanded = if offer.keys.is_some() { Encryption::Demanded } else { Encryption::None };
    let mut handshake = Handshake::new(&exports, demanded);
    let (mut out, mut tunnel): (Vec<u8>, Option<Rc<Tunnel>>) = (GREETING.to_vec(), None);
    loop {
        send(server, socket, tunnel.as_deref(), std::mem::take(&mut out)).await?;
        handshake.set_full(server.slots.refusal(peer));
        let (took, step) = handshake.feed(input.rest(), &mut out);
        input.take(took);
        if let Some(why) = handshake.take_refusal() {
            server.report_refusal(&format!("client {number} is refused: {why}"));
        }
        let ended = match (step, &offer.keys) {
            (Step::More, _) => {
                if took == 0 && !receive_more(input).await? {
                    return Ok(None);
                }
                continue;
            }
            (Step::Encrypt, Some(keys)) if input.rest().is_empty() => {
                send(server, socket, None, std::mem::take(&mut out)).await?;
                let opened = Tunnel::new(keys).map_err(HandshakeError::Rejected)?;
                open(server, socket, input, &opened).await?;
                tunnel = Some(opened);
                continue;
            }
            // Bytes received before TLS began are not authenticated.
            (Step::Encrypt, _) => {
                return Err(HandshakeError::Rejected("it sent more before TLS began".to_owned()));
            }
            (Step::Serve(agreed), _) => Some((agreed, server.slots.take(peer))),
            (Step::End, _) => None,
        };
        send(server, socket, tunnel.as_deref(), out).await?;
        return Ok(ended.map(|(agreed, slot)| (offered.swap_remove(agreed.export), agreed, tunnel, slot)));
    }
}

/// Sends bytes, through the tunnel if there is one.
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
    server.reactor.submit(Job::new(Op::Send, socket, Memory::of(bytes))).await.result.map(drop)
}

/// Performs the TLS handshake, with certificates on both sides.
async fn open(
    server: &Rc<Server>,
    socket: &Arc<OwnedFd>,
    input: &mut Input,
    tunnel: &Rc<Tunnel>,
) -> Result<(), HandshakeError> {
    input.decrypt(tunnel.clone());
    while tunnel.is_opening() {
        let received = input.unseal().await;
        // TLS alerts too.
        send(server, socket, Some(tunnel), Vec::new()).await?;
        match received {
            Ok(true) => {}
            // A TLS error, not one of the system.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                return Err(HandshakeError::Rejected(error.to_string()));
            }
            Ok(false) | Err(_) => return Err(HandshakeError::Gone),
        }
    }
    Ok(())
}

/// Whether anything was received.
async fn receive_more(input: &mut Input) -> io::Result<bool> {
    let before = input.rest().len();
    Ok(input.more().await? && input.rest().len() > before)
}

/// Receives requests and has them answered, until the client disconnects or is disconnected.
async fn transmission(session: &Rc<Session>, input: &mut Input) -> Result<(), String> {
    let extended = session.replies.0 == Style::Extended;
    let mut deadline = None;
    loop {
        let parsed = request(input.rest(), extended)
            .map_err(|bad| format!("found {:#010x} where a request should begin", bad.magic))?;
        let Some((request, header)) = parsed else {
            // Silence between requests may last.
            deadline =
                if input.rest().is_empty() { None } else { deadline.or_else(|| Some(now() + TIMEOUT)) };
            input.expect(deadline);
            let more = !session.send_queue.is_closed()
                && receive_more(input).await.map_err(|error| disconnect_reason(input, &error))?;
            if !more {
                return Ok(());
            }
            continue;
        };
        deadline = None;
        input.take(header);
        if request.command == Command::Disconnect {
            return Ok(());
        }
        let plan = session.plan(&request);
        if !session.send_queue.admit(plan.held_bytes(&request)).await {
            return Ok(());
        }
        let mut payload = Payload { held_bytes: plan.held_bytes(&request), ..Payload::default() };
        let received = receive_payload(session, plan, &request, input, &mut payload).await;
        if !matches!(received, Ok(true)) {
            session.send_queue.reply_nothing(payload.held_bytes);
            return received.map(drop).map_err(|error| disconnect_reason(input, &error));
        }
        poll_once_then_spawn(Box::pin(session.clone().execute_and_reply(request, plan, payload))).await;
    }
}

/// Why a client is gone, or disconnected because a request was incomplete; ends the connection.
fn disconnect_reason(input: &Input, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::TimedOut {
        input.disconnect();
        return "it sent a part of a request, and the remainder did not arrive in time".to_owned();
    }
    format!("it is gone: {error}")
}

/// Deadline for receiving the `missing` bytes of a request.
fn payload_deadline(missing: u64) -> Nanos {
    now() + TIMEOUT + Nanos::from_millis(1_000 * (missing / SLOWEST_BYTES_PER_S))
}

/// Receives a request's payload, or skips it if the request is refused; false if it does not arrive in full. Where
/// memory is short a long write is carried out in parts as they arrive: so it completes, whatever other clients hold.
async fn receive_payload(
    session: &Session,
    plan: Plan,
    request: &Request,
    input: &mut Input,
    payload: &mut Payload,
) -> io::Result<bool> {
    let (whole, least) = (request.payload, payload.held_bytes);
    if whole == 0 {
        return Ok(true);
    }
    input.expect(Some(payload_deadline(whole)));
    if !matches!(plan, Plan::Receive(_)) {
        return Ok(whole <= LARGEST_SKIPPED && input.skip(whole).await?);
    }
    payload.bytes = session.send_queue.memory(least as usize);
    let mut got = 0;
    loop {
        let to = got + PAYLOAD_PIECE.min((whole - payload.written) as usize - got);
        let filled = input.fill(std::mem::take(&mut payload.bytes), got, to).await?;
        let Some(bytes) = filled else { return Ok(false) };
        (payload.bytes, got) = (bytes, to);
        let left = whole - payload.written - got as u64;
        let next = left.min(PAYLOAD_PIECE as u64);
        if left == 0 {
            return Ok(true);
        } else if session.send_queue.grow_request(next) {
            payload.held_bytes += next;
            continue;
        }
        let (start, part) = (request.offset + payload.written, std::mem::take(&mut payload.bytes));
        if payload.failed.is_none() {
            // Boxed, or receiving every payload would have room for it.
            payload.failed = Box::pin(session.write_part(request, start, part)).await.err();
        }
        payload.written += got as u64;
        got = 0;
        session.send_queue.shrink_request(payload.held_bytes - least);
        payload.held_bytes = least;
        input.expect(Some(payload_deadline(left)));
    }
}

/// Runs a request as far as it gets without waiting; the rest runs in a task of its own.
pub(super) async fn poll_once_then_spawn(mut work: Pin<Box<impl Future<Output = ()> + 'static>>) {
    let done = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
    if !done {
        spawn_boxed(work).detach();
    }
}
