//! `seekless lab explore`: cuts a volume's power at critical moments, and checks what a restart finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_lab::check::history;
use seekless_lab::explore::campaign::{Campaign, Explored};
use seekless_lab::explore::case::Case;
use seekless_lab::explore::replay::{Line, replay};
use seekless_lab::explore::spent::{Part, Spent};
use seekless_lab::explore::{Finding, Options};
use seekless_lab::workload;
use seekless_lab::workload::Load;
use seekless_volume::Description;
use seekless_volume::description::Leaf;
use serde::Serialize;

use crate::junit::{self, Problem, TestCase};
use crate::output;
use crate::progress::Progress;
use crate::shipped;
use crate::table::Table;
use crate::text::count;
use crate::workload::positive_time;

/// Size of a volume from which on an exploration takes much longer for no more states.
const LARGE: u64 = 1 << 30;
/// Consecutive seeds that an exploration uses, at most.
const SEEDS: u64 = 1 << 20;

/// The error of a finding, which is printed before.
const BROKEN: &str = "a promise is broken, see above";

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless lab explore mapper.toml --workload churn
  seekless lab explore mapper.toml --workload churn:hot=90% --clients 8 --seed 7
  seekless lab explore borg.toml --commands 20 --requests 400
  seekless lab explore proximal.toml --snapshots 8
  seekless lab explore mapper.toml --all 3
  seekless lab explore mapper.toml --workload churn --json | jq .states
  seekless lab explore mapper.toml --save lost.script
  seekless lab explore mapper.toml --script lost.script --history lost.history";

/// Arguments of `lab explore`.
#[derive(Args)]
// Each is a flag on the command line.
#[allow(clippy::struct_excessive_bools)]
pub struct Arguments {
    /// Volume file; its components become memory that loses power
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Workload with its options [default: each run draws kinds and places of requests]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Requests a run; there are as many runs as needed
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    requests: u64,
    /// Send a command, such as to reconfigure or to detach, to the topmost layer in one of this many steps of a run; 0
    /// for never [default: each run draws it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    commands: Option<u64>,
    /// Take or delete a snapshot or clone of the topmost layer in one of this many steps of a run, and read and write
    /// these too; 0 for never
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["all", "script"], value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    snapshots: u64,
    /// New crash states to check before ending, not counting those of runs in which one request fails
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// Crash states at one moment of a run, at most
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    each: u64,
    /// Examine one in this many moments of a run: with a larger number, more runs for the same number of states
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "all", value_parser = clap::value_parser!(u64).range(1..))]
    one_in: u64,
    /// Requests of the run in which each request to a component fails, once and permanently; 0 for none
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    fault_requests: u64,
    /// Write every page first, so that every slot was used before
    #[arg(long)]
    fill: bool,
    /// Runs without a power cut, before all others; their reads are checked as well [default: they take turns with the
    /// others, and half of the time]
    #[arg(long, value_name = "N")]
    plain_runs: Option<u64>,
    /// Restarts that cost as much as a run without a power cut: decides how many such runs there are
    #[arg(long, value_name = "N", default_value_t = Options::default().run_costs, conflicts_with = "plain_runs", value_parser = clap::value_parser!(u64).range(1..))]
    run_costs: u64,
    /// Limit on the response time of every request, in virtual time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_time)]
    bound: Nanos,
    /// Number of crashes in a row
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=8))]
    depth: u64,
    /// Concurrent clients [default: each run draws 1 to 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    clients: Option<u64>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Continue with further seeds for this long, with as many states each
    #[arg(long = "for", value_name = "TIME", value_parser = positive_time, conflicts_with_all = ["all", "script"])]
    time: Option<Nanos>,
    /// One of several explorations that together reach all edges: do not fail for an edge that was not reached
    #[arg(long, conflicts_with_all = ["all", "script"])]
    part: bool,
    /// Instead: check all workloads of up to this many requests to two pages, with every set of survivors
    #[arg(long, value_name = "REQUESTS", conflicts_with_all = ["workload", "requests", "commands", "states", "each", "depth", "clients", "plain_runs", "fault_requests"], value_parser = clap::value_parser!(u64).range(1..=5))]
    all: Option<u64>,
    /// Instead: replay the script of an earlier finding
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "requests", "commands", "states", "each", "depth", "clients", "seed", "fill", "plain_runs", "fault_requests", "all"])]
    script: Option<PathBuf>,
    /// Report a finding as found, without reducing it
    #[arg(long, conflicts_with = "script")]
    unreduced: bool,
    /// Write the script of the reduced finding to this file
    #[arg(long, value_name = "FILE", conflicts_with = "script")]
    save: Option<PathBuf>,
    /// Write the clients' history of the reduced finding, or of the script, to this file, for `lab judge`
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Write the result to this file in `JUnit` XML: a case for the promises, and one for each edge
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "time"])]
    junit: Option<PathBuf>,
    /// Overwrite these files
    #[arg(long)]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Output {
    volume: String,
    workload: String,
    seed: u64,
    /// Distinct crash states, by the content of the components.
    states: u64,
    states_by_depth: Vec<u64>,
    metadata_states: u64,
    judged: u64,
    /// Restarts with a rotten sector of metadata, and how many of them were refused.
    rotten: u64,
    rotten_refused: u64,
    /// Restarts whose origin was written while the volume was not served.
    edited: u64,
    /// Restarts without a component, where layers can do without it.
    without_component: u64,
    without_component_closed: u64,
    read_whole: u64,
    sectors_judged: u64,
    moments: u64,
    runs: u64,
    fault_runs: u64,
    fault_most_requests: u64,
    fault_errors: u64,
    commands: u64,
    fault_failed_commands: u64,
    longest_answer_ms: f64,
    longest_answer_with_faults_ms: f64,
    longest_command_ms: f64,
    bound_ms: f64,
    edges: BTreeMap<&'static str, u64>,
    unreached: Vec<String>,
    cpu_s: f64,
    states_per_cpu_s: f64,
    /// CPU time of runs, cuts and restarts, in per cent.
    time_pct: BTreeMap<&'static str, f64>,
    finding: Option<String>,
    /// The reduced finding: the violation, and the script that leads to it.
    reduced: Option<String>,
    script: Option<String>,
}

