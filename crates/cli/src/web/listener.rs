//! Connections of browsers, of which there is a bounded number, each of which ends when it stands still.
//!
//! Fault model: a peer may connect and send nothing, send a request letter by letter, or not read what it gets. In all
//! cases nothing is written to it for [`STALL`], and its connection ends. With [`CONNECTIONS`] open, more get a
//! refusal.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Connections at once: of each browser one for the stream, and for a moment one for the page.
const CONNECTIONS: usize = 192;
/// Connections at once that are being refused; further ones are closed at once.
const REFUSALS: usize = 64;
/// The longest time in which nothing is written. A stream writes every second.
pub const STALL: Duration = Duration::from_secs(15);
/// The longest time that a refusal takes.
const REFUSAL: Duration = Duration::from_secs(2);

const REFUSED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 21\r\n\
    Retry-After: 5\r\nConnection: close\r\n\r\ntoo many connections\n";

/// See the file's header.
pub struct Bounded {
    listener: TcpListener,
    open: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    stall: Duration,
}

impl Bounded {
    /// Bounds the connections of a listener; nothing may be written to one for `stall` at most.
    pub fn new(listener: TcpListener, stall: Duration) -> Bounded {
        let places = |number| Arc::new(Semaphore::new(number));
        Bounded { listener, open: places(CONNECTIONS), refusals: places(REFUSALS), stall }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else {
                // Such as no more files: others may close theirs.
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            if let Ok(place) = self.open.clone().try_acquire_owned() {
                let (stall, rest) = (self.stall, Box::pin(sleep(self.stall)));
                return (Connection { stream, stall, rest, _place: place }, peer);
            }
            if let Ok(place) = self.refusals.clone().try_acquire_owned() {
                tokio::spawn(async move {
                    let _ = timeout(REFUSAL, refuse(&stream)).await;
                    drop(place);
                });
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Answers whatever the request is, once it has come: a connection that is closed before that loses the answer.
async fn refuse(stream: &TcpStream) -> io::Result<()> {
    let mut request = [0; 4096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut request) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => break read.map(drop)?,
        }
    }
    stream.writable().await?;
    stream.try_write(REFUSED)?;
    Ok(())
}

/// A connection that ends when nothing was written to it for a while.
pub struct Connection {
    stream: TcpStream,
    stall: Duration,
    rest: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// The answer of the stream, or an error if it waits and has waited for too long.
    fn unless_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        answer: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if answer.is_pending() && self.rest.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        answer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.unless_stalled(context, answer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        if answer.is_ready() {
            let end = Instant::now() + self.stall;
            self.rest.as_mut().reset(end);
        }
        self.unless_stalled(context, answer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;

    use axum::serve::Listener;

    use super::*;

    #[test]
    fn a_peer_that_sends_nothing_and_one_that_reads_nothing_are_cut_off() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut bounded = Bounded::new(listener, Duration::from_millis(200));
            let mut peer = std::net::TcpStream::connect(bounded.local_addr().unwrap()).unwrap();
            let (mut connection, _) = bounded.accept().await;
            peer.write_all(b"G").unwrap();
            let mut letters = [0; 8];
            let mut read = async || {
                let mut buffer = ReadBuf::new(&mut letters);
                poll_fn(|context| Pin::new(&mut connection).poll_read(context, &mut buffer)).await
            };
            read().await.unwrap();
            assert_eq!(read().await.unwrap_err().kind(), ErrorKind::TimedOut);
            let much = vec![0; 1 << 20];
            let mut failed = None;
            for _ in 0..100 {
                let write = poll_fn(|context| Pin::new(&mut connection).poll_write(context, &much)).await;
                if let Err(error) = write {
                    failed = Some(error.kind());
                    break;
                }
            }
            assert_eq!(failed, Some(ErrorKind::TimedOut));
            drop(peer);
        });
    }

    #[test]
    fn one_connection_more_gets_a_refusal() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut bounded = Bounded::new(listener, STALL);
            let address = bounded.local_addr().unwrap();
            let mut open = Vec::new();
            for _ in 0..CONNECTIONS {
                open.push((TcpStream::connect(address).await.unwrap(), bounded.accept().await));
            }
            let accepted = tokio::spawn(async move { bounded.accept().await });
            let one_more = TcpStream::connect(address).await.unwrap();
            one_more.try_write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = [0; 300];
            let length = loop {
                one_more.readable().await.unwrap();
                if let Ok(length) = one_more.try_read(&mut answer) {
                    break length;
                }
            };
            assert_eq!(&answer[..length], REFUSED);
            assert!(!accepted.is_finished());
            drop(open);
        });
    }
}
