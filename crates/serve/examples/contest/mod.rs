//! A benchmark of several servers, for the examples that compare them: contenders, and a load on one of them.

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seekless_serve::nbd;

/// A load.
pub struct Load {
    pub name: &'static str,
    pub command: nbd::Command,
    /// Bytes of a request.
    pub bytes: u32,
    /// Requests in flight.
    pub depth: usize,
    /// Requests in all.
    pub requests: usize,
    /// Bytes of the export, from its beginning, that requests are within.
    pub within: u64,
    /// Whether replies are structured, as for nearly all clients.
    pub structured: bool,
}

/// A server under measurement.
pub struct Contender {
    pub name: &'static str,
    pub child: Child,
    pub socket: PathBuf,
    pub export: &'static str,
    /// Seconds and CPU seconds of each round, per load; medians are printed.
    pub seen: Vec<Vec<(f64, f64)>>,
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server, and waits until it listens.
pub fn contender(
    name: &'static str,
    export: &'static str,
    socket: &Path,
    command: &mut Command,
) -> Result<Contender, Box<dyn Error>> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let contender = Contender { name, child, socket: socket.to_owned(), export, seen: Vec::new() };
    let began = now();
    while UnixStream::connect(socket).is_err() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err(format!("{name} does not listen").into());
        }
        pause();
    }
    Ok(contender)
}

/// Serves a volume by `program`: its name, which names its files too, its top, and the text of its file without
/// exports.
pub fn served(
    program: &Path,
    folder: &Path,
    (name, top, volume): (&'static str, &'static str, &str),
) -> Result<Contender, Box<dyn Error>> {
    let file = |ending| folder.join(name.replace([',', ' '], "")).with_extension(ending);
    let (socket, path) = (file("sock"), file("toml"));
    let export = format!("[[export]]\ntop = \"{top}\"\nnbd = \"unix:{}\"\n", socket.display());
    std::fs::write(&path, format!("{volume}{export}"))?;
    contender(name, top, &socket, Command::new(program).args(["volume", "serve"]).arg(path))
}

#[allow(clippy::disallowed_methods)] // a program that measures other programs
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// The program to measure: the first argument, or the one built along with this example.
pub fn program() -> Result<PathBuf, Box<dyn Error>> {
    let beside =
        std::env::current_exe()?.parent().and_then(Path::parent).map(|folder| folder.join("seekless"));
    std::env::args().nth(1).map(PathBuf::from).or(beside).ok_or_else(|| "where is the program?".into())
}

/// Seconds, and CPU seconds of the server, for a load.
pub type Measure = fn(&Contender, &Load) -> Result<(f64, f64), Box<dyn Error>>;

/// Runs the contenders in turn at each load, and prints the medians of the rounds.
pub fn contest(
    measure: Measure,
    contenders: &mut [Contender],
    loads: &[Load],
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    for contender in &mut *contenders {
        contender.seen = vec![Vec::new(); loads.len()];
    }
    for _ in 0..rounds {
        for (number, load) in loads.iter().enumerate() {
            for contender in &mut *contenders {
                let seen = measure(contender, load)?;
                contender.seen[number].push(seen);
            }
        }
    }
    for (number, load) in loads.iter().enumerate() {
        println!("{}:", load.name);
        for contender in &*contenders {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = contender.seen[number].iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                all[all.len() / 2]
            };
            let (time, cpu) = (median(|seen| seen.0), median(|seen| seen.1));
            let requests = load.requests as f64;
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

#[allow(clippy::disallowed_methods)] // a program that measures other programs
pub fn now() -> Instant {
    Instant::now()
}
