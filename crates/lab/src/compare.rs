//! Comparison of the same requests on several volumes, phase by phase.

use seekless_core::units::thousands;
use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_layers::schedule::Schedule;
use seekless_trace::Trace;

use crate::accesses::{Accesses, Follower};
use crate::bounds;
use crate::error::LabError;
use crate::events::EventSink;
use crate::experiment::{Experiment, reconfigure_class, sources};
use crate::outcome::{Comparison, Settings, Variant};
use crate::phases::Phase;
use crate::play::{Part, Played, play};
use crate::setup::{Candidate, Clock, Pace, Play, Progress, has_processes};
use crate::variant::Shown;
use seekless_volume::description::{Description, Layer};

/// Plays the trace on each volume; the first is the base of the comparison. Volumes are named after their files.
pub fn compare_volumes(
    trace: &Trace,
    candidates: &[Candidate],
    how: &Play,
    progress: &dyn Fn(Progress),
) -> Result<Comparison, LabError> {
    let compared = compare_all(trace, candidates, how, progress)?;
    let volumes = candidates.iter().map(|candidate| candidate.volume.file.clone()).collect();
    let base = candidates.first().map(|base| &base.volume);
    let layers = candidates.iter().flat_map(|candidate| candidate.volume.layers.values());
    let settings =
        base.map_or_else(|| Ok(Settings::default()), |base| settings_of(trace, base, layers, how))?;
    Ok(Comparison { settings: Settings { volumes, ..settings }, ..compared })
}

/// Plays the trace on the experiment's drive without its layer and with it.
pub fn compare(
    trace: &Trace,
    experiment: &Experiment,
    progress: &dyn Fn(Progress),
) -> Result<Comparison, LabError> {
    let vanilla = ("vanilla".to_owned(), experiment.vanilla());
    compare_experiments(trace, &[vanilla, (experiment.name().to_owned(), experiment.clone())], progress)
}

/// As [`compare`], for several experiments that differ in their layers only, each with its name; the first is the base.
pub fn compare_experiments(
    trace: &Trace,
    experiments: &[(String, Experiment)],
    progress: &dyn Fn(Progress),
) -> Result<Comparison, LabError> {
    let mut candidates = Vec::new();
    for (name, experiment) in experiments {
        experiment.check(Some(trace))?;
        let places = experiment.places(&sources(trace), trace.end_sector())?;
        candidates.push(Candidate { name: name.clone(), volume: experiment.volume(&places) });
    }
    let layered = experiments.iter().find(|(_, experiment)| experiment.layer.is_some());
    let mapped = experiments.iter().find(|(_, experiment)| experiment.partition().is_some());
    let Some((_, first)) = mapped.or(layered).or(experiments.first()) else {
        return compare_volumes(trace, &[], &Play::default(), progress);
    };
    let compared = compare_all(trace, &candidates, &first.play(), progress)?;
    let mut notes = compared.notes;
    if first.drive.disk().is_none() {
        let note = "A flash drive has no head: its busy time is that of all commands, many of which run \
                    concurrently, and says little about the duration of the work.";
        notes.insert(0, note.to_owned());
    }
    Ok(Comparison { settings: settings(trace, first)?, notes, ..compared })
}

/// Plays the trace once on a volume; its reductions are against itself, hence zero.
pub fn run_volume(
    trace: &Trace,
    candidate: &Candidate,
    how: &Play,
    events: Option<EventSink>,
    progress: &dyn Fn(Progress),
) -> Result<Variant, LabError> {
    fits(trace, candidate, how)?;
    let played = play_one(trace, candidate, how, Vec::new(), events, progress)?;
    let shown = shown(candidate, &played, &played.phases, played.own());
    let variant = shown.variant(&shown.parts, trace.records.len() as u64);
    Ok(Variant { notes: notes_of(&variant, candidate, &played, how, false), ..variant })
}

/// As [`run_volume`], for the experiment's drive, with its layer if it has one.
pub fn run_trace(
    trace: &Trace,
    experiment: &Experiment,
    events: Option<EventSink>,
    progress: &dyn Fn(Progress),
) -> Result<Variant, LabError> {
    experiment.check(Some(trace))?;
    let places = experiment.places(&sources(trace), trace.end_sector())?;
    let candidate = Candidate { name: experiment.name().to_owned(), volume: experiment.volume(&places) };
    run_volume(trace, &candidate, &experiment.play(), events, progress)
}

