//! Options of an experiment: drive, layer, queue, pace.

mod lines;
mod vary;

use clap::{Args, ValueEnum};
use seekless_core::names;
use seekless_core::{Nanos, SECTOR_BYTES};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Model, Policy, QueueOptions};
use seekless_lab::{Clock, Experiment, LabError, LayerSetup, Pace, Partition, Play};
use seekless_layers::registry::{self, Entry};
use seekless_layers::schedule::{SCHEDULES, Schedule};
use seekless_trace::Trace;
use seekless_volume::Description;
use seekless_volume::duration;
use serde::Serialize;

use crate::Usage;
use crate::auto::{self, AUTO, USUAL};
use crate::filling::Filling;
use crate::noted::{self, Noted};
use crate::parse::{number_or_text, on_or_off, option, place, speed, whole_sectors};
pub use lines::{line, pace_line};
pub use vary::{BOPT, RECONFIGURE};

/// Default limit of outstanding requests.
pub const OUTSTANDING: usize = 8;

/// Sectors of the BOPT if none are given.
const USUAL_BOPT: u64 = (1 << 30) / SECTOR_BYTES;

/// Acceleration of the BORG paper's replays (section 6.1).
const PAPER_SPEED: f64 = 168.0;

/// Layer name that stands for no layer.
const NONE: &str = "none";

/// A column of a comparison: its name, and its layer if it has one.
type Column = (String, Option<&'static Entry>);

/// Options of an experiment, with their defaults.
#[derive(Clone, Args)]
pub struct Setup {
    /// Name of a drive, or a TOML file; auto: wd2500aaks, or the smallest disk of usual speed that fits
    #[arg(long, value_name = "NAME", default_value = AUTO)]
    drive: String,
    /// Layer over the drive: any layer that needs one device, borg, or none; `lab compare` takes several separated by
    /// commas, of which the first is the base, and compares a single one with the bare drive
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = registry::DEFAULT)]
    layer: Vec<String>,
    /// Size of BORG's optimised partition (BOPT)
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = whole_sectors)]
    bopt: u64,
    /// Part of the BOPT that absorbs writes, 0 to 1 [default: 0.4]
    #[arg(long, value_name = "PART")]
    write_buffer: Option<f64>,
    /// Smallest weight of an edge of the access graph along which groups grow [default: 1]
    #[arg(long, value_name = "TIMES")]
    threshold: Option<u32>,
    /// Learn a layout from all requests, from those since the last reconfiguration, or from all with the weight of
    /// older ones halved each time [default: cumulative]
    #[arg(long, value_name = "WINDOW")]
    training: Option<Training>,
    /// Number of reconfigurations, after equal numbers of requests; or when: "when it pays", idle, "every 10m". A
    /// volume file that says so itself goes before
    #[arg(long, value_name = "TIMES|WHEN", default_value = "8", value_parser = schedule)]
    reconfigure: Schedule,
    /// Size of the clients' volume, from the start of the drive [default: what the trace reaches, in whole GiB]
    #[arg(long, value_name = "SIZE", value_parser = whole_sectors)]
    over: Option<u64>,
    /// Start of the BOPT on its drive: a size with its unit, or a sector; the clients' volume goes around it [default:
    /// after the clients' volume; on a drive of its own 0]
    #[arg(long, value_name = "SIZE|SECTOR", value_parser = place)]
    bopt_at: Option<u64>,
    /// A drive of its own for the BOPT: a name or a TOML file
    #[arg(long, value_name = "NAME")]
    bopt_drive: Option<String>,
    #[arg(long, value_name = "NAME", default_value = "c-look",
        help = format!("Which request comes next: {}", Policy::NAMES))]
    scheduler: Policy,
    /// Longest wait in the queue before a request goes next regardless of the scheduler; 0s for no limit
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    starvation_limit: Nanos,
    /// Pace of a trace: closed: in the recorded order, a process's next read waits for its previous one; open: at the
    /// recorded times; paper: as the BORG paper, 168 times as fast, and at the recorded times during reconfigurations
    #[arg(long, default_value = "closed")]
    pace: PaceName,
    /// With open pace or the paper's: speed-up over the recorded times [default: 1, the paper's 168]
    #[arg(long, value_name = "FACTOR", value_parser = speed)]
    speed: Option<f64>,
    /// With closed pace: limit of outstanding requests [default: 8]; for a workload its outstanding= [default: 1]
    #[arg(long, visible_alias = "iodepth", value_name = "N")]
    outstanding: Option<usize>,
    /// Do not merge adjacent requests in the queue
    #[arg(long)]
    no_merge: bool,
    /// Queue depth of the drive, which then orders its commands itself: 1 to its limit [default: a disk gets one at a
    /// time, and the scheduler sees the head's position; flash gets its limit]
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Turn the drive's write cache on or off [default: as its file says]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    write_cache: Option<bool>,
    /// Guaranteed share of the head's time for background work, 1 to 99 per cent; reconfigurations of BORG
    /// have an option of their own
    #[arg(long, value_name = "PCT", default_value_t = 20)]
    background_share: u8,
    /// Set any other option of the layer, as on its page: overwrite=in-place, segment=512KiB; with several layers
    /// cache.size=64MiB; may be repeated
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = option)]
    options: Vec<(String, String)>,
    /// Let the trace go on (run) or wait (stop) during a reconfiguration
    #[arg(long, value_name = "CLOCK", default_value = "run")]
    reconfigure_clock: ClockName,
    /// Class of a reconfiguration's copies: background, or free, only while the head waits anyway (turns --freeblock
    /// on) [default: background]
    #[arg(long, value_name = "CLASS")]
    reconfigure_class: Option<MoveClass>,
    /// Carry out requests of class free while the head waits for other requests' sectors
    #[arg(long)]
    freeblock: bool,
    #[command(flatten)]
    filling: Filling,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Class of a reconfiguration's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum MoveClass {
    Background,
    Free,
}

