//! A server under test: the program itself, in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Kinds of reactors; every test runs on both.
pub const KINDS: [&str; 2] = ["io_uring", "threads"];

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    /// Its output while it started.
    begin: Vec<String>,
    /// Folder of its volume file, its sockets and its components.
    pub folder: PathBuf,
}

/// The volume file of tests: `exports` are added to it.
pub fn volume(folder: &Path, components: &str, exports: &[(&str, &str)]) {
    let mut text = components.to_owned();
    let socket = folder.join("socket");
    for (top, more) in exports {
        let export = format!("[[export]]\ntop = \"{top}\"\nnbd = \"unix:{}\"\n{more}\n", socket.display());
        text.push_str(&export);
    }
    std::fs::write(folder.join("volume.toml"), text).unwrap();
}

/// `seekless volume create` on the volume file of a folder, the first time, if it has a layer with metadata.
fn create(folder: &Path) {
    let (file, created) = (folder.join("volume.toml"), folder.join("created"));
    let text = std::fs::read_to_string(&file).unwrap();
    let has_metadata = ["bopt = ", "layer.mapper", "layer.lld"].iter().any(|key| text.contains(key));
    if created.exists() || !has_metadata {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", "create"]).arg(file).env("STATE_DIRECTORY", folder.join("state"));
    let done = command.output().unwrap();
    // Otherwise serving is refused, too.
    if done.status.success() {
        std::fs::write(created, "").unwrap();
    } else {
        eprintln!("{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// `seekless volume serve` on the volume file of a folder.
pub fn serve(folder: &Path, kind: &str) -> Command {
    create(folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    command.args(["volume", "serve", "--log", "plain", "--io", kind]).arg(folder.join("volume.toml"));
    command.env("STATE_DIRECTORY", folder.join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

impl Server {
    /// Starts one on the volume file of a folder, and waits until it serves; `None`, with a message, where there is no
    /// `io_uring`.
    pub fn start(folder: &Path, kind: &str) -> Option<Server> {
        Server::start_with(folder, kind, &[])
    }

    /// As above, with more arguments.
    pub fn start_with(folder: &Path, kind: &str, more: &[&str]) -> Option<Server> {
        Server::start_command(serve(folder, kind).args(more), folder, kind)
    }

    /// Starts one with this command.
    pub fn start_command(command: &mut Command, folder: &Path, kind: &str) -> Option<Server> {
        let mut child = command.spawn().unwrap();
        let (send, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        let mut server = Server { child, lines, begin: Vec::new(), folder: folder.to_owned() };
        let first = server.line();
        if first.starts_with("error: io:") && kind == "io_uring" {
            skipped("io_uring", &first);
            return None;
        }
        assert!(first.starts_with(&format!("io: {kind}")), "{first}");
        loop {
            let line = server.line();
            assert!(!line.starts_with("error: "), "{line}");
            if line.starts_with("try: ") {
                break;
            }
            server.begin.push(line);
        }
        Some(server)
    }

    /// Whether a line of its output while it started has these words.
    pub fn began_with(&self, words: &str) -> bool {
        self.begin.iter().any(|line| line.contains(words))
    }

    /// Its next line of output.
    pub fn line(&mut self) -> String {
        self.lines.recv_timeout(Duration::from_secs(30)).expect("the server says something")
    }

    /// The URI of an export.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.folder.join("socket").display())
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it the signal to stop.
    pub fn signal(&self) {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(signalled.success());
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Stops it as a service manager does; its last output.
    pub fn stop(self) -> String {
        self.stop_saying(&[])
    }

    /// As above; its output must contain these words.
    pub fn stop_saying(mut self, words: &[&str]) -> String {
        self.signal();
        let status = self.child.wait().unwrap();
        let last: Vec<String> = self.lines.iter().collect();
        assert!(status.success(), "{status}: {last:?}");
        assert!(!self.folder.join("socket").exists(), "its socket is gone with it");
        for word in words {
            assert!(last.iter().any(|line| line.contains(word)), "no '{word}' in {last:?}");
        }
        last.last().cloned().unwrap_or_default()
    }

    /// Kills it, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints that a test, or a part of it, was skipped, and why.
pub fn skipped(what: &str, why: &str) {
    eprintln!("skipped: {what}: {why}");
}

/// Runs a client's program; `None`, with a message, where it is not installed.
pub fn client(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skipped(program, "it is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// As above, but it has to succeed. Its output on both streams.
pub fn succeeds(program: &str, arguments: &[&str]) -> Option<String> {
    let output = client(program, arguments)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    Some(said)
}