/// JSON output of a script's replay.
#[derive(JsonSchema, Serialize)]
pub struct Replayed<'a> {
    script: &'a Path,
    /// Runs of the script, each ended by a power cut.
    runs: usize,
    /// The violation, if there was one.
    finding: Option<&'a str>,
}

impl Arguments {
    /// Explores this volume, or that of the file, with one seed.
    pub fn on(&self, volume: Option<Description>) -> anyhow::Result<Output> {
        let volume = volume.map_or_else(|| shipped::volume(&self.volume), Ok)?;
        let load = self.workload.as_deref().map(workload::parse).transpose()?;
        explore(self, &volume, load.as_ref(), self.seed)
    }
}

/// Runs the exploration.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description = shipped::volume(&arguments.volume)?;
    for file in [&arguments.save, &arguments.history, &arguments.junit].into_iter().flatten() {
        output::expect_room(file, arguments.force)?;
    }
    output::warn(&too_large(&arguments.volume, &description));
    if let Some(script) = &arguments.script {
        return replay_script(&description, script, arguments);
    }
    let load = arguments.workload.as_deref().map(workload::parse).transpose()?;
    let began = clock_gettime(ClockId::Monotonic).tv_sec as u64;
    let mut seed = arguments.seed;
    loop {
        let output_of = explore(arguments, &description, load.as_ref(), seed)?;
        if let Some(script) = &output_of.script {
            arguments.save.as_deref().map_or(Ok(()), |file| output::file(file, script))?;
            replayed(&description, &script.parse()?, arguments.history.as_deref())?;
        }
        if arguments.json {
            output::json(&output_of)?;
        } else {
            output::print(&text(&output_of))?;
        }
        if let Some(path) = &arguments.junit {
            output::file(path, &junit(&output_of, arguments.part || arguments.all.is_some()))?;
        }
        if output_of.finding.is_some() {
            return Err(crate::Finding(BROKEN.to_owned()).into());
        }
        if !output_of.unreached.is_empty() && arguments.all.is_none() && !arguments.part {
            anyhow::bail!(
                "found edges that were never reached, see above, expected all: more --states, another --workload"
            );
        }
        let passed = Nanos((clock_gettime(ClockId::Monotonic).tv_sec as u64 - began) * 1_000_000_000);
        if arguments.time.is_none_or(|time| passed >= time) {
            return Ok(());
        }
        // A run uses its seed and those that follow.
        seed = seed.wrapping_add(SEEDS);
    }
}

/// A warning about a volume of which the first states take minutes.
fn too_large(file: &Path, description: &Description) -> Vec<String> {
    let of_slices = description.slices.values().map(|slice| slice.extent.sectors);
    let whole = description.components.iter().filter(|(name, _)| {
        let is_cut = description.slices.values().any(|slice| slice.of == **name);
        !is_cut
    });
    let largest = of_slices.chain(whole.map(|(_, component)| component.sectors())).max().unwrap_or(0);
    let size = Size(largest * SECTOR_BYTES);
    let why = || {
        format!(
            "{}: found a device of {size}, expected at most {}: each restart looks at all of its pages, and small volumes \
             have more states that differ",
            file.display(),
            Size(LARGE)
        )
    };
    if size.0 > LARGE { vec![why()] } else { Vec::new() }
}