/// Pace of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PaceName {
    Closed,
    Open,
    Paper,
}

/// Behaviour of the trace during a reconfiguration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClockName {
    Run,
    Stop,
}

/// Requests that a layout is learnt from.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Training {
    Cumulative,
    Partial,
    Decayed,
}

/// Options of layers that have flags of their own: see [`Entry::flags`].
#[derive(Serialize)]
struct Flags {
    write_buffer: Option<f64>,
    threshold: Option<u32>,
    training: Option<Training>,
    reconfigure_class: Option<MoveClass>,
}

impl Setup {
    /// The experiment, as far as it is defined without a trace.
    pub fn experiment(&self) -> anyhow::Result<Experiment> {
        self.on(self.first_drive(), self.only_layer()?)
    }

    /// The experiment on a trace, with a drive that fits it if none is named and there is one.
    pub fn experiment_for(&self, trace: &Trace) -> anyhow::Result<Experiment> {
        let layer = self.only_layer()?;
        let mut found = self.fitting(&[(String::new(), layer)], trace)?;
        Ok(found.swap_remove(0).1)
    }

    /// The experiments of a comparison, as far as they are defined without a trace; the base first.
    pub fn experiments(&self) -> anyhow::Result<Vec<(String, Experiment)>> {
        self.of_each(&self.columns()?, self.first_drive())
    }

    /// The experiments of a comparison, on a drive that fits the trace if none is named and there is one.
    pub fn experiments_for(&self, trace: &Trace) -> anyhow::Result<Vec<(String, Experiment)>> {
        self.fitting(&self.columns()?, trace)
    }

    /// Why the drive of an experiment on a trace was taken, if none was named.
    pub fn because(&self, experiment: &Experiment, trace: &Trace, noted: Option<&Noted>) -> Option<String> {
        auto::because(&self.drive, &experiment.drive, trace, noted)
    }

    /// The name of the drive, or that any may be taken.
    pub fn drive(&self) -> &str {
        &self.drive
    }