/// A run, and the busy time of its drives in equal parts of the requests.
pub struct InParts {
    /// Its figures; the base is itself.
    pub variant: Variant,
    /// Seconds in each part, copies included; the final write-back is in the last.
    pub busy: Vec<f64>,
    /// Whether the drive fell ever further behind the recorded times.
    pub only_grows: bool,
}

/// Plays the trace with an experiment, and measures it in `parts` equal parts of the requests.
pub fn in_parts(
    trace: &Trace,
    name: &str,
    experiment: &Experiment,
    parts: u64,
    progress: &dyn Fn(Progress),
) -> Result<InParts, LabError> {
    experiment.check(None)?;
    let places = experiment.places(&sources(trace), trace.end_sector())?;
    let candidate = Candidate { name: name.to_owned(), volume: experiment.volume(&places) };
    let how = experiment.play();
    fits(trace, &candidate, &how)?;
    let requests = trace.records.len() as u64;
    let mut starts: Vec<u64> = (0..parts).map(|part| part * requests / parts).collect();
    starts.dedup();
    let played = play_one(trace, &candidate, &how, starts[1..].to_vec(), None, progress)?;
    let phases: Vec<Phase> =
        starts.iter().map(|start| Phase { name: "N".to_owned(), first_request: *start }).collect();
    let busy = played.along(&phases).iter().map(|part| part.work.busy().seconds()).collect();
    let shown = shown(&candidate, &played, &played.phases, played.own());
    let variant = shown.variant(&shown.parts, requests);
    let only_grows = how.pace.is_open() && played.replayed.load.only_grows();
    Ok(InParts {
        variant: Variant { notes: notes_of(&variant, &candidate, &played, &how, false), ..variant },
        busy,
        only_grows,
    })
}

fn compare_all(
    trace: &Trace,
    candidates: &[Candidate],
    how: &Play,
    progress: &dyn Fn(Progress),
) -> Result<Comparison, LabError> {
    candidates.iter().try_for_each(|candidate| fits(trace, candidate, how))?;
    let setting = |setting, found: &str, expected: &str| {
        Err(LabError::Setting { setting, found: found.to_owned(), expected: expected.to_owned() })
    };
    let Some((base, others)) = candidates.split_first() else {
        return setting("volume", "none", "at least one");
    };
    if how.bounds && !others.iter().any(|other| bounds::has_bounds(&other.volume)) {
        return setting("bounds", "no volume whose top layer has planners", "one, compared with a base");
    }
    let play = |candidate, cuts| play_followed(trace, candidate, how, cuts, progress);
    let played = others.iter().map(|other| play(other, Vec::new())).collect::<Result<Vec<_>, _>>()?;
    let (played, mut accesses): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    let mut cuts: Vec<u64> =
        played.iter().flat_map(|run| &run.phases).map(|phase| phase.first_request).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let (base_played, of_the_base) = play(base, cuts)?;
    accesses.insert(0, of_the_base);
    // If nothing reconfigures the base, it is shown in the phases of the first variant that has several.
    let own = base_played.phases.len() > 2;
    let theirs = played.iter().map(|run| &run.phases).find(|phases| !own && phases.len() > 2);
    let (phases, parts) = match theirs {
        Some(phases) => (phases, base_played.along(phases)),
        None => (&base_played.phases, base_played.own()),
    };
    let requests = trace.records.len() as u64;
    let of_base = shown(base, &base_played, phases, parts);
    let mut variants = vec![of_base.variant(&of_base.parts, requests)];
    for (other, played) in others.iter().zip(&played) {
        let along = base_played.along(&played.phases);
        let shown = shown(other, played, &played.phases, played.own());
        let mut variant = shown.variant(&along, requests);
        if how.bounds && !played.reconfigured.is_empty() && bounds::has_bounds(&other.volume) {
            let mut bound = bounds::bound(trace, other, how, &played.phases, progress)?;
            let foreground =
                |parts: &[Part]| -> Vec<Nanos> { parts.iter().map(|part| part.work.foreground).collect() };
            bound.admit(&foreground(&along), "as the base");
            bound.admit(&foreground(&shown.parts), "as the layer chose");
            shown.add_bounds(&mut variant, &bound, &along);
        }
        variants.push(variant);
    }
    let mut notes: Vec<String> = queued(trace, how.pace).into_iter().collect();
    let runs: Vec<&Played> = std::iter::once(&base_played).chain(&played).collect();
    let several = others.len() > 1;
    for ((variant, candidate), run) in variants.iter_mut().zip(candidates).zip(runs) {
        variant.notes = notes_of(variant, candidate, run, how, several);
    }
    variants.iter_mut().zip(accesses).for_each(|(variant, accesses)| variant.accesses = accesses);
    notes.extend(variants.iter().flat_map(|variant| variant.notes.clone()));
    let headline = variants.get(1).unwrap_or(&variants[0]);
    Ok(Comparison {
        settings: Settings::default(),
        reduction_pct: headline.reduction_pct,
        net_reduction_pct: headline.net_reduction_pct,
        foreground_reduction_pct: headline.foreground_reduction_pct,
        reconfiguring_requests_pct: headline.reconfiguring_requests_pct,
        variants,
        notes,
    })
}

