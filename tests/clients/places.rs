//! Many clients: whatever the clients of one peer do, one of another peer is served.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::misbehaving::memory_of;
use crate::raw::{FUA, READ, Raw, WRITE};
use crate::server::{KINDS, Server};

const MIB: usize = 1 << 20;

/// Memory at a port of this machine, for `clients` clients.
fn at_a_port(folder: &Path, kind: &str, clients: &str) -> Option<(Server, u16)> {
    // The clients of these tests are many, too.
    seekless_serve::descriptors::raise_limit();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "{clients}\n[component.m]\nram = \"64MiB\"\n[[export]]\ntop = \"m\"\nnbd = \"tcp:127.0.0.1:{port}\"\n"
    );
    std::fs::write(folder.join("volume.toml"), text).unwrap();
    Some((Server::start(folder, kind)?, port))
}

/// A connection of the peer 127.0.0.`peer`.
fn of_peer(peer: u8, port: u16) -> TcpStream {
    let new = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&new, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, peer), 0)).unwrap();
    connect(&new, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stream = TcpStream::from(new);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Well before silent handshakes and half-sent requests end, 30 s; an idle machine takes milliseconds.
const SOON: Duration = Duration::from_secs(15);

/// Retries until it succeeds: the server takes a moment to notice that clients are gone.
fn soon<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) => assert!(began.elapsed() < SOON, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A connection of a peer that has begun to use the export.
fn begun(peer: u8, port: u16) -> Result<Raw<TcpStream>, String> {
    let mut raw = Raw::over(of_peer(peer, port));
    raw.begin("m").map(|()| raw)
}

/// A client of a peer is served, whatever others do: it waits for none of their timeouts.
fn is_served(peer: u8, port: u16, what: &str) {
    let began = Instant::now();
    let mut raw = begun(peer, port).unwrap();
    assert_eq!(raw.write(FUA, 0, &vec![peer; MIB]).unwrap(), 0);
    assert_eq!(raw.read(4096, 4096).unwrap(), [peer; 4096]);
    let took = began.elapsed();
    eprintln!("{what}: a client of another peer is served in {took:?}");
    assert!(took < SOON, "{what}: {took:?}");
}

#[test]
fn a_thousand_silent_handshakes_keep_nobody_out() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some((server, port)) = at_a_port(folder.path(), kind, "") else { continue };
        let silent: Vec<TcpStream> = (0..1_000).map(|_| of_peer(2, port)).collect();
        is_served(3, port, &format!("{kind}, 1,000 silent handshakes"));
        is_served(2, port, &format!("{kind}, the same peer"));
        drop(silent);
        server.stop_saying(&["disconnected during its handshake", "more clients were refused"]);
    }
}

#[test]
fn a_thousand_silent_clients_of_a_peer_keep_no_other_out() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some((server, port)) = at_a_port(folder.path(), kind, "") else { continue };
        let mut silent: Vec<Raw<TcpStream>> = Vec::new();
        let mut refused = Vec::new();
        for _ in 0..1_000 {
            let mut raw = Raw::over(of_peer(2, port));
            match raw.begin("m") {
                Ok(()) => silent.push(raw),
                Err(why) => refused.push(why),
            }
        }
        assert_eq!((silent.len(), refused.len()), (512, 488), "{kind}");
        assert!(
            refused[0].contains("found 512 clients of 127.0.0.2, expected at most 512"),
            "{}",
            refused[0]
        );
        is_served(3, port, &format!("{kind}, 512 of 1,000 silent clients"));
        // They are silent, and nothing else: each is served when it asks.
        assert_eq!(silent[0].write(0, 0, &[1; 512]).unwrap(), 0);
        drop(silent);
        drop(soon(|| begun(2, port)));
        server.stop_saying(&["refused: found 512 clients of 127.0.0.2", "more clients were refused"]);
    }
}

#[test]
fn the_volume_file_says_how_many_clients_there_may_be() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some((server, port)) = at_a_port(folder.path(), kind, "clients = 3") else { continue };
        let mut all: Vec<Raw<TcpStream>> =
            [2, 2, 3].map(|peer| Raw::over(of_peer(peer, port))).into_iter().collect();
        assert!(all.iter_mut().all(|raw| raw.begin("m").is_ok()));
        let mut fourth = Raw::over(of_peer(4, port));
        let why = fourth.begin("m").unwrap_err();
        assert!(why.contains("found 3 clients, expected at most 3"), "{kind}: {why}");
        // It may try again on the same connection, when there is a free slot.
        drop(all.pop());
        soon(|| {
            fourth.option(7, &[0, 0, 0, 0, 0, 0]).unwrap();
            match fourth.option_reply().unwrap().0 {
                3 => Ok(()),
                other => Err(format!("{kind}: the server answers {other:#x}")),
            }
        });
        assert_eq!(fourth.option_reply().unwrap().0, 1, "{kind}");
        server.stop();
    }
}

