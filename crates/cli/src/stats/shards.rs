//! `seekless trace stats` of a trace in shards: outlines, partials, and merging both.
//!
//! Invariant: a file is written whole or not at all, replacing an earlier one.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_trace::stats::shards::{self, Kind, Outline, Outlining, PartAnalysis, Partial};
use seekless_trace::write::Output;
use seekless_trace::{Reader, TraceError};
use serde::Serialize;

use super::{Characterising, text};
use crate::Usage;
use crate::input::Input;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::text::{count, counted, size};

/// A trace that is in shards.
#[derive(Args)]
pub struct Shards {
    /// Write the outline of a shard to OUT, which has what the other shards need of it
    #[arg(long, value_name = "OUT")]
    outline: Option<PathBuf>,
    /// Write the statistics of a shard to OUT, to be merged with those of the others
    #[arg(long, value_name = "OUT")]
    partial: Option<PathBuf>,
    /// Outline of the whole trace [default: the files are all of it]
    #[arg(long, value_name = "OUTLINE", requires = "partial", conflicts_with = "merge")]
    of: Option<PathBuf>,
    /// Keep one of N pages, and of N pairs of requests; N is a power of two [default: 1/1, all exact]
    #[arg(long, value_name = "1/N", requires = "partial", conflicts_with = "merge", value_parser = halvings)]
    sample: Option<u32>,
    /// Merge the FILES, which are partials, and print the statistics; or write the merged partial or outline
    #[arg(long, conflicts_with_all = ["intervals", "interval", "device_size", "format", "columns", "record", "volume"])]
    merge: bool,
}

/// A rate as the power of two of its denominator.
fn halvings(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("1/").and_then(|number| number.parse::<u64>().ok());
    let found = number.filter(|number| number.is_power_of_two() && *number <= 1 << 32);
    found.map(u64::ilog2).ok_or_else(|| format!("found '{text}', expected 1/N, N a power of two such as 64"))
}

/// A file that was written.
#[derive(JsonSchema, Serialize)]
pub struct Written {
    /// Path.
    file: String,
    /// Size in bytes.
    bytes: u64,
    /// Shards that it is of.
    shards: usize,
    /// The number of the first of them in the whole trace, from one; `None` for an outline.
    first_shard: Option<usize>,
    /// Shards of the whole trace; `None` for an outline.
    all_shards: Option<usize>,
    /// Requests.
    requests: u64,
    /// Pages that are in it; `None` for an outline.
    pages: Option<u64>,
}

impl Written {
    fn text(&self) -> String {
        let of = self.all_shards.map_or(String::new(), |all| format!(" of {}", count(all as u64)));
        let pages = self.pages.map_or(String::new(), |pages| format!(", {}", counted(pages, "page")));
        let (shards, requests) = (count(self.shards as u64), counted(self.requests, "request"));
        format!("{}: {shards}{of} shards, {requests}{pages}; {}\n", self.file, size(self.bytes))
    }
}

impl Shards {
    /// Whether there are any.
    pub fn are_meant(&self) -> bool {
        self.merge || self.outline.is_some() || self.partial.is_some()
    }
}

/// Writes an outline or a partial, or merges them.
pub fn run(shards: &Shards, input: &Input, how: &Characterising, form: &Form) -> anyhow::Result<()> {
    let (outline, partial) = (shards.outline.as_deref(), shards.partial.as_deref());
    for out in [outline, partial].into_iter().flatten() {
        output::expect_folder(out)?;
    }
    match (shards.merge, outline, partial) {
        (_, Some(_), Some(_)) => {
            Err(Usage("--partial: found --outline too, expected one of them".to_owned()).into())
        }
        (true, Some(out), None) => {
            let all: Vec<Outline> = input.files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
            let whole = Outline::merge(all)?;
            if whole.shards() == 0 {
                bail!("found no requests in any shard, expected some: does the trace have the --volume?");
            }
            save_outline(out, &whole, form)
        }
        (true, None, Some(out)) => save_partial(out, &merged(&input.files)?, form),
        (true, None, None) => {
            let stats = merged(&input.files)?.finish()?;
            form.print(&stats, "top_processes", || text(&stats))
        }
        (false, Some(out), None) => save_outline(out, &outlined(input)?, form),
        (false, None, Some(out)) => match characterised(shards, input, how)? {
            Some(partial) => save_partial(out, &partial, form),
            None => nothing_of_it(out, form),
        },
        (false, None, None) => Ok(()),
    }
}

/// Whether a shard has no request of the volume that is meant.
fn lacks_volume(error: &TraceError, input: &Input) -> bool {
    input.reading.has_volume() && matches!(error, TraceError::Setting { setting: "the volume", .. })
}

