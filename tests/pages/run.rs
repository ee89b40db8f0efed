//! Runs the commands of a page, and compares their output with the page.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::page::{Block, Mark, Page, marked};
use super::root;

/// The result of a page.
#[derive(Default)]
pub struct Outcome {
    /// Commands that ran.
    pub ran: usize,
    /// Commands that were skipped, and why.
    pub skipped: Vec<String>,
    /// Differences from the page.
    pub wrong: Vec<String>,
}

/// A folder to run commands in, with the tested program first in the path, and the recordings that ship.
pub struct Folder {
    folder: tempfile::TempDir,
    server: Option<Server>,
}

/// `seekless volume serve`, until it is stopped.
struct Server {
    child: Child,
    lines: Receiver<String>,
}

/// Output of a command, and whether it succeeded.
pub struct Printed {
    /// Standard output.
    pub out: String,
    /// Standard output, followed by standard error.
    pub all: String,
    /// Whether its exit code was 0.
    pub good: bool,
}

/// Commands that take longer are listed with their time.
const LONG: Duration = Duration::from_secs(3);

/// Ends commands that hang. Not a measure of speed: half a minute alone can be minutes beside other tests.
fn limit() -> &'static str {
    let is_long = |name: &&str| std::env::var_os(name).is_some();
    if ["SEEKLESS_LONG", "SEEKLESS_FIGURES"].iter().any(is_long) { "2h" } else { "10m" }
}

impl Folder {
    /// An empty one.
    pub fn new() -> Folder {
        let folder = tempfile::Builder::new().prefix("page").tempdir().unwrap();
        for name in ["data", "drives", "examples"] {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        Folder { folder, server: None }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_seekless")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", limit(), "bash", "-c", line])
            .current_dir(self.path())
            .env("PATH", path)
            .env("HOME", self.path());
        command.env("STATE_DIRECTORY", self.path().join("state")).env_remove("SEEKLESS_MUTANT");
        command.stdin(Stdio::null());
        command
    }

    /// Runs a line to its end.
    pub fn run(&self, line: &str) -> Printed {
        let begun = Instant::now();
        let done = self.shell(line).output().unwrap();
        if begun.elapsed() > LONG {
            eprintln!("{} s: {line}", begun.elapsed().as_secs());
        }
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut all = format!("{out}{}", String::from_utf8_lossy(&done.stderr));
        if done.status.code() == Some(124) {
            all = format!("{all}ended by the limit of {}\n", limit());
        }
        Printed { out, all, good: done.status.success() }
    }

    /// Starts a server, and waits until it serves; its output.
    fn serve(&mut self, line: &str) -> Printed {
        let mut command = self.shell(&format!("exec {line}"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
        });
        let mut all = String::new();
        let mut good = false;
        while let Ok(line) = lines.recv_timeout(Duration::from_secs(60)) {
            all.push_str(&line);
            all.push('\n');
            good = line.contains("try: ");
            if good {
                break;
            }
        }
        self.server = Some(Server { child, lines });
        Printed { out: String::new(), all, good }
    }

    /// Stops the server as Ctrl-C does, if there is one; its last output, if it failed.
    fn stop(&mut self) -> Result<(), String> {
        let Some(mut server) = self.server.take() else { return Ok(()) };
        let id = server.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let status = server.child.wait().unwrap();
        let last: Vec<String> = server.lines.iter().collect();
        if status.success() {
            Ok(())
        } else {
            Err(format!("the server ended with {status}: {}", last.join("\n")))
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
    }
}

/// Why a line cannot be run here, if it cannot.
fn hindered(folder: &Folder, line: &str, marks: &[Mark], compared: &BTreeSet<&str>) -> Option<String> {
    if compared.contains(line) {
        return Some("its figures are compared".to_owned());
    }
    if let Some(why) = marked(marks, "not run") {
        return Some(why.to_owned());
    }
    if let Some(why) = marked(marks, "long").filter(|_| std::env::var_os("SEEKLESS_LONG").is_none()) {
        return Some(format!("long: {why}"));
    }
    let program = line.split_whitespace().next().unwrap_or_default();
    if !folder.run(&format!("command -v {program}")).good {
        return Some(format!("{program} is not installed"));
    }
    let canary = |folder: &Folder| {
        let volume = "[component.a]\ndrive = 'wd2500aaks'\n[slice.b]\nof = 'a'\nsize = '544KiB'\n[layer.mapper]\nover = 'b'\n\
            size = '512KiB'\ncanary = 'early reuse'\n[[export]]\ntop = 'mapper'\n";
        std::fs::write(folder.path().join("has-canaries.toml"), volume).unwrap();
        folder
            .run("seekless lab explore has-canaries.toml --states 1 --workload churn")
            .all
            .contains("unknown field")
    };
    (marked(marks, "with canaries").is_some() && canary(folder))
        .then(|| "a build without canaries".to_owned())
}

