//! `seekless trace report`: characterises one workload, or compares two, as an HTML page and pictures.
//!
//! Faults: an existing output file, or a missing folder, is an error before anything is read. The page is written whole
//! or not at all.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use schemars::JsonSchema;
use seekless_lab::report::trace::{Accesses, FIGURES, Picture, Subject, TEXT_BYTES, Verdict, report};
use seekless_trace::{Analysis, Stats, StatsOptions};
use serde::Serialize;

use crate::Usage;
use crate::auto::AUTO;
use crate::input::{Input, Reading};
use crate::output;
use crate::progress::Progress;
use crate::stats::{Characterising, survey};
use crate::text::size;
use crate::verdict::Wanted;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless trace report data/mail -o mail.html
  seekless trace report data/mail data/svnserver2 -o both.html
  seekless trace report week.csv.gz -o week.html --volume web_0 --interval 1d

The page is self-contained: no network, no other file. It is below 8 MB for traces of any
length. Its figures are those of `seekless trace stats` with the same options.";

/// Seed of the runs of a verdict, which is the default of `seekless advise`.
const SEED: u64 = 1;

/// Arguments of `trace report`.
#[derive(Args)]
pub struct Arguments {
    /// One trace, or two to compare: each a file, or a recording's name (data/mail for data/mail.blktrace.0.xz and so
    /// on); - is standard input
    #[arg(value_name = "TRACE", required = true, num_args = 1..=2)]
    traces: Vec<PathBuf>,
    /// Page to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write each figure as an SVG file into this folder too
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    how: Characterising,
    #[command(flatten)]
    verdict: Wanted,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A trace that was read.
struct Read {
    name: String,
    sources: Vec<String>,
    format: &'static str,
    warnings: Vec<String>,
    stats: Stats,
    accesses: Picture,
    verdict: Option<Verdict>,
}

/// JSON output about the picture of addresses over time.
#[derive(JsonSchema, Serialize)]
struct Shown<'a> {
    /// Requests in the picture.
    requests: u64,
    /// Whether each request is drawn individually, rather than counted in a cell.
    one_by_one: bool,
    /// Width of the smallest mark, in seconds.
    mark_s: f64,
    /// Height of the smallest mark, in bytes.
    mark_bytes: u64,
    /// Number of marks.
    marks: u64,
    /// Processes, and their numbers of requests.
    processes: Vec<(&'a str, u64)>,
}

#[derive(JsonSchema, Serialize)]
struct TraceOutput<'a> {
    name: &'a str,
    files: &'a [String],
    format: &'a str,
    accesses: Shown<'a>,
    stats: &'a Stats,
}

#[derive(JsonSchema, Serialize)]
struct ToldFile {
    path: String,
    bytes: u64,
}

#[derive(JsonSchema, Serialize)]
pub struct Output<'a> {
    page: &'a ToldFile,
    pictures: &'a [ToldFile],
    traces: Vec<TraceOutput<'a>>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = arguments.how.options()?;
    arguments.expect_room()?;
    let names = names(&arguments.traces);
    let text_bytes = TEXT_BYTES / arguments.traces.len();
    let mut traces = Vec::new();
    // One after the other: each may use all of the memory.
    for (path, name) in arguments.traces.iter().zip(names) {
        traces.push(arguments.read(path, name, &options, text_bytes)?);
    }
    let subjects: Vec<Subject> = traces.iter().map(Read::subject).collect();
    let drawn = report(&subjects, &output::command_line());
    let mut pictures = Vec::new();
    if let Some(folder) = &arguments.svg {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (figure, svg) in &drawn.pictures {
            pictures.push(write(&picture(folder, figure), svg)?);
        }
    }
    if arguments.is_stdout() {
        return output::print(&drawn.html);
    }
    let page = write(&arguments.output, &drawn.html)?;
    if arguments.json {
        let traces = traces.iter().map(Read::output).collect();
        return output::json(&Output { page: &page, pictures: &pictures, traces });
    }
    let lines = std::iter::once(&page).chain(&pictures);
    let lines: Vec<String> = lines.map(|file| format!("{}: {}\n", file.path, size(file.bytes))).collect();
    output::print(&lines.concat())
}

