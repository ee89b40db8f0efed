//! What leaves the program: text and JSON on stdout, warnings and errors on stderr, files.
//!
//! Faults: a reader that went away (`| head`) is none, and what was to be written besides still is; a
//! full disk is an error. Text from traces cannot steer the terminal.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use seekless_trace::write::Output;
use serde::Serialize;

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

/// A line for stderr.
pub fn complain(line: &str) {
    // There is nowhere left to say that stderr is gone.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Warnings for stderr, so that they reach a person whatever stdout is used for.
pub fn warn(warnings: &[String]) {
    for warning in warnings {
        complain(&format!("warning: {}", plain(warning)));
    }
}

/// Whether there is a folder for a file that is to be written after long work.
pub fn expect_folder(path: &Path) -> anyhow::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            anyhow::bail!("{}: found no folder {}, expected one", path.display(), folder.display())
        }
        _ if path.is_dir() => anyhow::bail!("{}: found a folder, expected a file", path.display()),
        _ => Ok(()),
    }
}

/// Writes a file, whole or not at all; one that is there is replaced. The error names it.
pub fn file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut output = Output::plain_file(path, true)?;
        output.write_all(text.as_bytes())?;
        output.finish()
    };
    write().with_context(|| path.display().to_string())?;
    Ok(())
}

/// An error with its causes, leaving out those that the text before them quotes already.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told.lines().map(plain).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// `text` without control characters, which could move the cursor or break a table.
pub fn plain(text: &str) -> String {
    text.chars().map(|each| if each.is_control() { '?' } else { each }).collect()
}

/// How the program was called, as a shell reads it back.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("seekless".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no such file").context("mail: no such file").context("cannot start");
        assert_eq!(with_causes(&error), "cannot start: mail: no such file");
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}
