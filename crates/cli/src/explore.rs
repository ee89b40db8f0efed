//! `seekless lab explore`: cuts a volume's power wherever it may hurt, and judges what a restart finds.

use std::path::PathBuf;

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use seekless_lab::explore::campaign::{Campaign, Explored};
use seekless_lab::explore::{Finding, Options};
use seekless_lab::{volume_file, workload};
use serde::Serialize;

use crate::output;
use crate::progress::Progress;
use crate::table::Table;
use crate::text::count;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless lab explore mapper.toml --workload churn
  seekless lab explore mapper.toml --workload churn:outstanding=8 --states 1000000 --seed 7
  seekless lab explore mapper.toml --workload random:size=4KiB,reads=0% --json | jq .states";

/// What is explored.
#[derive(Args)]
pub struct Arguments {
    /// The volume; its components become memory that loses power
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// What is asked of it: a workload with its options
    #[arg(long, value_name = "WORKLOAD", default_value = "churn")]
    workload: String,
    /// Requests a run; there are as many runs as it takes
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    requests: u64,
    /// New crash states, after which it ends
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// States a moment of a run, at most
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    each: u64,
    /// Crashes one after the other
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=8))]
    depth: u64,
    /// Clients that ask at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    clients: u64,
    /// All chance follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What is told of an exploration.
#[derive(Serialize)]
struct Told {
    volume: String,
    workload: String,
    seed: u64,
    /// Distinct crash states: by what the components hold.
    states: u64,
    states_by_depth: Vec<u64>,
    metadata_states: u64,
    judged: u64,
    read_whole: u64,
    sectors_judged: u64,
    moments: u64,
    runs: u64,
    longest_answer_ms: f64,
    cpu_s: f64,
    states_per_cpu_s: f64,
    finding: Option<String>,
}

/// Explores.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let description = volume_file::read(&arguments.volume)?;
    let load = workload::parse(&arguments.workload)?;
    let options = Options {
        states: arguments.states,
        each: arguments.each,
        depth: arguments.depth,
        clients: arguments.clients,
        seed: arguments.seed,
    };
    let campaign = Campaign { description: &description, load: &load, requests: arguments.requests, options };
    let bar = Progress::measured();
    let before = cpu_seconds();
    let explored = campaign.explore(&|now| bar.at(now.what, now.done, now.of))?;
    let cpu_s = cpu_seconds() - before;
    drop(bar);
    let told = told(arguments, &explored, cpu_s);
    if arguments.json {
        output::json(&told)?
    } else {
        output::print(&text(&told))?
    }
    match told.finding {
        Some(_) => anyhow::bail!("a promise is broken, see above"),
        None => Ok(()),
    }
}

fn told(arguments: &Arguments, explored: &Explored, cpu_s: f64) -> Told {
    let tally = &explored.tally;
    Told {
        volume: arguments.volume.display().to_string(),
        workload: arguments.workload.clone(),
        seed: arguments.seed,
        states: tally.states,
        states_by_depth: tally.by_depth.clone(),
        metadata_states: tally.metadata_states,
        judged: tally.judged,
        read_whole: tally.whole,
        sectors_judged: tally.sectors,
        moments: tally.moments,
        runs: tally.runs,
        longest_answer_ms: tally.longest.seconds() * 1e3,
        cpu_s,
        states_per_cpu_s: tally.states as f64 / cpu_s.max(1e-9),
        finding: explored.finding.as_ref().map(|Finding { wrong, .. }| wrong.clone()),
    }
}

fn text(told: &Told) -> String {
    let mut table = Table::new(&["", ">"]);
    let depths: Vec<String> = told.states_by_depth.iter().map(|states| count(*states)).collect();
    let rows = [
        ("crash states, all different", count(told.states)),
        ("after one crash, two, ...", depths.join(", ")),
        ("different in metadata", count(told.metadata_states)),
        ("restarts judged", count(told.judged)),
        ("of those read whole", count(told.read_whole)),
        ("sectors read and judged", count(told.sectors_judged)),
        ("moments at which power went", count(told.moments)),
        ("runs", count(told.runs)),
        ("longest answer, ms", format!("{:.3}", told.longest_answer_ms)),
        ("CPU seconds", format!("{:.2}", told.cpu_s)),
        ("states a CPU second", count(told.states_per_cpu_s as u64)),
    ];
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    let found = told.finding.as_deref().unwrap_or("nothing wrong was found");
    format!("{}, {}\n{}\n{found}\n", told.volume, told.workload, table.text())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