impl Arguments {
    /// Whether the page goes to standard output, which then carries nothing else.
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    /// Checks before long work whether the output can be written.
    fn expect_room(&self) -> anyhow::Result<()> {
        if self.is_stdout() && self.json {
            bail!(Usage("--json: found -o -, expected a file: standard output is the page".to_owned()));
        }
        output::expect_folder(&self.output)?;
        let pictures = self.svg.iter().flat_map(|folder| FIGURES.map(|figure| picture(folder, figure)));
        let page = Some(self.output.clone()).filter(|_| !self.is_stdout());
        for path in page.into_iter().chain(pictures) {
            if !self.force && path.exists() {
                return Err(output::exists(&path));
            }
        }
        if self.traces.iter().filter(|path| *path == Path::new("-")).count() > 1 {
            bail!("-: found standard input twice, expected two different traces");
        }
        match &self.svg {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                bail!("{}: found a file, expected a folder", folder.display())
            }
            _ => Ok(()),
        }
    }

    fn read(
        &self,
        path: &Path,
        name: String,
        options: &StatsOptions,
        text_bytes: usize,
    ) -> anyhow::Result<Read> {
        let input = Input { files: vec![path.to_owned()], reading: self.reading.clone() };
        let trace = survey(&input, &self.how)?;
        output::warn(&trace.warnings);
        options.check(trace.survey.end).map_err(|many| Usage(many.to_string()))?;
        let progress = Progress::measured();
        let mut analysis = Analysis::new(trace.survey.clone(), options);
        let mut accesses = Accesses::new(&trace.survey);
        let (mut done, all) = (0_u64, trace.survey.records);
        trace.each(|record| {
            if done % 65_536 == 0 {
                progress.at("characterising", done, all);
            }
            done += 1;
            analysis.follow(record);
            accesses.follow(record, &trace.names);
        })?;
        drop(progress);
        let sources: Vec<String> = trace.sources.iter().map(|file| file.display().to_string()).collect();
        let verdict = if self.verdict.takes(all) {
            self.verdict.on(&trace.load()?, AUTO, SEED)
        } else {
            self.verdict.left_out(all, &sources)
        };
        Ok(Read {
            name,
            verdict,
            sources,
            format: trace.format.name,
            warnings: trace.warnings.clone(),
            stats: analysis.finish(&trace.names, &trace.volumes),
            accesses: accesses.finish(&trace.volumes, text_bytes),
        })
    }
}

impl Read {
    fn subject(&self) -> Subject<'_> {
        Subject {
            name: self.name.clone(),
            sources: self.sources.clone(),
            format: self.format,
            warnings: &self.warnings,
            stats: &self.stats,
            accesses: &self.accesses,
            verdict: self.verdict.as_ref(),
        }
    }

    fn output(&self) -> TraceOutput<'_> {
        let picture = &self.accesses;
        TraceOutput {
            name: &self.name,
            files: &self.sources,
            format: self.format,
            accesses: Shown {
                requests: picture.requests,
                one_by_one: picture.points,
                mark_s: picture.unit_nanos as f64 / 1e9,
                mark_bytes: picture.unit_sectors.saturating_mul(seekless_core::SECTOR_BYTES),
                marks: picture.marks.len() as u64,
                processes: picture.families.iter().map(|each| (each.name.as_str(), each.requests)).collect(),
            },
            stats: &self.stats,
        }
    }
}

/// Path of a figure's file.
fn picture(folder: &Path, figure: &str) -> PathBuf {
    folder.join(format!("{figure}.svg"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<ToldFile> {
    output::file(path, text)?;
    Ok(ToldFile { path: path.display().to_string(), bytes: text.len() as u64 })
}

/// Names of the traces: the last part of their paths, or the whole path where those are equal.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let last = |path: &PathBuf| {
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let short: Vec<String> = paths.iter().map(last).collect();
    if short.windows(2).any(|two| two[0] == two[1]) {
        return paths.iter().map(|path| path.display().to_string()).collect();
    }
    short.into_iter().map(|name| if name == "-" { "standard input".to_owned() } else { name }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_traces_apart() {
        let names = |paths: &[&str]| super::names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["data/mail", "data/svn"]), ["mail", "svn"]);
        assert_eq!(names(&["a/trace", "b/trace"]), ["a/trace", "b/trace"]);
        assert_eq!(names(&["-"]), ["standard input"]);
    }
}
