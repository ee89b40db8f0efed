//! What a request costs the server, ours beside others: `make bench`, or with the program's path as argument.
//!
//! Servers serve 64 MiB, of memory or of a file in memory, over a unix socket to one client that keeps so many requests
//! in flight, on the same CPU if it is started with `taskset -c 0`. They take turns; medians of the rounds are told. The
//! CPU time is that of all of a server's threads, as the kernel's scheduler counts it.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seekless_serve::nbd;

mod client;

const ROUNDS: usize = 5;
const BYTES: u64 = 64 << 20;

/// What is asked: the command, bytes a request, requests in flight, and requests in all.
const LOADS: [(&str, nbd::Command, u32, usize, usize); 5] = [
    ("read 4 KiB, depth 1", nbd::Command::Read, 4096, 1, 15_000),
    ("read 4 KiB, depth 32", nbd::Command::Read, 4096, 32, 50_000),
    ("write 4 KiB, depth 1", nbd::Command::Write, 4096, 1, 15_000),
    ("write 4 KiB, depth 32", nbd::Command::Write, 4096, 32, 50_000),
    ("read 128 KiB, depth 8", nbd::Command::Read, 128 << 10, 8, 3_000),
];

/// A server under measurement.
struct Contender {
    name: &'static str,
    child: Child,
    socket: PathBuf,
    export: &'static str,
    /// The medians are of these: seconds, and CPU seconds, for each load.
    seen: Vec<Vec<(f64, f64)>>,
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).map(PathBuf::from);
    let beside =
        std::env::current_exe()?.parent().and_then(Path::parent).map(|folder| folder.join("seekless"));
    let program = program.or(beside).ok_or("where is the program?")?;
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let folder = folder.path();
    let mut contenders = ours(&program, folder)?;
    contenders.extend(others(folder)?);
    for _ in 0..ROUNDS {
        for (number, load) in LOADS.iter().enumerate() {
            for contender in &mut contenders {
                let seen = measure(contender, load)?;
                contender.seen[number].push(seen);
            }
        }
    }
    for (number, (name, _, _, _, requests)) in LOADS.iter().enumerate() {
        println!("{name}:");
        for contender in &contenders {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = contender.seen[number].iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let (time, cpu) = (median(|seen| seen.0), median(|seen| seen.1));
            let requests = *requests as f64;
            println!(
                "  {:<26} {:>8.0} requests/s  {:>6.2} us of the server's CPU a request",
                contender.name,
                requests / time,
                cpu * 1e6 / requests
            );
        }
    }
    Ok(())
}

fn contender(
    name: &'static str,
    export: &'static str,
    socket: &Path,
    command: &mut Command,
) -> Result<Contender, Box<dyn Error>> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let seen = vec![Vec::new(); LOADS.len()];
    let contender = Contender { name, child, socket: socket.to_owned(), export, seen };
    let began = now();
    while UnixStream::connect(socket).is_err() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("{name} does not listen").into());
        }
        pause();
    }
    Ok(contender)
}

#[allow(clippy::disallowed_methods)] // a program that measures other programs
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

fn ours(program: &Path, folder: &Path) -> Result<Vec<Contender>, Box<dyn Error>> {
    let mut all = Vec::new();
    let component = [
        ("seekless, memory", "m", "[component.m]\nram = \"64MiB\"\n"),
        (
            "seekless, mapper on memory",
            "mapper",
            "[component.m]\nram = \"80MiB\"\n[layer.mapper]\nover = \"m\"\nsize = \"64MiB\"\n",
        ),
        ("seekless, file", "m", "[component.m]\nfile = \"ours.img\"\n"),
        ("seekless, file, cached", "m", "[component.m]\nfile = \"ours2.img\"\ncached = true\n"),
    ];
    for file in ["ours.img", "ours2.img"] {
        std::fs::File::create(folder.join(file))?.set_len(BYTES)?;
    }
    for (number, (name, top, text)) in component.into_iter().enumerate() {
        let (socket, file) = (folder.join(format!("{number}.sock")), folder.join(format!("{number}.toml")));
        std::fs::write(
            &file,
            format!("{text}[[export]]\ntop = \"{top}\"\nnbd = \"unix:{}\"\n", socket.display()),
        )?;
        all.push(contender(name, top, &socket, Command::new(program).args(["volume", "serve"]).arg(file))?);
    }
    Ok(all)
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

/// Seconds, and CPU seconds of the server, for a load.
fn measure(
    contender: &Contender,
    load: &(&str, nbd::Command, u32, usize, usize),
) -> Result<(f64, f64), Box<dyn Error>> {
    let (_, command, bytes, depth, requests) = *load;
    let mut socket = UnixStream::connect(&contender.socket)?;
    client::agree(&mut socket, contender.export)?;
    let (data, mut state) = (vec![7; bytes as usize], 1_u64);
    let mut request = |out: &mut Vec<u8>| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (state >> 33) % (BYTES / u64::from(bytes)) * u64::from(bytes);
        client::request(out, command, state, offset, &data);
    };
    let reply = 16 + if command == nbd::Command::Read { bytes as usize } else { 0 };
    let (mut out, mut input) = (Vec::new(), vec![0; (reply * depth).max(1 << 16)]);
    let (began, cpu) = (now(), cpu_seconds(contender.child.id())?);
    let (mut sent, mut done, mut got) = (0, 0, 0);
    while done < requests {
        out.clear();
        while sent < requests && sent - done < depth {
            request(&mut out);
            sent += 1;
        }
        socket.write_all(&out)?;
        got += socket.read(&mut input[got..])?;
        done += got / reply;
        // Whole replies are passed over, the rest of one is kept.
        input.copy_within(got / reply * reply..got, 0);
        got %= reply;
    }
    Ok(((now() - began).as_secs_f64(), cpu_seconds(contender.child.id())? - cpu))
}

#[allow(clippy::disallowed_methods)] // a program that measures other programs
fn now() -> Instant {
    Instant::now()
}

/// Of all threads of a process.
fn cpu_seconds(process: u32) -> Result<f64, Box<dyn Error>> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split(' ').next().unwrap_or("0").parse::<f64>()? / 1e9;
    }
    Ok(sum)
}
