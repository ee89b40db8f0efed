//! Large reads of dense files, compared with nbdkit's file plug-in: `make bench`, or with the program's path as
//! argument.
//!
//! A file of 512 MiB on tmpfs, on ext4, and on XFS in some 40,000 extents, each read at random by one client with eight
//! requests of 128 KiB in flight, and structured replies. Servers take turns; each reads with direct I/O, and through
//! the page cache, which holds the file from the second round on. The last two file systems need loop devices and mkfs,
//! and are skipped with a message where there are none.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::copy_file_range;
use seekless_serve::nbd;

mod client;
mod contest;
mod own;

use contest::{Contender, Load, contender, contest, program, served};

const ROUNDS: usize = 5;
const BYTES: u64 = 512 << 20;
/// Bytes of an extent of the fragmented file.
const PIECE: u64 = 12 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let program = program()?;
    let folder = tempfile::tempdir()?;
    let memory = tempfile::tempdir_in("/dev/shm")?;
    let data = memory.path().join("disk.img");
    dense(&data)?;
    measure("tmpfs", &program, &folder.path().join("tmpfs"), &data)?;
    for (kind, make) in [("ext4", ["mkfs.ext4", "-q"]), ("xfs", ["mkfs.xfs", "-q"])] {
        let mounted = match Mounted::new(&folder.path().join(kind), &make) {
            Ok(mounted) => mounted,
            Err(why) => {
                eprintln!("skipped: {kind}: {why}");
                continue;
            }
        };
        let mut data = mounted.at.join("disk.img");
        dense(&data)?;
        if kind == "xfs" {
            data = scattered(&data)?;
        }
        measure(kind, &program, &folder.path().join(format!("{kind}-servers")), &data)?;
    }
    Ok(())
}

/// Measures contenders over one file, which they only read.
fn measure(kind: &str, program: &Path, folder: &Path, data: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir(folder)?;
    let mut contenders = Vec::new();
    for (name, options) in [("seekless", ""), ("seekless, cached", "cached = true\n")] {
        let file = data.display();
        let volume = format!("[component.m]\nfile = \"{file}\"\nread_only = true\n{options}");
        contenders.push(served(program, folder, (name, "m", &volume))?);
    }
    for (name, cache) in [("nbdkit, file, cache=none", "none"), ("nbdkit, file", "default")] {
        match theirs(name, cache, folder, data) {
            Ok(nbdkit) => contenders.push(nbdkit),
            Err(error) => eprintln!("skipped: {name}: {error}"),
        }
    }
    let load = Load {
        name: "read 128 KiB, depth 8",
        command: nbd::Command::Read,
        bytes: 128 << 10,
        depth: 8,
        requests: 2_000,
        within: BYTES,
        structured: true,
    };
    print!("{kind}, ");
    contest(own::measure, &mut contenders, &[load], ROUNDS)
}

fn theirs(name: &'static str, cache: &str, folder: &Path, data: &Path) -> Result<Contender, Box<dyn Error>> {
    let socket = folder.join(format!("nbdkit-{cache}.sock"));
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-r", "-U"]).arg(&socket).arg("file").arg(data).arg(format!("cache={cache}"));
    contender(name, "", &socket, &mut command)
}

/// A file without holes or zeroes.
fn dense(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = File::create(path)?;
    let piece: Vec<u8> = (0..1_u32 << 20).map(|at| (at % 251) as u8 + 1).collect();
    for _ in 0..BYTES >> 20 {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    Ok(())
}

/// A file of the same pieces in another order, sharing their blocks with the first: each is an extent.
fn scattered(path: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let other = path.with_extension("scattered");
    let (from, to) = (File::open(path)?, File::create(&other)?);
    to.set_len(BYTES)?;
    let pieces = BYTES / PIECE;
    for piece in 0..pieces {
        // 7,919 is a prime that does not divide the number of pieces.
        let (mut source, mut target) = (piece * 7_919 % pieces * PIECE, piece * PIECE);
        let copied = copy_file_range(&from, Some(&mut source), &to, Some(&mut target), PIECE as usize)?;
        if copied != PIECE as usize {
            return Err(format!("{copied} bytes of a piece were copied").into());
        }
    }
    // The remainder, which is no whole piece.
    let (mut source, mut target) = (pieces * PIECE, pieces * PIECE);
    copy_file_range(&from, Some(&mut source), &to, Some(&mut target), (BYTES - pieces * PIECE) as usize)?;
    to.sync_all()?;
    Ok(other)
}

/// A file system in a file; removed when dropped.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn new(folder: &Path, make: &[&str]) -> Result<Mounted, Box<dyn Error>> {
        std::fs::create_dir(folder)?;
        let (image, at) = (folder.join("image"), folder.join("mounted"));
        std::fs::create_dir(&at)?;
        File::create(&image)?.set_len(2 << 30)?;
        ran(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        ran(Command::new("mount").args(["-o", "loop"]).args([&image, &at]))?;
        Ok(Mounted { at })
    }
}

fn ran(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}
