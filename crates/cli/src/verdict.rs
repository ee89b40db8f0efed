//! The verdict of `seekless advise` at the head of a report.
//!
//! It takes some eight runs of the recording, so that a long recording has none unless it is asked for; the page then
//! says which command gives it. What stands in the way of a verdict is in the page too, and no error.

use std::path::Path;

use clap::{Args, ValueEnum};
use seekless_lab::outcome::Comparison;
use seekless_lab::report::{Verdict, with_verdict};
use seekless_trace::{Stats, Trace};

use crate::advise;
use crate::output;
use crate::text::{count, shell_word};

/// Requests of a recording that is judged without being asked for: some 10 seconds on two cores.
pub const MOST_REQUESTS: u64 = 50_000;

/// Whether a report begins with a verdict.
#[derive(Args, Clone, Copy, Default)]
pub struct Wanted {
    /// Begin the page with the verdict of `seekless advise`, which takes some eight runs of the recording: always,
    /// never, or auto: if it has at most 50,000 requests [default: auto]
    #[arg(long, value_name = "WHEN")]
    verdict: Option<When>,
}

/// When a report begins with a verdict.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Wanted {
    /// Whether the option is given.
    pub fn is_told(self) -> bool {
        self.verdict.is_some()
    }

    /// Whether a recording of so few requests is judged.
    pub fn takes(self, requests: u64) -> bool {
        match self.verdict.unwrap_or(When::Auto) {
            When::Auto => requests <= MOST_REQUESTS,
            When::Always => true,
            When::Never => false,
        }
    }

    /// The verdict on a recording, on the drive of this name; nothing where none is wanted.
    pub fn on(self, trace: &Trace, drive: &str, seed: u64) -> Option<Verdict> {
        let requests = trace.records.len() as u64;
        if !self.takes(requests) {
            let files: Vec<String> = trace.sources.iter().map(|file| file.display().to_string()).collect();
            return self.left_out(requests, &files);
        }
        Some(match advise::on(trace, drive, 1.0, seed, &|_| ()) {
            Ok(advice) => Verdict::Made(Box::new(advice)),
            Err(error) => Verdict::Not(format!("Not judged: {}.", output::with_causes(&error))),
        })
    }

    /// What a page says of a recording that is too long to be judged without being asked for.
    pub fn left_out(self, requests: u64, files: &[String]) -> Option<Verdict> {
        if self.verdict == Some(When::Never) {
            return None;
        }
        let words: Vec<String> = files.iter().map(|file| shell_word(file)).collect();
        Some(Verdict::Not(format!(
            "Not judged here: that takes several runs of all {} requests. What follows rests on none. The verdict: seekless \
             advise {}, or --verdict always.",
            count(requests),
            words.join(" ")
        )))
    }
}

/// Writes the report, with a verdict on the recording at its head.
pub fn write_report(
    file: &Path,
    stats: &Stats,
    comparison: &Comparison,
    verdict: Option<&Verdict>,
) -> anyhow::Result<()> {
    output::file(file, &with_verdict(stats, comparison, verdict, &output::command_line()))
}
