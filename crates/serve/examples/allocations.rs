//! Allocations per request in the server, with nothing below its top, and with layers: part of `make bench`.
//!
//! The server and its volume run in this thread, where allocations are counted; its client runs in another one. The
//! cost of the start cancels out between two runs of different length.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, Extent, Slice, Top};
use seekless_layers::Mapper;
use seekless_layers::mapper::Options;
use seekless_serve::component::MemoryComponent;
use seekless_serve::nbd::Command;
use seekless_serve::reactor::{Job, Memory, Op, Reactor};
use seekless_serve::server::{Address, ByteAdapter, CLIENTS, Export, Listener, Server};

mod client;

const PAGES: u64 = 4_096;
const DEPTH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    println!("4 KiB requests, {DEPTH} in flight: allocations each");
    println!("{:<26} {:>8} {:>8}", "", "read", "write");
    for (name, layers) in [("memory", 0), ("a slice of memory", 1), ("a mapper over memory", 2)] {
        let mut each = [0.0; 2];
        for (command, each) in [Command::Read, Command::Write].into_iter().zip(&mut each) {
            let count = |rounds| -> Result<f64, Box<dyn Error>> {
                let mut served = Ok(());
                let seen = allocation_counter::measure(|| served = serve(layers, command, rounds));
                served.map(|()| seen.count_total as f64)
            };
            *each = (count(600)? - count(200)?) / (400 * DEPTH) as f64;
        }
        println!("{name:<26} {:>8.2} {:>8.2}", each[0], each[1]);
    }
    Ok(())
}

/// Serves a client that sends `rounds` rounds of requests.
fn serve(layers: u32, command: Command, rounds: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("socket");
    let (reactor, _) = Reactor::start(None)?;
    let reactor = Rc::new(reactor);
    let listener = Listener::bind(&Address::Unix(path.clone()))?;
    let (over, client) = UnixStream::pair()?;
    #[allow(clippy::disallowed_methods)] // a client is another program
    let client = std::thread::spawn(move || {
        let asked = ask(&path, command, rounds).map_err(|error| error.to_string());
        drop(client);
        asked
    });
    Runtime::new(1).run_live(
        async {
            let memory = MemoryComponent::new(PAGES * 8 * 18 / 17).ok_or("too little memory")?;
            let memory: Rc<dyn BlockDevice> = Rc::new(memory);
            let device: Rc<dyn BlockDevice> = match layers {
                0 => memory,
                1 => Rc::new(Slice::new(memory, Extent::new(0, PAGES * 8)).ok_or("it is larger")?),
                _ => Mapper::open(memory, &Options::of_pages(PAGES), true).await?,
            };
            let server = Server::new(&reactor, CLIENTS, |_| {});
            let device = ByteAdapter::new(Rc::new(Top::new(device)));
            server.listen(listener, vec![Export::new("", "", &device, false)], None);
            let over = Arc::new(over.into());
            reactor.submit(Job::new(Op::Receive, &over, Memory::of(vec![0]))).await.result?;
            server.stop().await;
            Ok::<(), Box<dyn Error>>(())
        },
        &*reactor,
    )??;
    Ok(client.join().map_err(|_| "the client panicked")??)
}

/// A client: it writes every page, then sends one whole round of requests after the other.
fn ask(path: &Path, command: Command, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut socket = UnixStream::connect(path)?;
    client::agree(&mut socket, "", false)?;
    let page = |number: usize| (number as u64).wrapping_mul(0x9E37_79B9) % PAGES;
    for first in (0..PAGES as usize).step_by(DEPTH) {
        round(&mut socket, Command::Write, (first..first + DEPTH).map(|number| number as u64))?;
    }
    for first in (0..rounds * DEPTH).step_by(DEPTH) {
        round(&mut socket, command, (first..first + DEPTH).map(page))?;
    }
    Ok(())
}

/// Sends requests for these pages together, and receives all replies.
fn round(
    socket: &mut UnixStream,
    command: Command,
    pages: impl Iterator<Item = u64>,
) -> Result<(), Box<dyn Error>> {
    let mut out = Vec::new();
    for page in pages {
        client::request(&mut out, command, page, page << 12, &[7; 4096]);
    }
    socket.write_all(&out)?;
    socket.read_exact(&mut vec![0; DEPTH * if command == Command::Read { 16 + 4096 } else { 16 }])?;
    Ok(())
}
