//! How the program was started: by itself, or by a Python package that has it as a library.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A start by another program.
#[derive(Debug)]
pub struct Started {
    /// The program that starts this one, with the arguments before its own, such as `python -m seekless`.
    pub by: Vec<OsString>,
    /// The file with this code.
    pub file: PathBuf,
    /// The arguments.
    pub words: Vec<OsString>,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// Notes how this process was started; the first note counts.
pub fn note(started: Started) -> &'static Started {
    STARTED.get_or_init(|| started)
}

/// The arguments.
pub fn words() -> Vec<OsString> {
    STARTED.get().map_or_else(|| std::env::args_os().skip(1).collect(), |started| started.words.clone())
}

/// The file with this code.
pub fn file() -> io::Result<PathBuf> {
    STARTED.get().map_or_else(std::env::current_exe, |started| Ok(started.file.clone()))
}

/// Starts this program again, with other arguments.
pub fn again() -> io::Result<Command> {
    match STARTED.get().and_then(|started| started.by.split_first()) {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command.args(words);
            Ok(command)
        }
        None => Ok(Command::new(std::env::current_exe()?)),
    }
}