    /// How to play a trace.
    pub fn play(&self) -> anyhow::Result<Play> {
        let clock = if self.reconfigure_clock == ClockName::Run { Clock::Run } else { Clock::Stop };
        let (pace, seed) = (self.pace()?, self.seed);
        let reconfigure = if let Schedule::Times(times) = self.reconfigure { times } else { 0 };
        let play = Play { pace, reconfigure, clock, seed, bounds: false, accesses: false };
        play.check()?;
        Ok(play)
    }

    /// The drive to try first.
    fn first_drive(&self) -> &str {
        if self.drive == AUTO { USUAL } else { &self.drive }
    }

    fn of_each(&self, columns: &[Column], drive: &str) -> anyhow::Result<Vec<(String, Experiment)>> {
        columns.iter().map(|(name, layer)| Ok((name.clone(), self.on(drive, *layer)?))).collect()
    }

    fn fitting(&self, columns: &[Column], trace: &Trace) -> anyhow::Result<Vec<(String, Experiment)>> {
        let (usual, end) = (self.of_each(columns, self.first_drive())?, trace.end_sector());
        // Options that do not fit are an error, not a reason for a larger drive.
        let is_plain = self.over.is_none() && self.bopt_at.is_none() && self.bopt <= USUAL_BOPT;
        let unfit = |one: &Experiment| match one.places("", end) {
            Err(LabError::Unfit { .. }) => true,
            placed => placed.is_err() && is_plain,
        };
        if self.drive != AUTO {
            return Ok(usual);
        }
        let noted = noted::of(trace)?;
        let is_large = usual[0].1.drive.sectors() >= auto::sectors(noted.as_ref());
        if is_large && !usual.iter().any(|(_, one)| unfit(one)) {
            return Ok(usual);
        }
        let mut disks = usual[0].1.fitting(end);
        for (_, other) in &usual[1..] {
            let fit = other.fitting(end);
            disks.retain(|(name, _)| fit.iter().any(|(other, _)| other == name));
        }
        match auto::smallest(auto::as_large(disks, noted.as_ref())) {
            Some((name, _)) => self.of_each(columns, name),
            None => Ok(usual),
        }
    }

    fn pace(&self) -> anyhow::Result<Pace> {
        match (self.pace, self.speed, self.outstanding) {
            (PaceName::Closed, None, _) => {
                Ok(Pace::Closed { outstanding: self.outstanding.unwrap_or(OUTSTANDING) })
            }
            (PaceName::Open, speed, None) => Ok(Pace::Open { speed: speed.unwrap_or(1.0) }),
            (PaceName::Paper, speed, None) => Ok(Pace::Accelerated { speed: speed.unwrap_or(PAPER_SPEED) }),
            (PaceName::Closed, Some(_), _) => {
                Err(Usage("--speed: found with --pace closed, expected --pace open".into()).into())
            }
            (open, _, Some(_)) => {
                let found = if open == PaceName::Open { "open" } else { "paper" };
                let why = format!("--outstanding: found with --pace {found}, expected --pace closed");
                Err(Usage(why).into())
            }
        }
    }

    /// The experiment on a drive, with a layer.
    fn on(&self, drive: &str, layer: Option<&'static Entry>) -> anyhow::Result<Experiment> {
        let play = self.play()?;
        let mut drive = Model::find(drive)?;
        let most = drive.queue().depth;
        if let Some(depth) = self.depth.filter(|depth| !(1..=most).contains(depth)) {
            let expected = format!("1 to {most}, which the queue of {} holds", drive.name());
            return Err(Usage(format!("--depth: found {depth}, expected {expected}")).into());
        }
        if let Some(on) = self.write_cache {
            drive.set_write_cache(on);
        }
        let experiment = Experiment {
            drive,
            over_sectors: self.over,
            layer: layer.map(|entry| self.setup_of(entry)).transpose()?,
            queue: QueueOptions {
                policy: self.scheduler,
                merge: !self.no_merge,
                background_share_pct: self.background_share,
                starvation_limit: self.starvation_limit,
                depth: self.depth,
                yielding: None,
                freeblock: self.freeblock(layer),
            },
            pace: play.pace,
            reconfigure: play.reconfigure,
            schedule: Some(self.reconfigure).filter(|schedule| !matches!(schedule, Schedule::Times(_))),
            clock: play.clock,
            seed: play.seed,
            bounds: false,
            accesses: false,
        };
        // All of it comes from options.
        experiment.check(None).map_err(|error| Usage(error.to_string()))?;
        Ok(experiment)
    }

