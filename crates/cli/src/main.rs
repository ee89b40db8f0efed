//! `seekless`: the program with its own layers.

use std::process::ExitCode;

fn main() -> ExitCode {
    seekless::main_with(&[])
}
