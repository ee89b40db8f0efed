//! A server over a device of the test, and a client of it on a thread.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use seekless_core::device::ExtentState;
use seekless_core::runtime::{Runtime, offload};
use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoFuture};

use super::*;
use crate::component::MemoryComponent;
use crate::nbd::Command;
use crate::nbd::client::{
    CHUNK, ExportInfo, OptionReply, Part, ask, choose, chunk, flags, option_reply, parse_option_reply, part,
    structured,
};
use crate::nbd::constants::REPLY_TYPE_OFFSET_DATA;
use crate::reactor::Kind;

/// Memory that panics on extent queries.
struct NoExtentQueries(MemoryComponent);

impl BlockDevice for NoExtentQueries {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&self.0)
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        panic!("asked for what {at} holds, expected no question");
    }
}

/// A client with structured replies.
struct Client(UnixStream);

impl Client {
    fn connect(path: &Path) -> Client {
        let mut client = Client(UnixStream::connect(path).unwrap());
        client.take(18);
        client.0.write_all(&flags()).unwrap();
        for wish in [structured(), choose("")] {
            client.0.write_all(&wish).unwrap();
            loop {
                let (kind, length) = option_reply(&client.take(20)).unwrap();
                let data = client.take(length);
                match parse_option_reply(kind, &data, &mut ExportInfo::default()) {
                    OptionReply::Info => {}
                    OptionReply::Ready => break,
                    OptionReply::Refused(why) => panic!("{why}"),
                }
            }
        }
        client
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The data read, and how many bytes were received for it.
    fn read(&mut self, offset: u64, len: u32) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        ask(&mut out, Command::Read, 0, 1, offset, len);
        self.0.write_all(&out).unwrap();
        let (mut data, mut covered, mut received) = (vec![0xee; len as usize], 0, 0);
        loop {
            let head = chunk(&self.take(CHUNK)).unwrap();
            let payload = self.take(head.length as usize);
            received += CHUNK + payload.len();
            let (at, bytes) = if head.kind == REPLY_TYPE_OFFSET_DATA {
                (u64::from_be_bytes(payload[..8].try_into().unwrap()), payload[8..].to_vec())
            } else {
                match part(head.kind, &payload).unwrap() {
                    Part::Hole(at, len) => (at, vec![0; len as usize]),
                    other => panic!("{other:?}"),
                }
            };
            let at = (at - offset) as usize;
            data[at..at + bytes.len()].copy_from_slice(&bytes);
            covered += bytes.len();
            if head.last {
                assert_eq!(covered, data.len(), "each byte is reported once");
                return (data, received);
            }
        }
    }
}

/// Serves `device` to `client`, on both kinds of reactor.
fn served(device: impl Fn() -> Rc<dyn BlockDevice>, client: impl Fn(&Path) + Clone + Send + 'static) {
    for kind in [Kind::Uring, Kind::Threads] {
        let Ok((reactor, _)) = Reactor::start(Some(kind)) else {
            eprintln!("skipped: no {kind} here");
            continue;
        };
        let (reactor, runtime) = (Rc::new(reactor), Runtime::new(1));
        let workers = reactor.clone();
        runtime.offload_to(Rc::new(move |work| workers.offload(work)));
        let (device, client) = (device(), client.clone());
        let served = async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let server = Server::new(&reactor, CLIENTS, |line| eprintln!("{line}"));
            let export = Export::new("device", "", &ByteAdapter::new(device), false);
            let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
            server.listen(listener, vec![export], None);
            offload(move || client(&path), |()| Nanos::ZERO).await;
            server.stop().await;
        };
        runtime.run_live(served, &*reactor).unwrap();
    }
}

#[test]
fn a_read_asks_for_no_holes_and_sends_no_zeroes() {
    const KIB: usize = 1 << 10;
    let mut bytes = vec![0; 1024 * KIB];
    for (at, byte) in bytes[64 * KIB..160 * KIB].iter_mut().enumerate() {
        *byte = (at % 251) as u8;
    }
    let model = bytes.clone();
    let device = move || {
        let memory = MemoryComponent::new(2048).unwrap();
        let written = memory.write(Extent::new(0, 2048), Buffer::from_vec(bytes.clone()), Hints::default());
        drop(written);
        Rc::new(NoExtentQueries(memory)) as Rc<dyn BlockDevice>
    };
    served(device, move |path| {
        let mut client = Client::connect(path);
        for (at, len, most) in [
            (64, 64, 64 * KIB + 28),
            (0, 64, 32),
            (512, 512, 32),
            (32, 64, 32 * KIB + 60),
            (128, 64, 32 * KIB + 60),
            (0, 1024, 96 * KIB + 92),
        ] {
            let (read, received) = client.read((at * KIB) as u64, (len * KIB) as u32);
            assert!(read == model[at * KIB..(at + len) * KIB], "{at} KiB");
            assert!(received <= most, "{at} KiB: {received} bytes came, expected at most {most}");
        }
    });
}
