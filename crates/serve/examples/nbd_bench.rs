//! The cost of a request in the server, compared with others: `make bench`, or with the program's path as argument, and
//! optionally that of an older build of it, which then takes part.
//!
//! Servers serve 64 MiB, of memory or of a file in memory, over a unix socket to one client with a fixed number of
//! requests in flight, on the same CPU if started with `taskset -c 0`. They take turns; medians of the rounds are
//! printed. CPU time is that of all of a server's threads, as the kernel's scheduler counts it.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use seekless_serve::nbd;

mod client;
mod contest;
mod own;

use contest::{Contender, Load, contender, contest, program, served};

const ROUNDS: usize = 5;
const BYTES: u64 = 64 << 20;

/// Name, command, bytes of a request, requests in flight, requests in all.
const LOADS: [(&str, nbd::Command, u32, usize, usize); 5] = [
    ("read 4 KiB, depth 1", nbd::Command::Read, 4096, 1, 15_000),
    ("read 4 KiB, depth 32", nbd::Command::Read, 4096, 32, 50_000),
    ("write 4 KiB, depth 1", nbd::Command::Write, 4096, 1, 15_000),
    ("write 4 KiB, depth 32", nbd::Command::Write, 4096, 32, 50_000),
    ("read 128 KiB, depth 8", nbd::Command::Read, 128 << 10, 8, 3_000),
];

/// Name, top, and text of a volume file.
const COMPONENTS: [(&str, &str, &str); 4] = [
    ("seekless, memory", "m", "[component.m]\nram = \"64MiB\"\n"),
    (
        "seekless, mapper on memory",
        "mapper",
        "[component.m]\nram = \"80MiB\"\n[layer.mapper]\nover = \"m\"\nsize = \"64MiB\"\n",
    ),
    ("seekless, file", "m", "[component.m]\nfile = \"ours.img\"\n"),
    ("seekless, file, cached", "m", "[component.m]\nfile = \"ours2.img\"\ncached = true\n"),
];

/// Names of the older build's volumes: only those in memory, since a file is served once.
const OLDER: [&str; 2] = ["older, memory", "older, mapper on memory"];

fn main() -> Result<(), Box<dyn Error>> {
    let program = program()?;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let folder = folder.path();
    let mut contenders = ours(&program, folder)?;
    if let Some(older) = std::env::args().nth(2) {
        let components = COMPONENTS.iter().zip(OLDER);
        for ((_, top, text), name) in components {
            contenders.push(served(Path::new(&older), folder, (name, top, text))?);
        }
    }
    contenders.extend(others(folder)?);
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

fn ours(program: &Path, folder: &Path) -> Result<Vec<Contender>, Box<dyn Error>> {
    for file in ["ours.img", "ours2.img"] {
        std::fs::File::create(folder.join(file))?.set_len(BYTES)?;
    }
    COMPONENTS.into_iter().map(|volume| served(program, folder, volume)).collect()
}

fn others(folder: &Path) -> Result<Vec<Contender>, Box<dyn Error>> {
    let mut all = Vec::new();
    let image = folder.join("theirs.img");
    std::fs::File::create(&image)?.set_len(BYTES)?;
    let image = image.display();
    let (memory, file, daemon) = (folder.join("k.sock"), folder.join("f.sock"), folder.join("q.sock"));
    let socket = |path: &Path| path.display().to_string();
    let mut commands = [
        ("nbdkit, memory", &memory, Command::new("nbdkit")),
        ("nbdkit, file", &file, Command::new("nbdkit")),
        ("qemu-storage-daemon, file", &daemon, Command::new("qemu-storage-daemon")),
    ];
    commands[0].2.args(["-f", "-U", &socket(&memory), "memory", "64M"]);
    commands[1].2.args(["-f", "-U", &socket(&file), "file", &image.to_string()]);
    commands[2].2.args([
        "--blockdev",
        &format!("driver=file,node-name=d,filename={image}"),
        "--nbd-server",
        &format!("addr.type=unix,addr.path={}", socket(&daemon)),
        "--export",
        "type=nbd,id=e,node-name=d,name=,writable=on",
    ]);
    for (name, path, mut command) in commands {
        match contender(name, "", path, &mut command) {
            Ok(found) => all.push(found),
            Err(error) => eprintln!("without {name}: {error}"),
        }
    }
    Ok(all)
}