#[test]
fn sixty_halves_of_large_writes_hold_little_memory_and_nobody_up() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some((server, port)) = at_a_port(folder.path(), kind, "") else { continue };
        let before = memory_of(&server);
        let bytes = vec![5; 32 * MIB - 1];
        let halves: Vec<Raw<TcpStream>> = (0..60)
            .map(|_| {
                let mut raw = Raw::over(of_peer(2, port));
                raw.begin("m").unwrap();
                raw.ask(WRITE, 0, 1, 0, 32 << 20).unwrap();
                raw.send(&bytes).unwrap();
                raw
            })
            .collect();
        is_served(3, port, &format!("{kind}, 60 half-sent writes of 32 MiB"));
        let grown = memory_of(&server).saturating_sub(before) >> 10;
        eprintln!("{kind}: 60 half-sent writes of 32 MiB hold {grown} MiB");
        // 128 MiB for this peer, 1 MiB for each client, the volume's own 64, and what memory allocation wastes.
        assert!(grown < 400, "{kind}: {grown} MiB");
        // Each of them can finish its current request.
        for mut raw in halves {
            raw.send(&[5]).unwrap();
            assert_eq!(raw.reply().unwrap(), (1, 0), "{kind}");
        }
        let mut raw = Raw::over(of_peer(2, port));
        raw.begin("m").unwrap();
        let read = raw.read(0, 32 << 20).unwrap();
        assert!(read[MIB..] == bytes[MIB - 1..], "{kind}: all of it is there");
        server.stop();
    }
}

#[test]
fn clients_that_take_no_large_replies_keep_those_of_no_other_peer() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let Some((server, port)) = at_a_port(folder.path(), kind, "") else { continue };
        let before = memory_of(&server);
        let stalled: Vec<Raw<TcpStream>> = (0..40)
            .map(|_| {
                let mut raw = Raw::over(of_peer(2, port));
                raw.begin("m").unwrap();
                raw.ask(READ, 0, 1, 0, 32 << 20).unwrap();
                raw.ask(READ, 0, 2, 0, 32 << 20).unwrap();
                raw
            })
            .collect();
        std::thread::sleep(Duration::from_millis(500));
        let mut raw = Raw::over(of_peer(3, port));
        raw.begin("m").unwrap();
        assert_eq!(raw.read(0, 32 << 20).unwrap().len(), 32 << 20, "{kind}");
        let grown = memory_of(&server).saturating_sub(before) >> 10;
        assert!(grown < 400, "{kind}: {grown} MiB");
        drop(stalled);
        server.stop();
    }
}

#[test]
fn half_a_request_is_waited_for_so_long_and_a_silent_client_for_ever() {
    std::thread::scope(|scope| {
        for kind in KINDS {
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                crate::server::volume(folder.path(), "[component.m]\nram = \"8MiB\"\n", &[("m", "")]);
                let Some(server) = Server::start(folder.path(), kind) else { return };
                let open = || Raw::open(folder.path(), "m");
                let (mut silent, mut header, mut payload) = (open(), open(), open());
                header.send(&0x2560_9513_u32.to_be_bytes()).unwrap();
                payload.ask(WRITE, 0, 1, 0, 4096).unwrap();
                payload.send(&[1; 4095]).unwrap();
                let handshake = Raw::connect(folder.path());
                let ends = |mut raw: Raw<UnixStream>, what: &str| {
                    raw.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    assert!(raw.take(1).is_err(), "{kind}: {what} ends it");
                };
                let began = Instant::now();
                ends(header, "half a header");
                ends(payload, "half a payload");
                ends(handshake, "a silent handshake");
                let took = began.elapsed();
                assert!(took > Duration::from_secs(28) && took < Duration::from_secs(60), "{kind}: {took:?}");
                std::thread::sleep(Duration::from_secs(5));
                silent.ask(READ, 0, 7, 0, 4096).unwrap();
                assert_eq!(silent.reply().unwrap(), (7, 0), "{kind}: it was only silent");
                silent.take(4096).unwrap();
                server.stop_saying(&["it sent a part of a request"]);
            });
        }
    });
}
