//! `seekless lab sweep`: the same traces on many volumes, drives and options, on all cores.

mod rows;
mod runner;
mod text;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use seekless_lab::sweep::{Report, Row, Sweep, SweepError, Task, expand, file, hash_file};
use serde::Serialize;

use self::rows::Rows;
use crate::manual;
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::shipped;
use crate::started;
use crate::text::{count, counted, shell_word};

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless lab sweep sweep.toml
  seekless lab sweep sweep.toml --list
  seekless lab sweep sweep.toml --report sweep.html
  seekless lab sweep sweep.toml --out results --json | jq '.best[0]'
  seekless lab sweep sweep.toml --out results --shard $SLURM_ARRAY_TASK_ID/16
  parallel seekless lab sweep sweep.toml --out results --shard {}/4 ::: 1 2 3 4
  seekless lab sweep merge sweep.toml results

A sweep that was interrupted continues when it is started again. The file and the results: docs/book/sweep.md.";

/// Examples of `merge`.
const MERGE_HELP: &str = "\
Examples:
  seekless lab sweep merge sweep.toml results
  seekless lab sweep merge sweep.toml machine1 machine2 --out results";

/// Arguments of `lab sweep`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The sweep
    #[arg(value_name = "FILE.toml", required = true)]
    file: Option<PathBuf>,
    /// Folder of the results, created if it is missing [default: the file's name, with .results]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Run one part of N, such as 2/16, and leave table and report to `lab sweep merge`
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// List the tasks instead of running them; with --json one object a line
    #[arg(long, conflicts_with_all = ["out", "threads"])]
    list: bool,
    /// Write the report to this HTML file too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "shard"])]
    report: Option<PathBuf>,
    /// Overwrite the HTML file
    #[arg(long, requires = "report")]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// Subcommands of `lab sweep`.
#[derive(Subcommand)]
enum Command {
    /// Make table and report of the results of all shards
    #[command(after_help = MERGE_HELP)]
    Merge(Merge),
}

/// Arguments of `lab sweep merge`.
#[derive(Args)]
struct Merge {
    /// The sweep
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Folders of the shards' results
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// Folder of table and report [default: the first of the folders]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write the report to this HTML file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the HTML file
    #[arg(long, requires = "report")]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// A part of a sweep: of N parts, the I-th has the tasks I, I + N, I + 2 N and so on.
#[derive(Clone, Copy)]
struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(format!("found '{text}', expected I/N, I from 1 to N")),
        }
    }
}

impl Shard {
    const WHOLE: Shard = Shard { number: 1, of: 1 };

    fn tasks<T>(self, tasks: &[T]) -> impl Iterator<Item = &T> {
        tasks.iter().skip(self.number - 1).step_by(self.of)
    }
}

/// A finished shard.
#[derive(JsonSchema, Serialize)]
pub struct Done {
    shard: usize,
    shards: usize,
    tasks: u64,
    tasks_in_all: u64,
    /// Tasks that this process ran; the others were done before.
    ran: u64,
}

impl Done {
    fn text(&self, file: &Path, folder: &Path) -> String {
        let word = |path: &Path| shell_word(&path.display().to_string());
        format!(
            "shard {} of {}: {} of {} done, {} of them now\nafter the last shard: seekless lab sweep merge {} {}\n",
            self.shard,
            self.shards,
            counted(self.tasks, "task"),
            count(self.tasks_in_all),
            count(self.ran),
            word(file),
            word(folder)
        )
    }
}

/// Runs the sweep, or merges its results.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(Command::Merge(merge)) = &arguments.command {
        return run_merge(merge);
    }
    // Required without a subcommand.
    let Some(path) = &arguments.file else { return Ok(()) };
    arguments.report.as_deref().map_or(Ok(()), |page| output::expect_room(page, arguments.force))?;
    let (sweep, tasks) = tasks(path)?;
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    if arguments.list {
        return list(shard.tasks(&tasks), &arguments.form);
    }
    let folder = arguments.out.clone().unwrap_or_else(|| path.with_extension("results"));
    let rows = Rows::create(&folder, &tasks, &format!(".{}-{}", shard.number, shard.of))?;
    let mut left = Vec::new();
    for task in shard.tasks(&tasks) {
        if rows.get(&task.identity())?.is_none() {
            left.push(task);
        }
    }
    let progress = Progress::measured();
    runner::run(&left, &rows, usize::from(arguments.threads.unwrap_or(0)), &progress)?;
    drop(progress);
    if arguments.shard.is_some() {
        let own = shard.tasks(&tasks).count() as u64;
        let done = Done {
            shard: shard.number,
            shards: shard.of,
            tasks: own,
            tasks_in_all: tasks.len() as u64,
            ran: left.len() as u64,
        };
        return arguments.form.print(&done, "", || done.text(path, &folder));
    }
    finish(&sweep, &tasks, &[rows], &folder, (&arguments.form, arguments.report.as_deref()))
}

fn run_merge(arguments: &Merge) -> anyhow::Result<()> {
    arguments.report.as_deref().map_or(Ok(()), |page| output::expect_room(page, arguments.force))?;
    let (sweep, tasks) = tasks(&arguments.file)?;
    let folders = arguments.folders.iter().map(|folder| Rows::open(folder, &tasks));
    let folders = folders.collect::<anyhow::Result<Vec<_>>>()?;
    let out = arguments.out.as_ref().or(arguments.folders.first()).cloned().unwrap_or_default();
    finish(&sweep, &tasks, &folders, &out, (&arguments.form, arguments.report.as_deref()))
}

