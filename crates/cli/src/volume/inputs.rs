//! The recording of a run's inputs (`volume serve --log-inputs`), and `seekless lab replay`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use seekless_layers::Refused;
use seekless_serve::reactor::inputs::{Recorder, Replayed, Replayer};
use seekless_serve::reactor::{Kind, Reactor};
use seekless_volume::description::{Description, Leaf, VolumeError};
use seekless_volume::file;
use serde::{Deserialize, Serialize};

use super::component::{Facts, Live};
use super::ground::Ground;
use super::serve::{self, Serving};
use crate::output;
use crate::table::Table;
use crate::text::count;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume serve home.toml --log-inputs home.inputs
  seekless lab replay home.inputs
  seekless lab replay home.inputs --json | jq .departed

The same program issues the same requests in the same order. If it does not, the first difference is reported.";

/// Arguments of `lab replay`.
#[derive(Args)]
pub struct Arguments {
    /// File written by volume serve --log-inputs
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Description of the run: the text at the beginning of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    program: String,
    volume: PathBuf,
    text: String,
    io: String,
    process: u32,
    components: BTreeMap<String, Facts>,
}

/// Creates the recording of a run.
pub fn begin(
    file: &Path,
    volume: &Path,
    description: &Description<Live>,
    kind: Kind,
) -> anyhow::Result<Recorder> {
    let text = std::fs::read_to_string(volume).with_context(|| volume.display().to_string())?;
    let components = description.components.iter().map(|(name, live)| Ok((name.clone(), live.facts()?)));
    let run = Run {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        volume: volume.to_owned(),
        text,
        io: kind.to_string(),
        process: std::process::id(),
        components: components.collect::<anyhow::Result<_>>()?,
    };
    let text = serde_json::to_string(&run)?;
    Recorder::create(file, &text, output::complain).with_context(|| file.display().to_string())
}

/// A component of a recorded run.
struct Again(Live);

impl Leaf for Again {
    type Keys = toml::Table;

    fn read(file: &str, name: &str, mut keys: toml::Table) -> Result<Again, VolumeError> {
        let wrong = |found: String| VolumeError {
            place: format!("{file}: component.{name}"),
            found,
            expected: "what was found when it was served".to_owned(),
        };
        let facts = keys.remove(FOUND).ok_or_else(|| wrong("nothing".to_owned()))?;
        let facts: Facts = facts.try_into().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let keys = toml::Value::Table(keys).try_into();
        let keys = keys.map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        Live::recalled(file, name, keys, facts).map(Again)
    }

    fn sectors(&self) -> u64 {
        self.0.sectors()
    }

    fn check(&self) -> Result<(), Refused> {
        self.0.check()
    }

    fn line(&self) -> String {
        self.0.line()
    }
}

/// The key for a component's properties in a replay.
const FOUND: &str = "found";

/// The volume that was served.
fn described(run: &Run) -> anyhow::Result<Description<Live>> {
    let mut keys: toml::Table = toml::from_str(&run.text)?;
    let components = keys.get_mut("component").and_then(toml::Value::as_table_mut);
    for (name, component) in components.into_iter().flatten() {
        let facts = run.components.get(name).with_context(|| format!("component.{name} was not there"))?;
        let component = component.as_table_mut().context("a component without keys")?;
        component.insert(FOUND.to_owned(), toml::Value::try_from(facts)?);
    }
    let Description { file, components, slices, layers, top, exports, control, tls, clients, explore } =
        file::parse_of::<Again>(&run.volume.display().to_string(), &toml::to_string(&keys)?)?;
    let components = components.into_iter().map(|(name, again)| (name, again.0)).collect();
    Ok(Description { file, components, slices, layers, top, exports, control, tls, clients, explore })
}

/// JSON output.
#[derive(Serialize)]
struct Outcome {
    turns: u64,
    jobs: u64,
    jobs_of_components: u64,
    virtual_s: f64,
    digest: String,
    /// Whether the file contains the run to its end.
    complete: bool,
    departed: Option<String>,
}

/// Replays a file, and reports whether the same was done.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let place = || arguments.file.display().to_string();
    let opened = Replayer::open(&arguments.file, |text| {
        let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let kind = [Kind::Uring, Kind::Threads].into_iter().find(|kind| kind.to_string() == run.io);
        let kind = kind.ok_or_else(|| format!("found io '{}', expected io_uring or threads", run.io))?;
        Ok((run, kind))
    });
    let (replayer, run) = opened.map_err(anyhow::Error::msg).with_context(place)?;
    let description = described(&run).with_context(place)?;
    let places = serve::places(&description, true)?;
    let reactor = Reactor::replaying(replayer);
    let runtime = serve::runtime(&reactor);
    let serving =
        Serving { volume: &run.volume, ground: Ground::Replay, process: run.process, reactor: &reactor };
    let served = async {
        let served = std::pin::pin!(serve::serve(&serving, &description, places, None));
        let over = std::pin::pin!(reactor.replay_end());
        futures_util::future::select(served, over).await;
    };
    runtime.run_live(served, &*reactor)?;
    reactor.end(runtime.event_hash());
    let found = reactor.outcome();
    let departed = found.diverged.clone();
    output::print(&told(&found, &run, arguments.json)?)?;
    match departed {
        Some(where_to) => bail!("{}: it departed: {where_to}", place()),
        None => Ok(()),
    }
}

fn told(found: &Replayed, run: &Run, json: bool) -> anyhow::Result<String> {
    let digest = format!("{:016x}", found.digest);
    let complete = found.ended.is_some();
    if json {
        let outcome = Outcome {
            turns: found.turns,
            jobs: found.jobs,
            jobs_of_components: found.component_jobs,
            virtual_s: found.time.seconds(),
            digest,
            complete,
            departed: found.diverged.clone(),
        };
        return Ok(serde_json::to_string(&outcome)? + "\n");
    }
    let mut table = Table::new(&["", ">"]);
    table.row(["volume", &run.volume.display().to_string()]);
    table.row(["turns".to_owned(), count(found.turns)]);
    table.row(["jobs, the same".to_owned(), count(found.jobs)]);
    table.row(["of them of components".to_owned(), count(found.component_jobs)]);
    table.row(["virtual time".to_owned(), format!("{:.3} s", found.time.seconds())]);
    table.row(["digest", &digest]);
    let end =
        if complete { "of the run, with the same events" } else { "of the file: it is cut short there" };
    table.row(["to the end", if found.diverged.is_some() { "no" } else { end }]);
    Ok(table.text())
}
