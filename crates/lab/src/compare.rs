//! Compare: the same requests without a layer and with it, phase by phase.

use std::cell::RefCell;

use seekless_core::runtime::{Event, Runtime};
use seekless_core::units::thousands;
use seekless_core::{Account, Nanos};
use seekless_drive::Work;
use seekless_layers::borg::{Reconfigured, Sides, Traffic};
use seekless_trace::Trace;

use crate::experiment::{Clock, Experiment, LabError, Pace, Places, Progress, sources};
use crate::outcome::{self, Comparison, DriveWork, HeadTime, Settings, Variant};
use crate::phases::{Phase, Reconfigure, Repeat};
use crate::replay::{Load, replay};
use crate::volume::Volume;

/// What is told of every event of a run.
pub type EventSink = Box<dyn FnMut(Nanos, &Event)>;

/// The account of the final write-back.
const FINAL: &str = "final";

/// A run as it was: what each phase cost.
struct Played {
    phases: Vec<Phase>,
    work: Vec<Work>,
    /// Nothing was counted without a layer that counts.
    sides: Option<Vec<Sides>>,
    reconfigured: Vec<Reconfigured>,
    missed: u64,
    load: Load,
    /// Of the drive.
    arms: usize,
    map_bytes: u64,
    longest_mover_wait: Nanos,
    event_hash: u64,
}

/// Plays the trace without the experiment's layer and with it.
pub fn compare(
    trace: &Trace,
    experiment: &Experiment,
    progress: &dyn Fn(Progress),
) -> Result<Comparison, LabError> {
    let places = fit(trace, experiment)?;
    let told = |what: &'static str| move |now: Progress| progress(Progress { what, ..now });
    let layered = play(trace, experiment, &places, None, None, &mut told("with the layer"))?;
    let plain =
        play(trace, &experiment.vanilla(), &places, Some(&layered.phases), None, &mut told("vanilla"))?;
    let settings = settings(trace, experiment, &places);
    let name = experiment.layer.as_ref().map_or("vanilla", |layer| layer.name.as_str());
    let requests = trace.records.len() as u64;
    let vanilla = plain.variant("vanilla", &plain, requests);
    let layer = layered.variant(name, &plain, requests);
    let notes = notes(&layered, &plain, &layer, experiment);
    Ok(Comparison {
        settings,
        reduction_pct: layer.reduction_pct,
        net_reduction_pct: layer.net_reduction_pct,
        foreground_reduction_pct: layer.foreground_reduction_pct,
        reconfiguring_requests_pct: layer.reconfiguring_requests_pct,
        variants: vec![vanilla, layer],
        notes,
    })
}

/// Plays the trace once; its reductions are against itself, hence zero.
pub fn run_trace(
    trace: &Trace,
    experiment: &Experiment,
    events: Option<EventSink>,
    progress: &dyn Fn(Progress),
) -> Result<Variant, LabError> {
    let places = fit(trace, experiment)?;
    let played = play(trace, experiment, &places, None, events, &mut |now| progress(now))?;
    let name = experiment.layer.as_ref().map_or("vanilla", |layer| layer.name.as_str());
    Ok(played.variant(name, &played, trace.records.len() as u64))
}

fn fit(trace: &Trace, experiment: &Experiment) -> Result<Places, LabError> {
    experiment.check(Some(trace))?;
    experiment.places(&sources(trace), trace.end_sector())
}