fn explore(
    arguments: &Arguments,
    description: &Description,
    load: Option<&Load>,
    seed: u64,
) -> anyhow::Result<Output> {
    let all = arguments.all.is_some();
    let options = Options {
        states: if all { u64::MAX } else { arguments.states },
        each: arguments.each,
        one_in: if all { 1 } else { arguments.one_in },
        depth: if all { 1 } else { arguments.depth },
        fill: arguments.fill,
        plain: arguments.plain_runs,
        run_costs: arguments.run_costs,
        snapshots: arguments.snapshots,
        bound: arguments.bound,
        seed,
        clock: cpu_nanos,
        ..Options::default()
    };
    let (requests, fault_requests) = (arguments.requests, arguments.fault_requests);
    let (commands, clients) = (arguments.commands, arguments.clients);
    let campaign = Campaign {
        description,
        load,
        requests,
        commands,
        clients,
        fault_requests,
        options,
        reduces: !arguments.unreduced,
    };
    let bar = Progress::measured();
    let before = cpu_nanos();
    let progress = |now: seekless_lab::Progress| bar.at(now.what, now.done, now.of);
    let explored = match arguments.all {
        Some(requests) => campaign.explore_all(requests as usize, &progress)?,
        None => campaign.explore(&progress)?,
    };
    Ok(output_of(arguments, seed, &explored, (cpu_nanos() - before) as f64 / 1e9))
}

/// The result in `JUnit` XML; `part`: an edge that was not reached is no failure.
fn junit(output_of: &Output, part: bool) -> String {
    let script = output_of.script.as_deref().unwrap_or_default();
    let finding = output_of.finding.as_deref().map_or(Ok(()), |found| Err(Problem::Failed(found, script)));
    let mut cases = vec![TestCase { name: "promises", result: finding }];
    cases.extend(output_of.edges.keys().map(|edge| TestCase { name: edge, result: Ok(()) }));
    let why = "never reached";
    let missed = || {
        if part {
            Problem::Skipped(why)
        } else {
            Problem::Failed(why, "more --states, or another --workload")
        }
    };
    cases.extend(output_of.unreached.iter().map(|edge| TestCase { name: edge, result: Err(missed()) }));
    junit::xml(&output_of.volume, output_of.cpu_s, &cases)
}

fn replay_script(description: &Description, script: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(script).with_context(|| script.display().to_string())?;
    let case: Case = text.parse().with_context(|| script.display().to_string())?;
    let fits = case.fits(description.check()?, description.components.len());
    fits.map_err(|why| anyhow::anyhow!("{}: {why}", script.display()))?;
    let violation = replayed(description, &case, arguments.history.as_deref())?;
    if arguments.json {
        output::json(&Replayed { script, runs: case.0.len(), finding: violation.as_deref() })?;
    } else {
        output::print(&format!(
            "{}: {}\n",
            script.display(),
            violation.as_deref().unwrap_or("no violation was found")
        ))?;
    }
    match violation {
        Some(_) => Err(crate::Finding(BROKEN.to_owned()).into()),
        None => Ok(()),
    }
}

/// Replays a case; returns the violation. The clients' history is written to `file`.
fn replayed(description: &Description, case: &Case, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let replayed = replay(description, case);
    if let Some(file) = file {
        let mut writer = history::Writer::new(Vec::new())?;
        replayed.history.iter().try_for_each(|line| match line {
            Line::Event(event) => writer.event(event),
            Line::Remark(text) => writer.remark(text),
        })?;
        output::file(file, &String::from_utf8_lossy(&writer.finish()?))?;
    }
    Ok(replayed.finding.map(|finding| finding.wrong))
}

