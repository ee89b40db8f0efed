//! `seekless volume serve`: builds the volumes of files and serves their exports by NBD, and to virtual machines.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueEnum};
use seekless_serve::mounted;
use seekless_serve::reactor::Kind;
use seekless_volume::live::{Level, Program, Request, serve_volumes};

use crate::log;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume serve home.toml
  seekless volume serve home.toml mail.toml        each in a thread of its own
  seekless volume serve home.toml --io threads
  seekless volume serve home.toml --log-inputs home.inputs

A volume file that serves a file, without layers:
  [component.disk]
  file = \"disk.img\"

  [[export]]
  top = \"disk\"
  nbd = \"unix:/tmp/disk.sock\"

Then:
  qemu-img info 'nbd+unix:///disk?socket=/tmp/disk.sock'";

/// Arguments of `volume serve`.
#[derive(Args)]
pub struct Arguments {
    /// Volume files; several are served by a thread each
    #[arg(value_name = "VOLUME.toml", required = true)]
    volumes: Vec<PathBuf>,
    /// I/O backend [default: `io_uring` where the kernel allows it, otherwise threads]
    #[arg(long, value_name = "HOW")]
    io: Option<Io>,
    /// Allow unencrypted TCP to be reachable from other machines
    #[arg(long)]
    allow_plain_tcp: bool,
    /// Record all inputs in this file, for seekless lab replay; it contains the data, too
    #[arg(long, value_name = "FILE")]
    log_inputs: Option<PathBuf>,
    /// For a volume that this machine mounts: be an I/O flusher, lock memory, be spared by the OOM killer
    #[arg(long)]
    mounted: bool,
    /// Messages on stderr: alone, with time and level, or with a level for the systemd journal [default: as stderr is a
    /// terminal, a file or pipe, or the journal]
    #[arg(long, value_name = "FORMAT")]
    log: Option<log::Format>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Io {
    #[value(name = "io_uring")]
    Uring,
    Threads,
}

/// This program, as a server's environment.
pub const PROGRAM: Program = Program { print: log::log, abort: || std::process::exit(1) };

/// Serves until a signal to stop arrives.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    log::choose(arguments.log);
    if arguments.mounted {
        // Before there are threads.
        for missing in mounted::protect() {
            log::log(Level::Warning, &missing);
        }
    }
    let io = arguments.io.map(|io| match io {
        Io::Uring => Kind::Uring,
        Io::Threads => Kind::Threads,
    });
    let request = |volume| Request {
        volume,
        io,
        allow_plain_tcp: arguments.allow_plain_tcp,
        log_inputs: arguments.log_inputs.as_deref(),
    };
    let requests: Vec<Request<'_>> = arguments.volumes.iter().map(|volume| request(volume)).collect();
    if requests.len() > 1 && arguments.log_inputs.is_some() {
        bail!("--log-inputs: found {} volumes, expected one: each needs a file of its own", requests.len());
    }
    Ok(serve_volumes(&requests, PROGRAM)?)
}