fn play(
    trace: &Trace,
    experiment: &Experiment,
    places: &Places,
    repeat: Option<&[Phase]>,
    events: Option<EventSink>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Played, LabError> {
    let runtime = Runtime::new(experiment.seed);
    if let Some(sink) = events {
        runtime.watch_events(sink);
    }
    let played = RefCell::new(None);
    let result: Result<(), LabError> = runtime.run(async {
        let volume = Volume::new(&experiment.volume(places)).await?;
        let records = &trace.records;
        let (top, pace) = (volume.top.clone(), experiment.pace);
        let (mut phases, load, reconfigured, missed) = if let Some(borg) = &volume.borg {
            let requests = records.len() as u64;
            let mut director =
                Reconfigure::new(borg.clone(), requests, experiment.reconfigure, experiment.clock);
            let load = replay(records, top, pace, &mut director, progress).await?;
            let reconfigured = director.finish().await?;
            (director.phases().to_vec(), load, reconfigured, director.missed())
        } else {
            let whole = [Phase { name: "N1".to_owned(), first_request: 0 }];
            let phases = repeat.unwrap_or(&whole);
            let load = replay(records, top, pace, &mut Repeat::new(phases), progress).await?;
            (phases.to_vec(), load, Vec::new(), 0)
        };
        phases.retain(|phase| phase.name != FINAL);
        phases.push(Phase { name: FINAL.to_owned(), first_request: records.len() as u64 });
        if let Some(borg) = &volume.borg {
            borg.write_home(Account((phases.len() - 1) as u16)).await?;
        }
        played.replace(Some(Played::of(&volume, phases, load, reconfigured, missed)));
        Ok(())
    })?;
    result?;
    let event_hash = runtime.event_hash();
    let played = played.into_inner().map(|played| Played { event_hash, ..played });
    played.ok_or(LabError::Stalled(seekless_core::runtime::Stalled { at: runtime.now() }))
}

impl Played {
    fn of(
        volume: &Volume,
        phases: Vec<Phase>,
        load: Load,
        reconfigured: Vec<Reconfigured>,
        missed: u64,
    ) -> Played {
        let accounts = || (0..phases.len()).map(|index| Account(index as u16));
        Played {
            work: accounts().map(|account| volume.account(account)).collect(),
            sides: volume.borg.as_ref().map(|borg| accounts().map(|account| borg.sides(account)).collect()),
            arms: volume.arms().max(1),
            map_bytes: volume.borg.as_ref().map_or(0, |borg| borg.map_bytes()),
            longest_mover_wait: volume.borg.as_ref().map_or(Nanos::ZERO, |borg| borg.longest_wait()),
            event_hash: 0,
            phases,
            reconfigured,
            missed,
            load,
        }
    }

    fn requests_of(&self, index: usize, all: u64) -> u64 {
        let next = self.phases.get(index + 1).map_or(all, |next| next.first_request);
        next - self.phases[index].first_request
    }

    /// The first phase of the first reconfiguration; the first of all where there is none.
    fn first_reconfiguration(&self) -> usize {
        self.phases.iter().position(|phase| phase.name.starts_with('R')).unwrap_or(0)
    }

    fn variant(&self, name: &str, vanilla: &Played, requests: u64) -> Variant {
        let mut all = Work::default();
        self.work.iter().for_each(|work| all.add(work));
        let from = self.first_reconfiguration();
        let after = || (from..self.phases.len()).filter(|&index| self.phases[index].name != FINAL);
        let settled: Vec<usize> = after().filter(|&index| self.phases[index].name.starts_with('N')).collect();
        let whole: Vec<usize> = (from..self.phases.len()).collect();
        let busy = |work: &Work| work.busy();
        let reconfiguring: u64 = after()
            .filter(|&index| self.phases[index].name.starts_with('R'))
            .map(|index| self.requests_of(index, requests))
            .sum();
        let sides = self.sides.as_ref().map(|phases| {
            let mut all = Sides::default();
            for sides in phases {
                all.add(sides);
            }
            sides_of(&all)
        });
        Variant {
            name: name.to_owned(),
            work: drive_work(&all),
            served_from_bopt_pct: sides.as_ref().map_or(0.0, hit_pct),
            sides,
            reduction_pct: self.reduction(vanilla, &settled, busy),
            net_reduction_pct: self.reduction(vanilla, &whole, busy),
            foreground_reduction_pct: self.reduction(vanilla, &whole, |work| work.foreground),
            reconfiguring_requests_pct: percent(reconfiguring, requests),
            mean_queue: all.queued as f64 / (all.busy().0 as f64).max(1.0),
            merge_ratio: all.requests as f64 / (all.commands as f64).max(1.0),
            elapsed_s: self.load.end.seconds(),
            idle_s: (self.load.end.seconds() - self.occupied_until_the_end().seconds() / self.arms as f64)
                .max(0.0),
            map_bytes: self.map_bytes,
            longest_mover_wait_ms: round(self.longest_mover_wait.seconds() * 1e3),
            phases: (0..self.phases.len()).map(|index| self.phase(index, vanilla, requests)).collect(),
            reconfigurations: self
                .reconfigured
                .iter()
                .zip(1..)
                .map(|(done, n)| reconfiguration(done, n))
                .collect(),
            seek_histogram: histogram(&all),
            event_hash: format!("{:016x}", self.event_hash),
        }
    }

    /// How long its arms had something to do up to the last answer.
    fn occupied_until_the_end(&self) -> Nanos {
        let phases = self.phases.iter().zip(&self.work);
        phases.filter(|(phase, _)| phase.name != FINAL).map(|(_, work)| work.occupied).sum()
    }

    /// 1 - ours / vanilla's over these phases, in per cent.
    fn reduction(&self, vanilla: &Played, phases: &[usize], of: impl Fn(&Work) -> Nanos) -> f64 {
        let sum = |played: &Played| phases.iter().map(|&index| of(&played.work[index])).sum::<Nanos>();
        saved(sum(self), sum(vanilla))
    }

    fn phase(&self, index: usize, vanilla: &Played, requests: u64) -> outcome::Phase {
        let (work, theirs) = (&self.work[index], &vanilla.work[index]);
        let sides = self.sides.as_ref().map(|phases| sides_of(&phases[index]));
        outcome::Phase {
            name: self.phases[index].name.clone(),
            first_request: self.phases[index].first_request,
            requests: self.requests_of(index, requests),
            work: drive_work(work),
            vanilla_busy_s: theirs.busy().seconds(),
            reduction_pct: saved(work.busy(), theirs.busy()),
            served_from_bopt_pct: sides.as_ref().map_or(0.0, hit_pct),
            sides,
        }
    }
}

fn saved(ours: Nanos, vanilla: Nanos) -> f64 {
    if vanilla == Nanos::ZERO { 0.0 } else { round(100.0 * (1.0 - ours.0 as f64 / vanilla.0 as f64)) }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { round(100.0 * part as f64 / whole as f64) }
}

/// Per cent to three digits: what is behind them is noise in a report.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn drive_work(work: &Work) -> DriveWork {
    let background = work.busy().since(work.foreground);
    DriveWork {
        head: HeadTime::of(work),
        foreground_s: work.foreground.seconds(),
        background_s: background.seconds(),
        seeks: work.seeks,
        mean_seek_cylinders: round(work.cylinders as f64 / (work.seeks as f64).max(1.0)),
        nonsequential_pct: percent(work.seeks, work.blocks_read),
        blocks_read: work.blocks_read,
        blocks_written: work.blocks_written,
    }
}