fn output_of(arguments: &Arguments, seed: u64, explored: &Explored, cpu_s: f64) -> Output {
    let tally = &explored.tally;
    let violation = |finding: &Option<Finding>| finding.as_ref().map(|finding| finding.wrong.clone());
    let what = arguments.all.map(|requests| format!("all workloads of up to {requests} requests"));
    Output {
        volume: arguments.volume.display().to_string(),
        workload: what.or_else(|| arguments.workload.clone()).unwrap_or_else(|| "churn".to_owned()),
        seed,
        states: tally.states,
        states_by_depth: tally.by_depth.clone(),
        metadata_states: tally.metadata_states,
        judged: tally.judged,
        rotten: tally.rotten.0,
        rotten_refused: tally.rotten.1,
        edited: tally.edited,
        without_component: tally.gone.0,
        without_component_closed: tally.gone.1,
        read_whole: tally.whole,
        sectors_judged: tally.sectors,
        moments: tally.moments,
        runs: tally.runs,
        fault_runs: explored.faults.runs,
        fault_most_requests: explored.faults.most,
        fault_errors: explored.faults.errors,
        commands: tally.commands,
        fault_failed_commands: explored.faults.failed_commands,
        longest_answer_ms: tally.longest.seconds() * 1e3,
        longest_answer_with_faults_ms: explored.faults.longest.seconds() * 1e3,
        longest_command_ms: tally.longest_command.seconds() * 1e3,
        bound_ms: arguments.bound.seconds() * 1e3,
        edges: tally.edges.clone(),
        unreached: explored.unreached.iter().map(|(layer, edge)| format!("{layer}: {edge}")).collect(),
        cpu_s,
        states_per_cpu_s: tally.states as f64 / cpu_s.max(1e-9),
        time_pct: time_pct(&tally.spent),
        finding: violation(&explored.finding),
        reduced: violation(&explored.reduced),
        script: explored
            .reduced
            .as_ref()
            .or(explored.finding.as_ref())
            .map(|finding| finding.case.to_string()),
    }
}

fn time_pct(spent: &Spent) -> BTreeMap<&'static str, f64> {
    let all = spent.parts.iter().sum::<u64>().max(1) as f64;
    let each = Part::NAMES.iter().zip(spent.parts);
    each.map(|((_, name), part)| (*name, (1_000.0 * part as f64 / all).round() / 10.0)).collect()
}

fn text(output_of: &Output) -> String {
    let mut table = Table::new(&["", ">"]);
    let depths: Vec<String> = output_of.states_by_depth.iter().map(|states| count(*states)).collect();
    let commands = vec![
        ("commands carried out", count(output_of.commands)),
        ("commands that failed with a request", count(output_of.fault_failed_commands)),
        ("longest command, ms", format!("{:.3}", output_of.longest_command_ms)),
    ];
    let rows = [
        ("crash states, all different", count(output_of.states)),
        ("after one crash, two, ...", depths.join(" + ")),
        ("different in metadata", count(output_of.metadata_states)),
        ("restarts judged", count(output_of.judged)),
        ("of those read whole", count(output_of.read_whole)),
        ("with a rotten sector", count(output_of.rotten)),
        ("of those refused", count(output_of.rotten_refused)),
        ("with an edited origin", count(output_of.edited)),
        ("without a component", count(output_of.without_component)),
        ("of those not opened", count(output_of.without_component_closed)),
        ("sectors read and judged", count(output_of.sectors_judged)),
        ("moments at which power went", count(output_of.moments)),
        ("runs", count(output_of.runs)),
        ("runs with a request that failed", count(output_of.fault_runs)),
        ("requests answered with an error", count(output_of.fault_errors)),
        ("longest answer, ms", format!("{:.3}", output_of.longest_answer_ms)),
        ("the same with faults, ms", format!("{:.3}", output_of.longest_answer_with_faults_ms)),
        ("the bound for both, ms", format!("{:.0}", output_of.bound_ms)),
    ];
    let times = [
        ("CPU seconds", format!("{:.2}", output_of.cpu_s)),
        ("states a CPU second", count(output_of.states_per_cpu_s as u64)),
    ];
    let commands = if output_of.commands > 0 { commands } else { Vec::new() };
    for (name, value) in rows.into_iter().chain(commands).chain(times) {
        table.row([name.to_owned(), value]);
    }
    for (name, pct) in &output_of.time_pct {
        table.row([format!("  of them {name}, %"), format!("{pct:.1}")]);
    }
    let mut out =
        format!("{}, {}, seed {}\n{}", output_of.volume, output_of.workload, output_of.seed, table.text());
    if !output_of.edges.is_empty() {
        let mut edges = Table::new(&["edge", ">reached"]);
        output_of.edges.iter().for_each(|(edge, times)| edges.row([(*edge).to_owned(), count(*times)]));
        output_of.unreached.iter().for_each(|edge| edges.row([edge.as_str(), "never"]));
        out.extend(["\n", &edges.text()]);
    }
    match (&output_of.finding, &output_of.script) {
        (Some(finding), Some(script)) => {
            out.extend(["\nfound: ", finding]);
            output_of.reduced.iter().for_each(|reduced| out.extend(["\nreduced: ", reduced]));
            out.extend(["\n\n", script]);
        }
        _ => out += "\nno violation was found\n",
    }
    out
}

/// CPU nanoseconds of this process so far.
fn cpu_nanos() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
