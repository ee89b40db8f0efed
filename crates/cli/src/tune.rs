//! `seekless lab tune`: searches the options of a layer with which it saves most on a trace.

mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::Args;
use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use seekless_core::Size;
use seekless_drive::Model;
use seekless_lab::report;
use seekless_lab::tune::{All, Base, Parameter, Point, Search, Step, Tried, Tuned, lines, surface};
use seekless_layers::registry;
use seekless_trace::Trace;

use crate::Usage;
use crate::output::{self, Form, with_causes};
use crate::parse::option;
use crate::progress::Progress;
use crate::setup::{BOPT, RECONFIGURE, Setup, line};
use crate::started;
use crate::text::shell_word;
use crate::trace::load;

/// Examples, as `--help` shows them.
pub const HELP: &str = "\
Examples:
  seekless lab tune --trace data/svnserver2
  seekless lab tune --trace data/svnserver2 --bopt 4GiB --svg surface.svg
  seekless lab tune --trace data/mail --vary write_buffer=0,0.4,0.8 \\
    --vary reconfigure=2,8,32
  seekless lab tune --trace data/mail --layer cache \\
    --vary size=16MiB,64MiB,256MiB --vary policy=lru,arc,s3-fifo

Without --vary the search is over BORG's BOPT up to --bopt, its write buffer, the number of reconfigurations, training, \
planner and copies on read, but for those that are given as options. How it searches: docs/book/tuning.md.";

/// Values that BORG's parameters take without `--vary`, but for the sizes of its BOPT.
const USUAL: [(&str, &[&str]); 5] = [
    ("write_buffer", &["0.0", "0.2", "0.4", "0.6", "0.8"]),
    (RECONFIGURE, &["2", "4", "8", "16", "32"]),
    ("training", &["cumulative", "decayed", "partial"]),
    ("planner", &["greedy", "path-cover", "runs"]),
    ("copy_on_read", &["0B", "128MiB"]),
];
/// Halvings of the largest BOPT.
const HALVINGS: u32 = 3;
/// Smallest BOPT that is tried without `--vary`.
const LEAST_BOPT: u64 = 16 << 20;

/// Arguments of `lab tune`.
#[derive(Args)]
pub struct Arguments {
    /// Files of one recording, or its name
    #[arg(long, value_name = "FILES", num_args = 1.., required = true)]
    trace: Vec<PathBuf>,
    /// Vary this parameter over these values, instead of the usual ones: a key of the layer, bopt or reconfigure; may
    /// be repeated, and the first two are the surface
    #[arg(long, value_name = "KEY=VALUES", value_parser = option)]
    vary: Vec<(String, String)>,
    /// Number of threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// Draw the surface of the first two parameters to this SVG file too
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Overwrite the SVG file
    #[arg(long, requires = "svg")]
    force: bool,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    form: Form,
}

/// Searches, and prints the result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Before the trace is read: errors in the arguments are reported immediately.
    let space = arguments.space()?;
    if let Some(path) = &arguments.svg {
        output::expect_room(path, arguments.force)?;
        if space.len() < 2 {
            return Err(Usage("--svg: found one parameter, expected two for a surface".into()).into());
        }
    }
    let trace = load(&arguments.trace)?;
    output::warn(&trace.warnings);
    let tuned = arguments.tuned(&trace, &space)?;
    if let (Some(path), Some(surface)) = (&arguments.svg, &tuned.surface) {
        output::file(path, &report::surface(&tuned.setup, surface))?;
    }
    arguments.form.print(&tuned, "tried", || text::text(&tuned))
}