fn sides_of(sides: &Sides) -> outcome::Sides {
    outcome::Sides {
        above: side(&sides.above),
        below: side(&sides.below),
        background: side(&sides.background),
        pages: sides.pages,
        hits: sides.hits,
        splits: sides.splits,
        absorbed_pages: sides.absorbed,
        drained_pages: sides.drained,
    }
}

fn side(traffic: &Traffic) -> outcome::Side {
    outcome::Side {
        requests: traffic.requests,
        seeks: traffic.seeks,
        crossings: traffic.crossings,
        mean_seek_bytes: traffic.mean_seek_bytes().round(),
        nonsequential_pct: percent(traffic.seeks, traffic.blocks_read),
        blocks_read: traffic.blocks_read,
        blocks_written: traffic.blocks_written,
    }
}

fn hit_pct(sides: &outcome::Sides) -> f64 {
    percent(sides.hits, sides.pages)
}

fn reconfiguration(done: &Reconfigured, number: u64) -> outcome::Reconfiguration {
    let stage = |stage: &seekless_layers::borg::Stage| outcome::Stage {
        name: stage.name.to_owned(),
        seconds: stage.took.seconds(),
        pages: stage.pages,
    };
    outcome::Reconfiguration {
        name: format!("R{number}"),
        start_s: done.start.seconds(),
        stages: done.stages.iter().map(stage).collect(),
        vertices: done.vertices,
        edges: done.edges,
        planned_pages: done.planned_pages,
        copied_pages: done.copied_pages,
        promoted_pages: done.promoted_pages,
    }
}

