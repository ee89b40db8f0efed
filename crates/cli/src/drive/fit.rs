//! `seekless drive fit`: estimates figures that no data sheet gives, from service times measured on the real drive.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_drive::fit::{Fitted, fit};
use seekless_drive::validate::Measured;
use serde::Serialize;

use super::validate::{Half, Validated, drive, measured, text};
use crate::output::{self, Form};
use crate::progress::Progress;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive fit atlas10k.parv atlas10k.trace -o atlas10k-fitted.toml
  seekless drive validate atlas10k-fitted.toml atlas10k.trace --half second

Only the first half of the trace is used for the fit; errors are given for both halves, of
which the second is the honest test.";

/// Arguments of `drive fit`.
#[derive(Args)]
pub struct Fit {
    /// Name of a drive, a TOML file, or a .parv file of DiskSim
    drive: String,
    /// Measured requests, as for `seekless drive validate`
    trace: PathBuf,
    /// Write the fitted drive to this file
    #[arg(long, short, value_name = "FITTED.toml")]
    output: PathBuf,
    /// Name of the drive [default: the name of the output file]
    #[arg(long)]
    name: Option<String>,
    /// Overwrite the output file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// Errors of the fitted drive.
#[derive(JsonSchema, Serialize)]
pub struct Output {
    /// On the half that it was fitted to.
    first: Validated,
    /// On the other half.
    second: Validated,
}

/// The fewest requests that a drive is fitted to: half of them fit it, and the others judge that.
const FEWEST: usize = 500;

/// Refuses a trace that no drive can be fitted to.
fn check_measured(trace: &Path, measured: &[Measured]) -> anyhow::Result<()> {
    let trace = trace.display();
    let count = measured.len();
    anyhow::ensure!(
        count >= FEWEST,
        "{trace}: found {count} requests, expected at least {FEWEST} to fit a drive"
    );
    let served = measured.iter().filter(|request| request.service > Nanos::ZERO).count();
    anyhow::ensure!(
        2 * served > count,
        "{trace}: found {} of {count} requests that took no time, expected the times that a drive took",
        count - served
    );
    Ok(())
}

/// `seekless drive fit`
pub fn run(arguments: &Fit) -> anyhow::Result<()> {
    let path = &arguments.output;
    output::expect_room(path, arguments.force)?;
    let spec = drive(&arguments.drive)?;
    let measured = measured(&arguments.trace, &spec)?;
    check_measured(&arguments.trace, &measured)?;
    let progress = Progress::measured();
    let first = &measured[..measured.len() / 2];
    let Fitted { spec: mut fitted, think, changes } = fit(&spec, first, &mut |done| {
        progress.at("fitting", (done * 1000.0) as u64, 1000);
        true
    });
    drop(progress);
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    fitted.name = arguments.name.clone().unwrap_or_else(stem);
    let text_of_it = toml::to_string(&fitted)?;
    std::fs::write(path, &text_of_it).with_context(|| path.display().to_string())?;
    // Evaluate the file as written, not the drive in memory.
    let fitted = seekless_drive::spec::parse(&path.display().to_string(), &text_of_it)?;
    let half = |half| Validated::of(&fitted, &measured, think, half);
    let result = Output { first: half(Half::First), second: half(Half::Second) };
    arguments.form.print(&result, "", || {
        let mut out = String::from("Changed\n");
        for change in &changes {
            out.extend(["  ", change, "\n"]);
        }
        out.extend(["\nThe half that it was fitted to\n", &text(&result.first)]);
        out.extend(["\nThe half that it had not seen\n", &text(&result.second)]);
        out.extend(["\nWritten to ", &path.display().to_string(), "\n"]);
        out
    })
}