/// A shard without a request of the volume has no partial: the others have all of it.
fn nothing_of_it(out: &Path, form: &Form) -> anyhow::Result<()> {
    let file = out.display().to_string();
    output::warn(&[format!("{file}: not written, since the shard has no request of the volume")]);
    let (first_shard, all_shards) = (None, None);
    let written = Written { file, bytes: 0, shards: 0, first_shard, all_shards, requests: 0, pages: None };
    form.print(&written, "", String::new)
}

/// The outline of the files: without a shard if they have no request of the volume that is meant.
fn outlined(input: &Input) -> anyhow::Result<Outline> {
    let progress = Progress::spinner("reading the trace");
    let mut reader = Reader::open(&input.found()?, &input.reading.options(true))?;
    let (mut outlining, mut done) = (Outlining::default(), 0_u64);
    for record in reader.by_ref() {
        match record {
            Ok(record) => outlining.note(&record),
            Err(error) if lacks_volume(&error, input) => return Ok(Outline::default()),
            Err(error) => return Err(error.into()),
        }
        done += 1;
        if done % 65_536 == 0 {
            progress.step(&format!("reading the trace: {} records", count(done)));
        }
    }
    output::warn(reader.warnings());
    outlining.note_names(reader.named_processes());
    Ok(outlining.finish(&name(&input.files), reader.start().unwrap_or_default(), reader.volumes()))
}

/// The statistics of the files, as those of a shard; `None` if there is nothing of the volume that is meant in a shard
/// of several.
fn characterised(shards: &Shards, input: &Input, how: &Characterising) -> anyhow::Result<Option<Partial>> {
    let outline = match &shards.of {
        Some(file) => read(file)?,
        None => outlined(input)?,
    };
    let progress = Progress::measured();
    let mut reader = Reader::open(&input.found()?, &input.reading.options(true))?;
    let mut analysis = None;
    let mut done = 0;
    while let Some(record) = reader.next() {
        let record = match record {
            Err(error) if shards.of.is_some() && lacks_volume(&error, input) => return Ok(None),
            record => record?,
        };
        if analysis.is_none() {
            let id = (name(&input.files), reader.start().unwrap_or(Nanos::ZERO));
            let halvings = shards.sample.unwrap_or(0);
            let options = how.options()?;
            analysis =
                Some(PartAnalysis::new(&outline, (&id.0, id.1), reader.volumes(), &options, halvings)?);
        }
        if done % 65_536 == 0 {
            progress.at("characterising", done, outline.requests() / outline.shards() as u64);
        }
        done += 1;
        if let Some(analysis) = &mut analysis {
            analysis.follow(&record);
        }
    }
    if shards.of.is_some() {
        output::warn(reader.warnings());
    }
    let analysis =
        analysis.ok_or_else(|| anyhow!("{}: found no requests, expected some", name(&input.files)))?;
    Ok(Some(analysis.finish(reader.names())?))
}

/// The name of a shard: that of its first file.
fn name(files: &[PathBuf]) -> String {
    let name = |file: &PathBuf| file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    files.first().map(name).unwrap_or_default()
}

/// All partials as one.
fn merged(files: &[PathBuf]) -> anyhow::Result<Partial> {
    let progress = Progress::measured();
    // One after another in the order of the trace: two are in memory at a time, if the files are given in that order.
    let mut parts: Vec<Partial> = Vec::new();
    for (done, file) in (0..).zip(files) {
        progress.at("merging", done, files.len() as u64);
        let next = read::<Partial>(file)?;
        match parts.pop() {
            Some(last) if last.is_before(&next) => {
                let both = Partial::merge(vec![last, next]);
                parts.push(both.with_context(|| file.display().to_string())?);
            }
            last => parts.extend(last.into_iter().chain([next])),
        }
    }
    Ok(Partial::merge(parts)?)
}

fn read<T: Kind>(file: &Path) -> anyhow::Result<T> {
    let read = || anyhow::Ok(shards::read(File::open(file)?)?);
    read().with_context(|| file.display().to_string())
}

fn save(out: &Path, value: &impl Kind) -> anyhow::Result<u64> {
    let write = || {
        let mut file = Output::plain_file(out, true)?;
        shards::write(value, &mut file)?;
        file.finish()
    };
    write().with_context(|| out.display().to_string())
}

fn save_outline(out: &Path, outline: &Outline, form: &Form) -> anyhow::Result<()> {
    let written = Written {
        bytes: save(out, outline)?,
        file: out.display().to_string(),
        shards: outline.shards(),
        first_shard: None,
        all_shards: None,
        requests: outline.requests(),
        pages: None,
    };
    form.print(&written, "", || written.text())
}

fn save_partial(out: &Path, partial: &Partial, form: &Form) -> anyhow::Result<()> {
    let written = Written {
        bytes: save(out, partial)?,
        file: out.display().to_string(),
        shards: partial.shards(),
        first_shard: Some(partial.first_shard()),
        all_shards: Some(partial.all_shards()),
        requests: partial.requests(),
        pages: Some(partial.pages()),
    };
    form.print(&written, "", || written.text())
}