impl Arguments {
    /// The parameters, each value checked.
    fn space(&self) -> anyhow::Result<Vec<Parameter>> {
        let layer = self.setup.layer_name()?;
        let mut space: Vec<Parameter> = Vec::new();
        for (name, values) in &self.vary {
            if space.iter().any(|known| known.name == *name) {
                return Err(Usage(format!("--vary: found {name} twice, expected each once")).into());
            }
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            space.push(Parameter { name: name.clone(), values });
        }
        if self.vary.is_empty() {
            if layer != Some(registry::DEFAULT) {
                let found = layer.unwrap_or("none");
                let why = format!(
                    "--layer: found {found} without --vary, expected --vary KEY=VALUES for a layer other than borg"
                );
                return Err(Usage(why).into());
            }
            space = self.usual();
        }
        for Parameter { name, values } in &space {
            for value in values {
                let wrong = |why: String| Usage(format!("--vary {name}: found '{value}': {why}"));
                let setup = self.setup.with(name, value).map_err(wrong)?;
                setup.experiment().map_err(|error| wrong(with_causes(&error)))?;
            }
        }
        Ok(space)
    }

    /// BORG's parameters.
    fn usual(&self) -> Vec<Parameter> {
        let largest = self.setup.bopt_bytes();
        let sizes = (0..=HALVINGS).rev().map(|halved| largest >> halved);
        let sizes: Vec<String> = sizes
            .filter(|size| *size == largest || *size >= LEAST_BOPT && size % 4_096 == 0)
            .map(|size| Size(size).to_string().replace(' ', ""))
            .collect();
        let mut space = vec![Parameter { name: BOPT.to_owned(), values: sizes }];
        for (name, values) in USUAL.iter().filter(|(name, _)| !self.setup.is_given(name)) {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            space.push(Parameter { name: (*name).to_owned(), values });
        }
        space
    }

    /// The search.
    fn tuned(&self, trace: &Trace, space: &[Parameter]) -> anyhow::Result<Tuned> {
        let now = |parameter: &Parameter| {
            parameter.values.iter().position(|value| self.setup.has(&parameter.name, value)).unwrap_or(0)
        };
        let start: Point = space.iter().map(now).collect();
        let counts = space.iter().map(|parameter| parameter.values.len()).collect();
        let mut search = Search::new(counts, start.clone());
        let bar = Progress::measured();
        let first = self.setup.experiment_for(trace)?;
        let base = Base::measure(trace, &first, &|now| bar.at(now.what, now.done, now.of))?;
        let runs = Runs { setup: &self.setup, space, trace, base: &base, drive: &first.drive };
        let threads = usize::from(self.threads.unwrap_or(0));
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().context("threads")?;
        let mut all = All::new();
        let best = loop {
            let points = match search.step() {
                Step::Done(best) => break best,
                Step::Measure(points) => points,
            };
            for (point, tried) in pool.install(|| runs.all(&points, all.len(), &bar)) {
                search.add(point.clone(), tried.error.is_none().then_some(tried.busy_s));
                all.insert(point, tried);
            }
        };
        drop(bar);
        let at = |point: &Point| all.get(point).cloned().unwrap_or_default();
        let Some(best) = best else {
            anyhow::bail!("the search cannot start: {}", at(&start).error.unwrap_or_default())
        };
        Ok(Tuned {
            trace: trace.sources.iter().map(|path| path.display().to_string()).collect(),
            setup: line(&first),
            base_busy_s: base.busy_s(),
            parameters: space.to_vec(),
            start: at(&start),
            best: at(&best),
            lines: lines(&search, space, &best, &all),
            surface: surface(&search, space, &best, &all),
            command: self.command(&at(&best)),
            tried: all.into_values().collect(),
        })
    }

