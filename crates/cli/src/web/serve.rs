//! The page's server: HTTP for browsers of this machine that have the token.
//!
//! Invariants: it listens on loopback; nothing but `GET` with the token and a loopback `Host` gets an answer other than
//! a refusal; a browser cannot change anything.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::hub::Hub;
use super::listener::{Bounded, STALL};
use super::page;

/// Streams at once.
pub const BROWSERS: usize = 64;
/// Bytes of the token, from the system's random numbers.
const TOKEN_BYTES: usize = 24;
/// Something is written this often, even when a run has ended: less than the longest time of a connection.
const BEAT: Duration = Duration::from_secs(5);

/// Headers of every answer: nothing is stored, framed, or read by other pages.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

struct Site {
    hub: Arc<Hub>,
    token: String,
    browsers: AtomicUsize,
}

/// Serves a page from now on, on a thread of its own; its address.
pub fn serve(address: SocketAddr, hub: &Arc<Hub>) -> anyhow::Result<String> {
    let socket = std::net::TcpListener::bind(address).with_context(|| format!("--listen: {address}"))?;
    socket.set_nonblocking(true)?;
    let url = format!("http://{}/?token=", socket.local_addr()?);
    let site = Arc::new(Site { hub: hub.clone(), token: random()?, browsers: AtomicUsize::new(0) });
    let url = url + &site.token;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _entered = runtime.enter();
        Bounded::new(tokio::net::TcpListener::from_std(socket)?, STALL)
    };
    let routes = Router::new().route("/", get(send_page)).route("/events", get(send_events));
    let routes = routes.layer(from_fn_with_state(site.clone(), guard)).with_state(site);
    // Browsers wait here, not a volume.
    #[allow(clippy::disallowed_methods)]
    std::thread::Builder::new().name("web".to_owned()).spawn(move || {
        // It does not end.
        let _ = runtime.block_on(axum::serve(listener, routes).into_future());
    })?;
    Ok(url)
}

/// A random text, which is not guessed.
fn random() -> anyhow::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}

/// Whether two texts are equal, in a time that does not depend on where they differ.
fn equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

/// Whether a request names this machine: the page of another name that leads here does not.
fn is_local(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Why a request is refused, if it is.
fn refusal(site: &Site, request: &Request) -> Option<(StatusCode, &'static str)> {
    let mut words = request.uri().query().unwrap_or_default().split('&');
    let token = words.find_map(|word| word.strip_prefix("token=")).unwrap_or_default();
    if request.method() != Method::GET {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "expected GET: this page changes nothing\n"));
    }
    if !is_local(request.headers()) {
        return Some((StatusCode::FORBIDDEN, "expected a Host that is this machine, such as 127.0.0.1\n"));
    }
    if !equal(token, &site.token) {
        return Some((StatusCode::FORBIDDEN, "expected the token: open the address that seekless printed\n"));
    }
    None
}

async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&site, &request) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

async fn send_page() -> Response {
    match random() {
        Ok(nonce) => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
                (header::CONTENT_SECURITY_POLICY, page::policy(&nonce)),
            ];
            (headers, page::page(&nonce)).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "no random numbers\n").into_response(),
    }
}

/// A browser among those that get the stream, until it is dropped.
struct Seat(Arc<Site>);

impl Seat {
    fn take(site: &Arc<Site>) -> Option<Seat> {
        let more = |browsers| (browsers < BROWSERS).then_some(browsers + 1);
        site.browsers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Seat(site.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.browsers.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn send_events(State(site): State<Arc<Site>>) -> Response {
    let Some(seat) = Seat::take(&site) else {
        let why = format!("found {BROWSERS} browsers already, expected fewer: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], why).into_response();
    };
    let (history, messages) = site.hub.join();
    let events = unfold((Some(history), messages, seat), |(mut history, mut messages, seat)| async move {
        let event = if let Some(history) = history.take() {
            Event::default().event("history").data(history)
        } else {
            let message = loop {
                match messages.recv().await {
                    Ok(message) => break message,
                    // It was slow: a gap in its charts.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            };
            Event::default().event("sample").data(message)
        };
        Some((Ok::<_, Infallible>(event), (history, messages, seat)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(BEAT)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_or_not() {
        let token = random().unwrap();
        assert_eq!(token.len(), 2 * TOKEN_BYTES);
        assert_ne!(token, random().unwrap());
        assert!(equal(&token, &token) && equal("", ""));
        assert!(
            !equal(&token[1..], &token)
                && !equal("", &token)
                && !equal(&token.replace(|_| true, "x"), &token)
        );
    }

    #[test]
    fn hosts_are_this_machine_or_not() {
        let host = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            is_local(&headers)
        };
        let local =
            ["127.0.0.1:80", "127.0.0.1", "localhost", "localhost:8080", "[::1]:80", "[::1]", "127.9.9.9:1"];
        let foreign =
            ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1:80", ":80"];
        assert!(local.into_iter().all(host));
        assert!(!foreign.into_iter().any(host));
        assert!(!is_local(&HeaderMap::new()));
    }
}