/// Each line of a synopsis names a subcommand.
fn synopsis(folder: &Folder, place: &str, text: &str, outcome: &mut Outcome) {
    for line in text.lines() {
        let name = |word: &&str| {
            word.chars().all(|each| each.is_ascii_lowercase() || each == '-') && !word.starts_with('-')
        };
        let words: Vec<&str> =
            line.split("   ").next().unwrap_or_default().split(' ').take_while(name).collect();
        let help = folder.run(&format!("{} --help", words.join(" ")));
        if help.good {
            outcome.ran += 1;
        } else {
            outcome.wrong.push(format!(
                "{place}: `{}`: found no help, expected it: {}",
                words.join(" "),
                help.all
            ));
        }
    }
}

/// Runs the commands of a block; their joint output.
fn commands(
    folder: &mut Folder,
    place: &str,
    text: &str,
    marks: &[Mark],
    compared: &BTreeSet<&str>,
    outcome: &mut Outcome,
) -> Option<String> {
    let mut printed = String::new();
    let mut skipped = false;
    let count = text.lines().count();
    for (number, line) in text.lines().enumerate() {
        if let Some(why) = hindered(folder, line, marks, compared) {
            outcome.skipped.push(format!("{place}: `{line}`: {why}"));
            skipped = true;
            continue;
        }
        let done =
            if line.starts_with("seekless volume serve") { folder.serve(line) } else { folder.run(line) };
        let fails = marked(marks, "fails").is_some() && number + 1 == count;
        if done.good == fails {
            let expected = if fails { "expected failure" } else { "expected success" };
            outcome.wrong.push(format!("{place}: `{line}`: {expected}, found:\n{}", done.all));
        }
        printed.push_str(&done.all);
        outcome.ran += 1;
    }
    for (_, line) in marks.iter().filter(|(name, _)| name == "instead") {
        let done = folder.run(line);
        if !done.good {
            outcome.wrong.push(format!("{place}: `{line}`: expected success, found:\n{}", done.all));
        }
    }
    (!skipped).then_some(printed)
}

/// Lines of `shown` that are not in the output: they must be in it unchanged and in sequence; `...` stands for any
/// lines. Lines with one of these words are skipped.
pub fn missing(shown: &str, printed: &str, but_for: &[&str]) -> Option<String> {
    let lines = |text: &str| -> Vec<String> {
        let kept = text.lines().filter(|line| !but_for.iter().any(|word| line.contains(word)));
        kept.map(|line| line.trim_end().to_owned()).collect()
    };
    let (shown, printed) = (lines(shown), lines(printed));
    let mut from = 0;
    for part in shown.split(|line| line == "...").filter(|part| !part.is_empty()) {
        let Some(at) = printed[from..].windows(part.len()).position(|window| window == part) else {
            return Some(part.join("\n"));
        };
        from += at + part.len();
    }
    None
}

/// Words between commas.
pub fn words(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// Runs a page, but for commands that another test runs, since their output is compared.
pub fn page(page: &Page, compared: &BTreeSet<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut folder = Folder::new();
    let mut last = None;
    for block in &page.blocks {
        match block {
            Block::File { name: Some(name), text, .. } => {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            Block::Commands { line, text, marks } => {
                let place = format!("{}:{line}", page.name);
                if marked(marks, "synopsis").is_some() {
                    synopsis(&folder, &place, text, &mut outcome);
                } else {
                    last = commands(&mut folder, &place, text, marks, compared, &mut outcome);
                }
            }
            Block::Output { line, text, marks } => {
                let above = marked(marks, "printed above").or(marked(marks, "printed above, but for"));
                if let (Some(but_for), Some(printed)) = (above, &last) {
                    if let Some(part) = missing(text, printed, &words(but_for)) {
                        let place = format!("{}:{line}", page.name);
                        outcome.wrong.push(format!("{place}: expected\n{part}\nfound\n{printed}"));
                    }
                }
            }
            Block::Stop => outcome.wrong.extend(folder.stop().err()),
            Block::File { .. } | Block::Marked { .. } => {}
        }
    }
    outcome.wrong.extend(folder.stop().err());
    outcome
}

#[test]
fn what_was_not_printed_is_found() {
    let printed = "a 1\nb 2\n\nc 3  \nd 4\n";
    assert_eq!(missing("a 1\nb 2\n...\nd 4\n", printed, &[]), None);
    assert_eq!(missing("b 9\n\nc 3\n", printed, &["b"]), None);
    assert_eq!(missing("a 1\n...\nb 3\n", printed, &[]), Some("b 3".to_owned()));
    assert_eq!(missing("d 4\n...\na 1\n", printed, &[]), Some("a 1".to_owned()), "in that order");
}