/// The sweep of a file, and its tasks.
fn tasks(path: &Path) -> anyhow::Result<(Sweep, Vec<Task>)> {
    let _progress = Progress::spinner("reading the sweep and hashing its traces");
    let mut sweep = file::read(&shipped::find(path))?;
    let folder = sweep.file.parent().unwrap_or(Path::new("")).to_owned();
    for name in sweep.grids.iter_mut().flat_map(|grid| grid.traces.iter_mut().flatten()) {
        // What lies beside the sweep's file goes before all else.
        if seekless_trace::expand(&[folder.join(&*name)]).is_err() {
            *name = shipped::find(Path::new(&*name)).display().to_string();
        }
    }
    let tasks = expand(&sweep, &program()?)?;
    Ok((sweep, tasks))
}

/// This program, with the hash of its file: one with other layers has other results.
fn program() -> anyhow::Result<String> {
    let hash = started::file().and_then(|path| hash_file(&path));
    Ok(format!("seekless {}, {}", manual::version(), hash.context("the file of this program")?))
}

fn list<'a>(tasks: impl Iterator<Item = &'a Task>, form: &Form) -> anyhow::Result<()> {
    if form.is_csv() {
        return form.print_list(&tasks.cloned().collect::<Vec<_>>(), String::new);
    }
    let mut lines = Vec::new();
    for task in tasks {
        lines.push(form.of(task, "", || format!("{}  {}\n", task.identity(), task.line()))?);
    }
    output::print(&lines.concat())
}

/// Writes the table and prints the report of all rows, which are in these folders.
fn finish(
    sweep: &Sweep,
    tasks: &[Task],
    folders: &[Rows],
    out: &Path,
    (form, page): (&Form, Option<&Path>),
) -> anyhow::Result<()> {
    let rows = all_rows(sweep, tasks, folders)?;
    write_table(sweep, tasks, &rows, out)?;
    let report = Report::of(sweep, tasks, &rows);
    if let Some(page) = page {
        output::file(page, &seekless_lab::report::sweep(&report, &output::command_line()))?;
        output::complain(&format!("report: {}", page.display()));
    }
    form.print(&report, "best", || text::text(&report))
}

/// The row of each task; an error if one is missing.
fn all_rows(sweep: &Sweep, tasks: &[Task], folders: &[Rows]) -> anyhow::Result<Vec<Row>> {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for task in tasks {
        let identity = task.identity();
        let mut found: Option<(Row, &Rows)> = None;
        for folder in folders {
            match (folder.get(&identity)?, &found) {
                (Some(row), None) => found = Some((row, folder)),
                (Some(row), Some((first, earlier))) if row != *first => {
                    return Err(SweepError::new(
                        folder.folder().display().to_string(),
                        format!("another row of the task {}", task.line()),
                        format!(
                            "that of {}: one of them is of another program or was changed",
                            earlier.folder().display()
                        ),
                    )
                    .into());
                }
                _ => {}
            }
        }
        match found {
            Some((row, _)) => rows.push(row),
            None => missing.push(task),
        }
    }
    let Some(first) = missing.first() else { return Ok(rows) };
    let names: Vec<String> = folders.iter().map(|folder| folder.folder().display().to_string()).collect();
    let found = format!(
        "no result for {} of {} tasks, such as {}",
        count(missing.len() as u64),
        count(tasks.len() as u64),
        first.line()
    );
    let expected = format!("all of {}: a shard is missing, or has not finished", sweep.file.display());
    Err(SweepError::new(names.join(", "), found, expected).into())
}

#[cfg(feature = "parquet")]
fn write_table(sweep: &Sweep, tasks: &[Task], rows: &[Row], out: &Path) -> anyhow::Result<()> {
    let program = tasks.first().map_or("", |task| &task.program);
    let bytes = seekless_lab::sweep::table::table(&sweep.parameters(), tasks, rows).parquet(program)?;
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    rows::whole_file(&out.join("table.parquet"), &bytes)
}

#[cfg(not(feature = "parquet"))]
#[allow(clippy::unnecessary_wraps, reason = "as with Parquet")]
fn write_table(_: &Sweep, _: &[Task], _: &[Row], out: &Path) -> anyhow::Result<()> {
    let why = "no table.parquet: this program was built without its default features";
    output::warn(&[format!("{}: {why}", out.display())]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use seekless_lab::sweep::expand;

    use super::*;

    #[test]
    fn two_rows_of_one_task_have_to_be_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("v.toml", "[component.disk]\ndrive = 'wd2500aaks'\n[[export]]\ntop = 'disk'\n");
        write("a.load", "0.5 ; 8 ; 8 ; R\n");
        let text = "traces = 'a.load'\nvolumes = 'v.toml'\n";
        let sweep = file::parse(&folder.path().join("s.toml"), text).unwrap();
        let tasks = expand(&sweep, "1").unwrap();
        let rows = |name: &str, error: &str| {
            let rows = Rows::create(&folder.path().join(name), &tasks, "").unwrap();
            rows.put(&tasks[0], &Row::failed(tasks[0].identity(), error.to_owned())).unwrap();
            rows
        };
        let same = all_rows(&sweep, &tasks, &[rows("one", "x"), rows("two", "x")]).unwrap();
        assert_eq!(same[0].error.as_deref(), Some("x"));
        let error = all_rows(&sweep, &tasks, &[rows("one", "x"), rows("two", "y")]).unwrap_err().to_string();
        assert!(error.contains("two: found another row of the task trace = a.load"), "{error}");
    }
}