fn shown<'a>(
    candidate: &'a Candidate,
    played: &'a Played,
    phases: &'a [Phase],
    parts: Vec<Part>,
) -> Shown<'a> {
    Shown { name: &candidate.name, volume: candidate.volume.line(), played, phases, parts }
}

/// As [`play_one`], with what the drives did, if that is to be kept.
fn play_followed(
    trace: &Trace,
    candidate: &Candidate,
    how: &Play,
    cuts: Vec<u64>,
    progress: &dyn Fn(Progress),
) -> Result<(Played, Accesses), LabError> {
    let follower = how.accesses.then(Follower::default);
    let played = play_one(trace, candidate, how, cuts, follower.as_ref().map(Follower::sink), progress)?;
    let drives = candidate.volume.components.keys().cloned();
    Ok((played, follower.map(|follower| follower.finish(drives)).unwrap_or_default()))
}

fn play_one(
    trace: &Trace,
    candidate: &Candidate,
    how: &Play,
    cuts: Vec<u64>,
    events: Option<EventSink>,
    progress: &dyn Fn(Progress),
) -> Result<Played, LabError> {
    let of = trace.records.len() as u64;
    let mut now = |done| progress(Progress { what: &candidate.name, done, of });
    play(trace, &candidate.volume, how, cuts, events, &mut now)
}

/// Checks that the trace can be played on a volume.
fn fits(trace: &Trace, candidate: &Candidate, how: &Play) -> Result<(), LabError> {
    how.check()?;
    let unfit = |found: String, expected: String| LabError::Unfit { trace: sources(trace), found, expected };
    if trace.records.is_empty() {
        return Err(unfit("no requests".to_owned(), "at least one".to_owned()));
    }
    let (size, end) = (candidate.volume.check()?, trace.end_sector());
    if end <= size {
        return Ok(());
    }
    let bytes = |sectors: u64| Size(sectors.saturating_mul(SECTOR_BYTES)).to_string();
    let name = if candidate.volume.file.is_empty() { &candidate.name } else { &candidate.volume.file };
    Err(unfit(
        format!("requests up to sector {end} ({})", bytes(end)),
        format!(
            "at most sector {size}, which {name} shows its clients ({}): give it a larger drive, slice or size",
            bytes(size)
        ),
    ))
}

fn settings(trace: &Trace, experiment: &Experiment) -> Result<Settings, LabError> {
    let places = experiment.places(&sources(trace), trace.end_sector())?;
    let write_buffer = experiment.layer.as_ref().and_then(|layer| layer.options.get("write_buffer"));
    Ok(Settings {
        drive: experiment.drive.name().to_owned(),
        scheduler: experiment.queue.policy.to_string(),
        starvation_limit_ms: experiment.queue.starvation_limit.seconds() * 1e3,
        depth: experiment.queue.depth,
        write_cache: experiment.drive.write_cache(),
        merge: experiment.queue.merge,
        over_bytes: places.over_sectors * SECTOR_BYTES,
        bopt_bytes: places.bopt_sectors * SECTOR_BYTES,
        bopt_at_sector: places.bopt_at,
        bopt_drive: experiment.partition().and_then(|own| Some(own.drive.as_ref()?.name().to_owned())),
        write_buffer: write_buffer.and_then(toml::Value::as_float).unwrap_or(0.0),
        background_share_pct: f64::from(experiment.queue.background_share_pct),
        schedule: experiment.schedule.unwrap_or(Schedule::Times(experiment.reconfigure)).to_string(),
        reconfigure_class: experiment.reconfigure_class().to_owned(),
        freeblock: experiment.queue.freeblock.map(|free| free.policy.to_string()),
        ..played_how(trace, &experiment.play())
    })
}

