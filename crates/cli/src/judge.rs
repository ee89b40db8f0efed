//! `seekless lab judge`: checks a history of requests and answers for consistency.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use seekless_lab::check::history::Reader;
use seekless_lab::check::{Judged, judge};

use crate::progress::Progress;
use crate::table::Table;
use crate::text::{count, counted};
use crate::{Finding, output};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless lab judge run.history
  zcat run.history.gz | seekless lab judge -
  seekless lab judge run.history --json | jq .violation.text

It fails if the history contains behaviour that no device may show. Format of histories, and the
checks: docs/book/judging.md.";

/// Arguments of `lab judge`.
#[derive(Args)]
pub struct Arguments {
    /// File of the history; - is standard input
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Checks a history.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (name, from): (String, Box<dyn BufRead>) = if arguments.file.as_os_str() == "-" {
        ("standard input".into(), Box::new(io::stdin().lock()))
    } else {
        let name = arguments.file.display().to_string();
        let file = File::open(&arguments.file).with_context(|| name.clone())?;
        (name, Box::new(BufReader::new(file)))
    };
    let progress = Progress::spinner("judging");
    let judged = Reader::new(from).and_then(judge).with_context(|| name.clone())?;
    drop(progress);
    if arguments.json {
        output::json(&judged)?;
    } else {
        output::print(&text(&judged))?;
    }
    match judged.violation {
        Some(violation) => {
            Err(Finding(format!("{name}: line {}: {}", violation.line, violation.text)).into())
        }
        None => Ok(()),
    }
}

fn text(judged: &Judged) -> String {
    let mut table = Table::new(&["", ">"]);
    let rows = [
        ("requests", judged.requests),
        ("reads", judged.reads),
        ("writes", judged.writes),
        ("flushes", judged.flushes),
        ("discards and writes of zeroes", judged.others),
        ("failed", judged.failed),
        ("not answered", judged.unanswered),
        ("sectors that reads found", judged.sectors_judged),
        ("crashes", judged.crashes),
    ];
    for (name, number) in rows {
        table.row([name, &count(number)]);
    }
    let verdict = match &judged.violation {
        None => format!("{}, and all of it may be", counted(judged.requests, "request")),
        Some(violation) => format!("wrong from line {} on", count(violation.line)),
    };
    table.text() + &verdict + "\n"
}