fn histogram(work: &Work) -> Vec<(u64, u64)> {
    let last = work.by_distance.iter().rposition(|&count| count > 0);
    let bins = work.by_distance.iter().enumerate().take(last.map_or(0, |last| last + 1));
    bins.map(|(bin, &count)| (1 << bin, count)).collect()
}

fn settings(trace: &Trace, experiment: &Experiment, places: &Places) -> Settings {
    let (pace, outstanding, speed) = match experiment.pace {
        Pace::Closed { outstanding } => ("closed", outstanding as u64, 1.0),
        Pace::Open { speed } => ("open", 0, speed),
    };
    Settings {
        trace: trace.sources.iter().map(|path| path.display().to_string()).collect(),
        drive: experiment.drive.name().to_owned(),
        pace: pace.to_owned(),
        scheduler: experiment.queue.policy.to_string(),
        starvation_limit_ms: experiment.queue.starvation_limit.seconds() * 1e3,
        depth: experiment.queue.depth,
        write_cache: experiment.drive.write_cache(),
        outstanding,
        speed,
        merge: experiment.queue.merge,
        over_bytes: places.over_sectors * 512,
        bopt_bytes: places.bopt_sectors * 512,
        bopt_at_sector: places.bopt_at,
        write_buffer: experiment.layer.as_ref().map_or(0.0, |layer| layer.options.write_buffer),
        reconfigure: u64::from(experiment.reconfigure),
        background_share_pct: f64::from(experiment.queue.background_share_pct),
        reconfigure_clock: if experiment.clock == Clock::Run { "run" } else { "stop" }.to_owned(),
        reconfigure_class: experiment.reconfigure_class().to_owned(),
        freeblock: experiment.queue.freeblock.map(|free| free.policy.to_string()),
    }
}

fn notes(layered: &Played, plain: &Played, layer: &Variant, experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    if experiment.drive.disk().is_none() {
        notes.push(
            "A flash drive has no head: its busy time is that of all commands, many of which go on at once, and says little about how long the work took.".to_owned(),
        );
    }
    if layer.reconfiguring_requests_pct > 50.0 {
        notes.push(format!(
            "{:.0} % of the requests came while a reconfiguration ran: reduction_pct means little, since it leaves them out. Look at net_reduction_pct, or reconfigure less often.",
            layer.reconfiguring_requests_pct
        ));
    }
    if layered.missed > 0 {
        notes.push(format!(
            "{} of {} reconfigurations were never started: the one before ran to the end of the trace.",
            layered.missed, experiment.reconfigure
        ));
    }
    for (name, played) in [("vanilla", plain), (layer.name.as_str(), layered)] {
        if matches!(experiment.pace, Pace::Open { .. }) && played.load.only_grows() {
            let quarters = played.load.at_quarters.map(thousands).join(" / ");
            notes.push(format!(
                "{name}: the queue only grew (outstanding after each quarter of the requests: {quarters}). The drive cannot keep up with the recorded times, so this measures a backlog: try --pace closed, or a lower --speed."
            ));
        }
    }
    notes
}

/// The listener of a run as one line an event; `page` keeps only what touches that page of the volume.
pub fn event_lines(page: Option<u64>, mut line: impl FnMut(String) + 'static) -> EventSink {
    Box::new(move |at, event| {
        let touches = |extent: seekless_core::Extent| page.is_none_or(|page| extent.pages().contains(&page));
        let text = match event {
            Event::Did { layer, what, home, at } if touches(*home) => {
                format!("{layer} {what}: {home}, at sector {at} of its device")
            }
            _ if page.is_some() => return,
            Event::Did { .. } => return,
            Event::Timer { sequence } => format!("timer {sequence}"),
            Event::Request { device, id, op, extent, class } => {
                format!("device {device} request {id}: {op} {extent}, {class:?}")
            }
            Event::Complete { device, id, ok } => {
                format!("device {device} request {id}: {}", if *ok { "done" } else { "failed" })
            }
            Event::Offloaded { cost } => format!("offloaded work is back after {cost}"),
        };
        line(format!("{:.9} {text}", at.seconds()));
    })
}
