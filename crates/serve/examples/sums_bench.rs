//! What BORG with a full map costs a request, and what checking its checksums costs a read: `make bench`, or with the
//! program's path as argument.
//!
//! Three servers of one volume in memory. One has no layer. In the others all pages are in BORG's write buffer: one has
//! the checksums of what it absorbed, and checks each page that it reads; in the other, each page was overwritten in
//! place since, which gives its checksum up; nothing is checked there, and all else is the same. They take turns;
//! medians of the rounds are printed.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use seekless_serve::nbd;

mod client;
mod contest;
mod own;

use contest::{Contender, Load, contest, program, served};

const ROUNDS: usize = 9;
const BYTES: u64 = 64 << 20;

/// Name, command, bytes of a request, requests in flight, requests in all.
const LOADS: [(&str, nbd::Command, u32, usize, usize); 6] = [
    ("read 4 KiB, depth 1", nbd::Command::Read, 4096, 1, 15_000),
    ("read 4 KiB, depth 32", nbd::Command::Read, 4096, 32, 50_000),
    ("read 64 KiB, depth 8", nbd::Command::Read, 64 << 10, 8, 6_000),
    ("read 128 KiB, depth 8", nbd::Command::Read, 128 << 10, 8, 3_000),
    ("write 4 KiB, depth 1", nbd::Command::Write, 4096, 1, 15_000),
    ("write 4 KiB, depth 32", nbd::Command::Write, 4096, 32, 50_000),
];

fn main() -> Result<(), Box<dyn Error>> {
    let program = program()?;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let memory = "[component.m]\nram = \"64MiB\"\n";
    let borg = |overwrite| {
        format!(
            "{memory}[component.b]\nram = \"128MiB\"\n\
             [layer.borg]\nover = \"m\"\nbopt = \"b\"\nwrite_buffer = 0.9\noverwrite = \"{overwrite}\"\n\
             drain_below = 0.0\nidle_after = \"0s\"\ndirty_max_age = \"0s\"\n"
        )
    };
    let mut contenders = [
        served(&program, folder.path(), ("memory", "m", memory))?,
        served(&program, folder.path(), ("BORG, checked", "borg", &borg("logged")))?,
        served(&program, folder.path(), ("BORG, without checksums", "borg", &borg("in-place")))?,
    ];
    for (contender, passes) in contenders.iter().zip([1, 1, 2]) {
        for _ in 0..passes {
            fill(contender, BYTES)?;
        }
    }
    let loads = LOADS.map(|(name, command, bytes, depth, requests)| Load {
        name,
        command,
        bytes,
        depth,
        requests,
        within: BYTES,
        structured: false,
    });
    contest(own::measure, &mut contenders, &loads, ROUNDS)
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
