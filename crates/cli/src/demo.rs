//! `seekless demo`: the main job on the trace that ships. Reads a recording of a real machine, says
//! what it is like, and what BORG would save on it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Parser};
use seekless_lab::outcome::Comparison;
use seekless_trace::{Stats, StatsOptions, expand};
use serde::Serialize;

use crate::setup::Setup;
use crate::text::{percent, shell_word};
use crate::trace::{characterised, load};
use crate::{comparison, lab, output, stats};

/// The recording.
const NAME: &str = "appstart2";
/// Where recordings are in the checkout that the program was built from.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");

/// The recording was squeezed into minutes and never lets the disk rest: with the usual share of the
/// head's time, copying would take half of it.
const SHARE: (&str, &str) = ("--background-share", "40");

/// What the demo is told.
#[derive(Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo --report appstart2.report.html")]
pub struct Arguments {
    /// Where the report goes
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The options of an experiment as they are when nobody sets one.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    setup: Setup,
}

/// What the demo tells.
#[derive(Serialize)]
struct Told<'a> {
    stats: &'a Stats,
    comparison: &'a Comparison,
    report: &'a Path,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    output::expect_folder(&arguments.report)?;
    let recording = recording()?;
    let trace = load(std::slice::from_ref(&recording))?;
    output::warn(&trace.warnings);
    let stats = characterised(&trace, &StatsOptions::default());
    if !arguments.json {
        output::print(&format!("The workload of {}\n{}\n", recording.display(), stats::compact(&stats)))?;
    }
    let setup = Defaults::parse_from(["seekless", SHARE.0, SHARE.1]).setup;
    let compared = lab::compared(&trace, &setup)?;
    if !arguments.json {
        output::print(&format!(
            "The disk without BORG (vanilla) and with it\n{}\nThe same by hand: seekless lab compare --trace {} {} {}\n",
            comparison::text(&compared),
            shell_word(&recording.to_string_lossy()),
            SHARE.0,
            SHARE.1
        ))?;
    }
    lab::write_report(&arguments.report, &stats, &compared)?;
    if arguments.json {
        return output::json(&Told { stats: &stats, comparison: &compared, report: &arguments.report });
    }
    output::print(&format!(
        "Disk time saved by BORG: {} between reconfigurations, {} with all its own work counted\nReport: {}\n",
        percent(compared.reduction_pct),
        percent(compared.net_reduction_pct),
        arguments.report.display()
    ))
}

/// The recording in this folder's data, or in that of the checkout.
fn recording() -> anyhow::Result<PathBuf> {
    let here = Path::new("data").join(NAME);
    let built_from = PathBuf::from(BUILT_FROM);
    let there = built_from.canonicalize().unwrap_or(built_from).join(NAME);
    for place in [&here, &there] {
        if expand(&[place]).is_ok() {
            return Ok(place.clone());
        }
    }
    bail!(
        "found no recording '{NAME}' in {}; expected one in data/ of the current folder, or a checkout to run in",
        there.parent().unwrap_or(&there).display()
    )
}