    /// The command that compares the best combination with the bare drive.
    fn command(&self, best: &Tried) -> String {
        let mut words = vec!["seekless".to_owned(), "lab".to_owned(), "compare".to_owned()];
        let given = started::words().into_iter().map(|word| word.to_string_lossy().into_owned());
        words.extend(kept(given.skip(2)));
        for (name, value) in &best.settings {
            match name.as_str() {
                BOPT => words.extend([BOPT_FLAG.to_owned(), value.clone()]),
                RECONFIGURE => words.extend([RECONFIGURE_FLAG.to_owned(), value.clone()]),
                _ if self.setup.has(name, value) => {}
                _ => words.extend(["--option".to_owned(), format!("{name}={value}")]),
            }
        }
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Runs of a search.
struct Runs<'a> {
    setup: &'a Setup,
    space: &'a [Parameter],
    trace: &'a Trace,
    base: &'a Base<'a>,
    /// The drive of all of them.
    drive: &'a Model,
}

impl Runs<'_> {
    /// Tries these points, on all threads; `before` were tried already.
    fn all(&self, points: &[Point], before: usize, bar: &Progress) -> Vec<(Point, Tried)> {
        let (what, of) = (varied(self.space, points), (before + points.len()) as u64);
        let done = AtomicU64::new(before as u64);
        bar.at(&what, before as u64, of);
        let tried = points.par_iter().map(|point| {
            let tried = self.one(point).unwrap_or_else(|error| Tried {
                settings: settings(self.space, point),
                error: Some(with_causes(&error)),
                ..Tried::default()
            });
            bar.at(&what, done.fetch_add(1, Ordering::Relaxed) + 1, of);
            (point.clone(), tried)
        });
        tried.collect()
    }

    fn one(&self, point: &Point) -> anyhow::Result<Tried> {
        let settings = settings(self.space, point);
        let mut setup = self.setup.clone();
        for (name, value) in &settings {
            setup = setup.with(name, value).map_err(anyhow::Error::msg)?;
        }
        let mut experiment = setup.experiment_for(self.trace)?;
        experiment.drive = self.drive.clone();
        Ok(self.base.compared(settings, &experiment)?)
    }
}

const BOPT_FLAG: &str = "--bopt";
const RECONFIGURE_FLAG: &str = "--reconfigure";
/// Arguments of the search, each with a value, and those without one.
const OF_THE_SEARCH: [&str; 5] = ["--vary", "--svg", "--threads", BOPT_FLAG, RECONFIGURE_FLAG];
const SWITCHES: [&str; 3] = ["--force", "--json", "--csv"];

/// The arguments that are not those of the search, or replaced by what it found.
fn kept(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if std::mem::take(&mut is_value) || SWITCHES.contains(&name) {
            continue;
        }
        if OF_THE_SEARCH.contains(&name) {
            is_value = !word.contains('=');
            continue;
        }
        kept.push(word);
    }
    kept
}

/// The values of a point, by parameter.
fn settings(space: &[Parameter], point: &Point) -> BTreeMap<String, String> {
    let value =
        |(parameter, value): (&Parameter, &usize)| (parameter.name.clone(), parameter.values[*value].clone());
    space.iter().zip(point).map(value).collect()
}

/// What differs between points, in words.
fn varied(space: &[Parameter], points: &[Point]) -> String {
    let differs = |at: &usize| points.iter().any(|point| point[*at] != points[0][*at]);
    let names: Vec<&str> = (0..space.len()).filter(differs).map(|at| space[at].name.as_str()).collect();
    if names.is_empty() { "tuning".to_owned() } else { names.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_what_is_not_of_the_search() {
        let words = "--trace a b --vary x=1,2 --vary=y=3 --bopt 4GiB --drive d --svg f.svg --json --speed=2";
        let kept = kept(words.split(' ').map(str::to_owned));
        assert_eq!(kept, ["--trace", "a", "b", "--drive", "d", "--speed=2"]);
    }

    #[test]
    fn what_varies_is_named() {
        let parameter =
            |name: &str| Parameter { name: name.to_owned(), values: vec!["1".into(), "2".into()] };
        let space = [parameter("a"), parameter("b")];
        assert_eq!(varied(&space, &[vec![0, 1]]), "tuning");
        assert_eq!(varied(&space, &[vec![0, 1], vec![1, 1]]), "a");
        assert_eq!(varied(&space, &[vec![0, 0], vec![1, 1]]), "a and b");
    }
}