    /// Freeblock options; on if any option needs them, or the layer may.
    fn freeblock(&self, layer: Option<&registry::Entry>) -> Option<FreeOptions> {
        let layer = layer.is_some_and(registry::Entry::uses_freeblock);
        let wanted = layer || self.freeblock || self.filling.is_told() || self.reconfigure_class.is_some();
        wanted.then(|| self.filling.options())
    }

    /// The named layers; `None` for none.
    fn layers(&self) -> anyhow::Result<Vec<Column>> {
        let mut columns: Vec<Column> = Vec::new();
        let fits = |entry: &registry::Entry| entry.devices.len() <= 1 && !entry.is_over_several();
        for name in self.layer.iter().map(|name| name.trim()) {
            let found = registry::find(name).filter(|entry| fits(entry));
            if name != NONE && found.is_none() {
                let fit = registry::all().filter(|entry| fits(entry));
                let fitting: Vec<&str> = fit.map(|entry| entry.name).collect();
                let known = fitting.join(", ");
                let perhaps = names::perhaps(name, fitting.iter().copied().chain([NONE]));
                let why = format!(
                    "--layer: found '{name}', expected {known} or none; a volume file can stack them{perhaps}"
                );
                return Err(Usage(why).into());
            }
            if columns.iter().any(|(other, _)| other == name) {
                return Err(Usage(format!("--layer: found {name} twice, expected each once")).into());
            }
            columns.push((name.to_owned(), found));
        }
        for (key, _) in &self.options {
            let place = key.split_once('.').map(|(layer, _)| layer);
            let layered = columns.iter().filter(|(_, layer)| layer.is_some());
            let meant = layered.filter(|(name, _)| place.is_none_or(|place| place == name)).count();
            let expected = match (place, meant) {
                (_, 1) => continue,
                (Some(_), _) => "an option of a layer of --layer",
                (None, 0) => "none without a layer",
                (None, _) => "the layer before it, as in cache.size, where --layer names several",
            };
            return Err(Usage(format!("--option: found {key}, expected {expected}")).into());
        }
        self.check_flags(&columns)?;
        Ok(columns)
    }

