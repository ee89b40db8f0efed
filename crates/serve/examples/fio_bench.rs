//! The cost of a request in the server, by fio's client for NBD, compared with nbdkit: `make bench`, or with the
//! program's path as argument. Both ends are on one CPU if started with `taskset -c 0`; servers take turns, and medians
//! are printed.

use std::error::Error;
use std::process::Command;

use seekless_serve::nbd;

mod contest;

use contest::{Contender, Load, contender, contest, program, served};

const ROUNDS: usize = 5;
const BYTES: u64 = 64 << 20;
/// Ticks of a second in which Linux reports the CPU time of a process.
const TICKS: f64 = 100.0;

/// Name, command, bytes of a request, requests in flight, requests in all.
const LOADS: [(&str, nbd::Command, u32, usize, usize); 5] = [
    ("fio, read 4 KiB, depth 1", nbd::Command::Read, 4096, 1, 100_000),
    ("fio, read 4 KiB, depth 32", nbd::Command::Read, 4096, 32, 200_000),
    ("fio, write 4 KiB, depth 1", nbd::Command::Write, 4096, 1, 100_000),
    ("fio, write 4 KiB, depth 32", nbd::Command::Write, 4096, 32, 200_000),
    ("fio, read 128 KiB, depth 8", nbd::Command::Read, 128 << 10, 8, 20_000),
];

fn main() -> Result<(), Box<dyn Error>> {
    let engines = Command::new("fio").arg("--enghelp").output();
    let has_nbd = engines.is_ok_and(|all| String::from_utf8_lossy(&all.stdout).contains("nbd"));
    if !has_nbd {
        eprintln!("skipped: fio, or its client for NBD, is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let memory = "[component.m]\nram = \"64MiB\"\n";
    let mut contenders = vec![served(&program()?, folder.path(), ("seekless, memory", "m", memory))?];
    let socket = folder.path().join("k.sock");
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.arg("-f").arg("-U").arg(&socket).args(["memory", "64M"]);
    match contender("nbdkit, memory", "", &socket, &mut nbdkit) {
        Ok(nbdkit) => contenders.push(nbdkit),
        Err(error) => eprintln!("without nbdkit: {error}"),
    }
    let loads = LOADS.map(|(name, command, bytes, depth, requests)| Load {
        name,
        command,
        bytes,
        depth,
        requests,
        within: BYTES,
        structured: true,
    });
    contest(by_fio, &mut contenders, &loads, ROUNDS)
}

/// CPU seconds of a process, those of threads that have ended included, in ticks of the kernel.
fn cpu_seconds(process: u32) -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// Seconds, and CPU seconds of the server, for a load.
fn by_fio(contender: &Contender, load: &Load) -> Result<(f64, f64), Box<dyn Error>> {
    if !load.structured {
        return Err("fio's client asks for structured replies".into());
    }
    let reads = load.command == nbd::Command::Read;
    let process = contender.child.id();
    let before = cpu_seconds(process)?;
    let output = Command::new("fio")
        .args(["--name=load", "--ioengine=nbd", "--norandommap", "--output-format=terse"])
        .arg(format!("--uri=nbd+unix:///{}?socket={}", contender.export, contender.socket.display()))
        .arg(if reads { "--rw=randread" } else { "--rw=randwrite" })
        .arg(format!("--bs={}", load.bytes))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--size={}", load.within))
        .arg(format!("--io_size={}", load.requests as u64 * u64::from(load.bytes)))
        .output()?;
    let cpu = cpu_seconds(process)? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    // Fields of the terse format, version 3: milliseconds of reads, and of writes.
    let field = if reads { 8 } else { 49 };
    let line = text.lines().find(|line| line.starts_with("3;"));
    let took = line.and_then(|line| line.split(';').nth(field)?.parse::<f64>().ok());
    let took = took
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("fio: {} {}", text.trim(), String::from_utf8_lossy(&output.stderr).trim()))?;
    Ok((took / 1e3, cpu))
}
