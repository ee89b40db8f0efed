//! Output of the program: text and JSON on stdout, warnings and errors on stderr, files.
//!
//! Faults: a closed pipe (`| head`) is not an error, and files are still written; a full disk is an error. Control
//! characters in traces never reach the terminal.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use clap::Args;
use seekless_trace::write::Output;
use serde::Serialize;
use serde_json::Value;

use crate::csv;
use crate::printed::{Printed, id};
use crate::started;
use crate::table::folded;
use crate::text::shell_word;

/// Writes `text` to stdout.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

/// How to print a result.
#[derive(Args)]
pub struct Form {
    /// Print JSON instead of text; `seekless schema` describes it
    #[arg(long)]
    pub json: bool,
    /// Print a list of the JSON as CSV instead: the main one, or this one, such as --csv=LIST; a name that there is not
    /// lists them
    #[arg(long, value_name = "LIST", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "json")]
    csv: Option<String>,
}

impl Form {
    /// Whether it is for people.
    pub fn is_text(&self) -> bool {
        !self.json && self.csv.is_none()
    }

    /// Whether it is CSV.
    pub fn is_csv(&self) -> bool {
        self.csv.is_some()
    }

    /// A result in this form, texts within the terminal's width; `main` is the list that is printed as CSV.
    pub fn of(
        &self,
        value: &impl Printed,
        main: &str,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        self.of_sample(value, main, &[], || folded(&text()))
    }

    /// As [`Form::of`], of one result of several: as CSV its rows begin with these columns.
    pub fn of_sample(
        &self,
        value: &impl Printed,
        main: &str,
        begin: &[(&str, String)],
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<String> {
        if self.is_text() { Ok(text()) } else { self.data(json_text(value)?, main, begin) }
    }

    /// Prints a result; `main` is the list that is printed as CSV.
    pub fn print(
        &self,
        value: &impl Printed,
        main: &str,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        print(&self.of(value, main, text)?)
    }

    /// Prints a result that is a list.
    pub fn print_list(&self, values: &[impl Printed], text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.is_text() {
            return print(&folded(&text()));
        }
        print(&self.data(line(&values.iter().map(named).collect::<Vec<_>>())?, "", &[])?)
    }

    /// Prints a server's answer, which may have more keys than this version knows.
    pub fn print_as<T: Printed>(&self, answer: &Value, main: &str) -> anyhow::Result<()> {
        print(&self.data(line(&Named { schema: id(T::NAME), value: answer })?, main, &[])?)
    }

    /// As [`Form::print_list`], for a server's answer, which may have more keys than this version knows.
    pub fn print_list_as<T: Printed>(&self, answer: &Value) -> anyhow::Result<()> {
        let each = answer.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let named: Vec<_> = each.map(|value| Named { schema: id(T::NAME), value }).collect();
        print(&self.data(line(&named)?, "", &[])?)
    }

    fn data(&self, json: String, main: &str, begin: &[(&str, String)]) -> anyhow::Result<String> {
        match &self.csv {
            Some(name) => csv::of(&json, name, main, begin),
            None => Ok(json),
        }
    }
}

/// A line of JSON: an object that names its schema.
pub fn json_text(value: &impl Printed) -> anyhow::Result<String> {
    line(&named(value))
}

/// Writes an object that names its schema to stdout, in one line.
pub fn json(value: &impl Printed) -> anyhow::Result<()> {
    print(&json_text(value)?)
}

/// Writes an array of objects, each of which names its schema, to stdout, in one line.
pub fn json_list(values: &[impl Printed]) -> anyhow::Result<()> {
    print(&line(&values.iter().map(named).collect::<Vec<_>>())?)
}

/// As [`json`], for a server's answer, which may have more keys than this version knows.
pub fn json_as<T: Printed>(answer: &Value) -> anyhow::Result<()> {
    print(&line(&Named { schema: id(T::NAME), value: answer })?)
}

fn line(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}

/// An object with the name of its schema as the first key.
#[derive(Serialize)]
struct Named<'a, T> {
    schema: String,
    #[serde(flatten)]
    value: &'a T,
}

fn named<T: Printed>(value: &T) -> Named<'_, T> {
    Named { schema: id(T::NAME), value }
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

/// Checks before long work that a file can be written: its folder exists, and no file of that name does, unless
/// `force`.
pub fn expect_room(path: &Path, force: bool) -> anyhow::Result<()> {
    expect_folder(path)?;
    if path.exists() && !force { Err(exists(path)) } else { Ok(()) }
}

/// The error of a file that exists.
pub fn exists(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{}: found a file of that name, expected none; --force overwrites it", path.display())
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