    /// The only layer.
    fn only_layer(&self) -> anyhow::Result<Option<&'static Entry>> {
        match self.layers()?.as_slice() {
            [(_, layer)] => Ok(*layer),
            several => {
                let found: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                let found = found.join(",");
                Err(Usage(format!("--layer: found {found}, expected one; lab compare takes several")).into())
            }
        }
    }

    /// Columns of a comparison: a single layer is compared with the bare drive.
    fn columns(&self) -> anyhow::Result<Vec<Column>> {
        let mut columns = self.layers()?;
        if let [(_, layer)] = columns.as_slice() {
            if layer.is_none() {
                let why = "--layer: found none, expected a layer to compare the bare drive with";
                return Err(Usage(why.into()).into());
            }
            columns.insert(0, ("vanilla".to_owned(), None));
        }
        Ok(columns)
    }

    /// A layer with its options, and with a part of the drive if it needs a second device.
    fn setup_of(&self, entry: &'static Entry) -> anyhow::Result<LayerSetup> {
        let mut options = (entry.defaults)();
        let flags = self.flags()?.into_iter();
        options.extend(flags.filter(|(key, _)| entry.flags.contains(&key.as_str())));
        for (key, value) in &self.options {
            let key = match key.split_once('.') {
                Some((layer, key)) if layer == entry.name => key,
                Some(_) => continue,
                None => key,
            };
            options.insert(key.to_owned(), typed(entry, key, value));
        }
        let why = |why: String| Usage(format!("--option: {}", why.trim_end().replace('\n', ", ")));
        if !self.options.is_empty() {
            entry.check(&options).map_err(|refused| {
                let meant = names::nearest_quoted(&refused.found, &refused.expected);
                why(meant
                    .map_or_else(|| refused.to_string(), |meant| format!("{refused}; perhaps `{meant}`")))
            })?;
        }
        let drive = self.bopt_drive.as_deref().map(Model::find).transpose()?;
        let partition = Partition { sectors: self.bopt, at_sector: self.bopt_at, drive };
        Ok(LayerSetup { entry, options, partition: Some(partition).filter(|_| !entry.devices.is_empty()) })
    }

    /// The flags that were given, by the layers' options that they set.
    fn flags(&self) -> anyhow::Result<toml::Table> {
        let flags = Flags {
            write_buffer: self.write_buffer,
            threshold: self.threshold,
            training: self.training,
            reconfigure_class: self.reconfigure_class,
        };
        Ok(toml::Table::try_from(flags)?)
    }

    /// Refuses a flag that no layer of the experiment has.
    fn check_flags(&self, columns: &[Column]) -> anyhow::Result<()> {
        for key in self.flags()?.keys() {
            let has = |entry: &Entry| entry.flags.contains(&key.as_str());
            if !columns.iter().any(|(_, layer)| layer.is_some_and(has)) {
                let (flag, found) = (key.replace('_', "-"), self.layer.join(","));
                let fit = registry::all().filter(|entry| has(entry)).map(|entry| entry.name);
                let fit = fit.collect::<Vec<_>>().join(" or ");
                let why = format!("--{flag}: found with --layer {found}, expected {fit} among the layers");
                return Err(Usage(why).into());
            }
        }
        Ok(())
    }

    /// Refuses options of a trace: a workload defines its own arrivals.
    pub fn expect_closed(&self) -> anyhow::Result<()> {
        if self.pace != PaceName::Closed {
            let why =
                "--pace: found with a workload, expected closed: a workload defines its own arrivals (rate=)";
            return Err(Usage(why.into()).into());
        }
        Ok(())
    }

    /// Limit of outstanding requests, if given.
    pub fn outstanding(&self) -> Option<usize> {
        self.outstanding
    }

    /// The volume of a workload: the whole drive.
    pub fn volume(&self) -> anyhow::Result<Description> {
        self.expect_closed()?;
        Ok(self.experiment()?.whole_volume()?)
    }

    /// Seed of all random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// A number of reconfigurations, or when they are.
fn schedule(text: &str) -> Result<Schedule, String> {
    let times = text.parse().map(Schedule::Times);
    times.or_else(|_| text.parse()).map_err(|_: &str| {
        let perhaps = names::perhaps(text, ["when it pays", "idle", "on command"]);
        format!("expected a number such as 8, or {SCHEDULES}{perhaps}")
    })
}

/// An option's value in its layer's type: a string where the option is one, otherwise by its form.
pub fn typed(entry: &Entry, key: &str, value: &str) -> toml::Value {
    let text = || toml::Value::from(value);
    if let Some(default) = (entry.defaults)().get(key) {
        // A size may be a plain number, and is still a string.
        return if default.is_str() { text() } else { looks_like(value) };
    }
    let takes = |value: toml::Value| entry.check(&toml::Table::from_iter([(key.to_owned(), value)])).is_ok();
    let look = looks_like(value);
    if !takes(look.clone()) && takes(text()) { text() } else { look }
}

fn looks_like(value: &str) -> toml::Value {
    value.parse().map_or_else(|_| number_or_text(value), toml::Value::Boolean)
}
