//! Output of the program: text and JSON on stdout, warnings and errors on stderr, files.
//!
//! Faults: a closed pipe (`| head`) is not an error, and files are still written; a full disk is an error. Control
//! characters in traces never reach the terminal.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use seekless_trace::write::Output;
use serde::Serialize;

use crate::started;
use crate::text::shell_word;

/// Writes `text` to stdout.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

/// Writes `value` to stdout as JSON, in one line.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}

/// Writes a line to stderr.
pub fn complain(line: &str) {
    // An error of stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes warnings to stderr, so that they are seen whatever stdout is used for.
pub fn warn(warnings: &[String]) {
    for warning in warnings {
        complain(&format!("warning: {}", plain(warning)));
    }
}

/// Checks that the folder of a file exists, before long work.
pub fn expect_folder(path: &Path) -> anyhow::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            anyhow::bail!("{}: found no folder {}, expected one", path.display(), folder.display())
        }
        _ if path.is_dir() => anyhow::bail!("{}: found a folder, expected a file", path.display()),
        _ => Ok(()),
    }
}

/// Writes a file, whole or not at all, replacing an existing one. Errors name it.
pub fn file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut output = Output::plain_file(path, true)?;
        output.write_all(text.as_bytes())?;
        output.finish()
    };
    write().with_context(|| path.display().to_string())?;
    Ok(())
}

/// An error with its causes, without those that the text before quotes already.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message.lines().map(plain).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// `text` without control characters, which could move the cursor or break a table.
pub fn plain(text: &str) -> String {
    text.chars().map(|each| if each.is_control() { '?' } else { each }).collect()
}

/// The command line of this process, quoted for a shell.
pub fn command_line() -> String {
    let words = started::words().into_iter().map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("seekless".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_reported_once() {
        let error = anyhow::anyhow!("no such file").context("mail: no such file").context("cannot start");
        assert_eq!(with_causes(&error), "cannot start: mail: no such file");
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}
