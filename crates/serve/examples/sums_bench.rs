//! What checking BORG's checksums costs a read: `make bench`, or with the program's path as argument.
//!
//! Two servers of one volume in memory, all of whose pages are in BORG's write buffer. One has the checksums of what it
//! absorbed, and checks each page that it reads. In the other, each page was overwritten in place since, which gives its
//! checksum up; nothing is checked there, and all else is the same. They take turns; medians of the rounds are printed.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use seekless_serve::nbd;

mod client;
mod contest;

use contest::{Contender, Load, contender, contest, program};

const ROUNDS: usize = 9;
const BYTES: u64 = 64 << 20;

/// Name, bytes of a request, requests in flight, requests in all.
const LOADS: [(&str, u32, usize, usize); 4] = [
    ("read 4 KiB, depth 1", 4096, 1, 15_000),
    ("read 4 KiB, depth 32", 4096, 32, 50_000),
    ("read 64 KiB, depth 8", 64 << 10, 8, 6_000),
    ("read 128 KiB, depth 8", 128 << 10, 8, 3_000),
];

fn main() -> Result<(), Box<dyn Error>> {
    let program = program()?;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let mut contenders = [
        served(&program, folder.path(), "BORG, checked", "logged")?,
        served(&program, folder.path(), "BORG, without checksums", "in-place")?,
    ];
    for (contender, passes) in contenders.iter().zip([1, 2]) {
        for _ in 0..passes {
            fill(contender, BYTES)?;
        }
    }
    let loads = LOADS.map(|(name, bytes, depth, requests)| Load {
        name,
        command: nbd::Command::Read,
        bytes,
        depth,
        requests,
        within: BYTES,
        structured: false,
    });
    contest(&mut contenders, &loads, ROUNDS)
}

fn served(
    program: &Path,
    folder: &Path,
    name: &'static str,
    overwrite: &str,
) -> Result<Contender, Box<dyn Error>> {
    let (socket, file) = (folder.join(format!("{overwrite}.sock")), folder.join(format!("{overwrite}.toml")));
    let text = format!(
        "[component.m]\nram = \"64MiB\"\n[component.b]\nram = \"128MiB\"\n\
         [layer.borg]\nover = \"m\"\nbopt = \"b\"\nwrite_buffer = 0.9\noverwrite = \"{overwrite}\"\n\
         drain_below = 0.0\nidle_after = \"0s\"\ndirty_max_age = \"0s\"\n\
         [[export]]\ntop = \"borg\"\nnbd = \"unix:{}\"\n",
        socket.display()
    );
    std::fs::write(&file, text)?;
    contender(name, "borg", &socket, Command::new(program).args(["volume", "serve"]).arg(file))
}

/// Writes an export from its beginning, with bytes that are not zeroes, and flushes it.
fn fill(contender: &Contender, bytes: u64) -> Result<(), Box<dyn Error>> {
    const PIECE: u64 = 256 << 10;
    let mut socket = UnixStream::connect(&contender.socket)?;
    client::agree(&mut socket, contender.export, false)?;
    let data = vec![7; PIECE as usize];
    let mut answered = |out: &[u8]| -> Result<(), Box<dyn Error>> {
        socket.write_all(out)?;
        let mut reply = [0; 16];
        socket.read_exact(&mut reply)?;
        if reply[4..8] == [0; 4] { Ok(()) } else { Err("a request to fill the export failed".into()) }
    };
    let mut out = Vec::new();
    for at in (0..bytes).step_by(PIECE as usize) {
        out.clear();
        client::request(&mut out, nbd::Command::Write, at, at, &data);
        answered(&out)?;
    }
    out.clear();
    client::request(&mut out, nbd::Command::Flush, 0, 0, &[]);
    answered(&out)
}
