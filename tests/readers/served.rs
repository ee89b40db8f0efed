//! The volume whose inputs are fuzzed: a file with the server on it, until it is stopped. It is run once for a seed,
//! and replayed for each input.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use seekless_core::Top;
use seekless_core::runtime::Runtime;
use seekless_serve::component::{FileComponent, FileProbe, Opened};
use seekless_serve::nbd::client::go;
use seekless_serve::reactor::inputs::Recorder;
use seekless_serve::reactor::{Job, Kind, Memory, Op, Reactor};
use seekless_serve::server::{Address, ByteAdapter, CLIENTS, Export, Listener, Server};

const SECTORS: u64 = 64;

/// The properties of the file in a replay.
pub fn facts() -> FileProbe {
    FileProbe {
        path: "file".into(),
        sectors: SECTORS,
        logical_bytes: 512,
        direct: false,
        read_only: false,
        physical_bytes: 4096,
        rotational: false,
    }
}

/// A file of inputs with these records: version, a text, and one frame.
pub fn framed(records: &[u8]) -> Vec<u8> {
    let mut file = b"SEEKLESS INPUTS\x02".to_vec();
    for payload in [&b"a text"[..], records] {
        file.extend((payload.len() as u32).to_le_bytes());
        file.extend(crc32c::crc32c(payload).to_le_bytes());
        file.extend(payload);
    }
    file
}

/// Serves the file until `stop` can be received from.
pub async fn serve(reactor: &Rc<Reactor>, opened: Opened, listener: Listener, stop: Arc<OwnedFd>) {
    let file = FileComponent::new(reactor, "file", opened);
    let device = ByteAdapter::new(Rc::new(Top::new(Rc::new(file))));
    let server = Server::new(reactor, CLIENTS, |_| {});
    server.listen(listener, vec![Export::new("", "", &device, false)], None);
    let _ = reactor.submit(Job::new(Op::Receive, &stop, Memory::of(vec![0]))).await;
    server.stop().await;
}

/// The inputs of a run with a client that writes, flushes, reads and trims; `folder` has room for its files.
pub fn recorded(folder: &Path) -> std::io::Result<Vec<u8>> {
    let [file, socket, inputs] = ["file", "socket", "inputs"].map(|name| folder.join(name));
    std::fs::File::create(&file)?.set_len(SECTORS * 512)?;
    let (reactor, _) = Reactor::start(Some(Kind::Threads))?;
    let recorder = Recorder::create(&inputs, "a text", |why| panic!("{why}"))?;
    let (reactor, runtime) = (Rc::new(reactor.recorded(recorder)), Runtime::new(1));
    let opened = Opened::open(&file, true, false).map_err(std::io::Error::other)?;
    let listener = Listener::bind(&Address::Unix(socket.clone())).map_err(std::io::Error::other)?;
    let (stop, stops) = UnixStream::pair()?;
    #[allow(clippy::disallowed_methods)] // a client beside the server
    let client = std::thread::spawn(move || {
        let asked = ask(&socket);
        drop(stops);
        asked
    });
    let served = serve(&reactor, opened, listener, Arc::new(stop.into()));
    runtime.run_live(served, &*reactor).map_err(std::io::Error::other)?;
    reactor.end(runtime.event_hash());
    client.join().expect("a client that ends")?;
    std::fs::read(inputs)
}

fn ask(socket: &Path) -> std::io::Result<()> {
    let mut socket = UnixStream::connect(socket)?;
    socket.write_all(&go(""))?;
    for (command, payload) in [(1, &[7; 512][..]), (3, &[]), (0, &[]), (4, &[]), (6, &[]), (2, &[])] {
        socket.write_all(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, command])?;
        socket.write_all(&[0; 18])?;
        socket.write_all(&[2, 0])?;
        socket.write_all(payload)?;
    }
    socket.read_to_end(&mut Vec::new())?;
    Ok(())
}
