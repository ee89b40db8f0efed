//! `seekless demo`: the comparison on the trace that ships with the project. Reads a recording of a real machine,
//! characterises it, and shows what BORG saves on it.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};
use schemars::JsonSchema;
use seekless_lab::outcome::Comparison;
use seekless_trace::{Stats, StatsOptions};
use serde::Serialize;

use crate::auto::AUTO;
use crate::setup::Setup;
use crate::text::{percent, shell_word};
use crate::trace::{characterised, load};
use crate::verdict::{Wanted, write_report};
use crate::{comparison, lab, output, shipped, stats};

/// Name of the recording.
const NAME: &str = "appstart2";
/// The report, if none is named.
const REPORT: &str = "report.html";

/// Arguments of `demo`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo --report appstart2.report.html")]
pub struct Arguments {
    /// Write the report to this file [default: report.html, which is overwritten]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long, requires = "report")]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The default options of an experiment.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    setup: Setup,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Output<'a> {
    stats: &'a Stats,
    comparison: &'a Comparison,
    report: &'a Path,
}

/// Runs the demo.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let report = arguments.report.as_deref().unwrap_or(Path::new(REPORT));
    output::expect_room(report, arguments.force || arguments.report.is_none())?;
    let recording = recording()?;
    let trace = load(std::slice::from_ref(&recording))?;
    output::warn(&trace.warnings);
    let stats = characterised(&trace, &StatsOptions::default());
    if !arguments.json {
        output::print(&format!("The workload of {}\n{}\n", recording.display(), stats::compact(&stats)))?;
    }
    let setup = Defaults::parse_from(["seekless"]).setup;
    let compared = lab::compared(&trace, &setup, false, true)?;
    if !arguments.json {
        output::print(&format!(
            "The disk without BORG (vanilla) and with it\n{}\nThe same by hand: seekless lab compare --trace {}\n",
            comparison::text(&compared),
            shell_word(&recording.to_string_lossy())
        ))?;
    }
    let verdict = Wanted::default().on(&trace, AUTO, setup.seed());
    write_report(report, &stats, &compared, verdict.as_ref())?;
    if arguments.json {
        return output::json(&Output { stats: &stats, comparison: &compared, report });
    }
    output::print(&format!(
        "Disk time saved by BORG: {} between reconfigurations, {} with all its own work counted\nReport: {}\n",
        percent(compared.reduction_pct),
        percent(compared.net_reduction_pct),
        report.display()
    ))
}

/// The recording in the current folder's `data`, or the one that ships.
fn recording() -> anyhow::Result<PathBuf> {
    Ok(shipped::traces(&[Path::new("data").join(NAME)])?.swap_remove(0))
}