fn settings_of<'a>(
    trace: &Trace,
    base: &Description,
    layers: impl Iterator<Item = &'a Layer> + Clone,
    how: &Play,
) -> Result<Settings, LabError> {
    let settings = played_how(trace, how);
    let Some(component) = base.components.values().next() else { return Ok(settings) };
    let (drive, queue) = (&component.drive, &component.queue);
    let schedule = layers.clone().find_map(|layer| layer.reconfigure);
    Ok(Settings {
        drive: drive.name().to_owned(),
        scheduler: queue.policy.to_string(),
        starvation_limit_ms: queue.starvation_limit.seconds() * 1e3,
        depth: queue.depth,
        write_cache: drive.write_cache(),
        merge: queue.merge,
        over_bytes: base.check()? * SECTOR_BYTES,
        background_share_pct: f64::from(queue.background_share_pct),
        schedule: schedule.map_or(settings.schedule.clone(), |schedule| schedule.to_string()),
        reconfigure_class: reconfigure_class(layers.map(|layer| &layer.options)).to_owned(),
        freeblock: queue.freeblock.map(|free| free.policy.to_string()),
        ..settings
    })
}

fn played_how(trace: &Trace, how: &Play) -> Settings {
    let (pace, outstanding, speed) = match how.pace {
        Pace::Closed { outstanding } | Pace::Queued { outstanding } => ("closed", outstanding as u64, 1.0),
        Pace::Open { speed } => ("open", 0, speed),
        Pace::Accelerated { speed } => ("paper", 0, speed),
        Pace::Answered => ("answered", 0, 1.0),
    };
    Settings {
        trace: trace.sources.iter().map(|path| path.display().to_string()).collect(),
        pace: pace.to_owned(),
        outstanding,
        speed,
        reconfigure: u64::from(how.reconfigure),
        schedule: Schedule::Times(how.reconfigure).to_string(),
        reconfigure_clock: if how.clock == Clock::Run { "run" } else { "stop" }.to_owned(),
        ..Settings::default()
    }
}

/// The note on a closed pace where no process is named.
fn queued(trace: &Trace, pace: Pace) -> Option<String> {
    let Pace::Closed { outstanding } = pace else { return None };
    (!has_processes(trace)).then(|| {
        format!(
            "The recording names no processes, whose reads would wait for each other: {outstanding} requests are in flight \
             wherever there are as many."
        )
    })
}

/// Caveats about a run's figures.
fn notes_of(
    variant: &Variant,
    candidate: &Candidate,
    played: &Played,
    how: &Play,
    several: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let name = &variant.name;
    let of_which = if several { format!("{name}: ") } else { String::new() };
    if !variant.reconfigurations.is_empty() && variant.reconfiguring_requests_pct > 50.0 {
        notes.push(format!(
            "{of_which}{:.0} % of the requests arrived during a reconfiguration: reduction_pct means little, since \
             it leaves them out. Look at net_reduction_pct, or reconfigure less often.",
            variant.reconfiguring_requests_pct
        ));
    }
    if played.missed > 0 {
        notes.push(format!(
            "{of_which}{} of {} reconfigurations were never started: an earlier one ran to the end of the trace.",
            played.missed, how.reconfigure
        ));
    }
    if let (failed @ 1.., Some(error)) = (variant.failed, &played.replayed.failure) {
        let of = variant.response_ms.all.requests + failed;
        notes.push(format!(
            "{name}: {} of {} requests failed, and are not in the response times. The first: {error}.",
            thousands(failed),
            thousands(of)
        ));
    }
    notes.extend(played.errors.iter().map(|error| format!("{name}: {error}.")));
    let own_order = candidate.volume.downwards(&candidate.volume.top);
    let own_order = own_order.iter().filter_map(|layer| candidate.volume.layers.get(layer));
    for layer in own_order.filter(|layer| !layer.entry.transparent) {
        notes.push(format!(
            "{name}: {} begins empty: reads of sectors that the trace did not write before cost nothing, so its busy \
             time is too low.",
            layer.entry.name
        ));
    }
    if how.pace.is_open() && played.replayed.load.only_grows() {
        let quarters = played.replayed.load.at_quarters.map(thousands).join(" / ");
        notes.push(format!(
            "{name}: the queue only grew (outstanding after each quarter of the requests: {quarters}). The drive \
             cannot keep up with the recorded times, so this measures a backlog: try --pace closed, or a lower --speed."
        ));
    }
    notes
}
