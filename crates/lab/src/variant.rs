//! The figures of a run, compared with those of its base.

use seekless_core::{LayerTraffic, Nanos, Traffic};
use seekless_drive::Work;

use crate::accesses::Accesses;
use crate::bounds::Bound;
use crate::outcome::{self, BoundPct, Bounds, DriveWork, HeadTime, PhaseBounds, Variant};
use crate::phases::{Done, Phase};
use crate::play::{FINAL, Part, Played};

/// A run, in the phases in which it is shown.
pub struct Shown<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its volume in a line.
    pub volume: String,
    /// The run.
    pub played: &'a Played,
    /// The phases.
    pub phases: &'a [Phase],
    /// Work in each phase.
    pub parts: Vec<Part>,
}

impl Shown<'_> {
    /// Its figures compared with those of `base`, which are of the same phases; `requests` is the length of the trace.
    pub fn variant(&self, base: &[Part], requests: u64) -> Variant {
        let (played, all) = (self.played, self.played.whole());
        let from = self.first_reconfiguration();
        let is = |index: usize, kind: char| self.phases[index].name.starts_with(kind);
        let later = from..self.phases.len();
        let settled: Vec<usize> = later.clone().filter(|&index| is(index, 'N')).collect();
        let whole: Vec<usize> =
            if self.acts_before(from) { (0..later.end).collect() } else { later.collect() };
        let during = whole.iter().filter(|&&index| is(index, 'R'));
        let reconfiguring: u64 = during.map(|&index| self.requests_of(index, requests)).sum();
        let traffic = self.traffic(&all);
        let (end, answers) = (played.replayed.load.end, &played.replayed.answers.all);
        Variant {
            name: self.name.to_owned(),
            volume: self.volume.clone(),
            work: drive_work(&all.work),
            served_from_bopt_pct: traffic.as_ref().map_or(0.0, hit_pct),
            traffic,
            reduction_pct: self.reduction(base, &settled, Work::busy),
            net_reduction_pct: self.reduction(base, &whole, Work::busy),
            foreground_reduction_pct: self.reduction(base, &whole, |work| work.foreground),
            bounds: None,
            reconfiguring_requests_pct: percent(reconfiguring, requests),
            mean_queue: all.work.queued as f64 / (all.work.busy().0 as f64).max(1.0),
            merge_ratio: all.work.requests as f64 / (all.work.commands as f64).max(1.0),
            elapsed_s: end.seconds(),
            idle_s: (end.seconds() - played.occupied_until_the_end().seconds() / played.arms as f64).max(0.0),
            energy_j: played.energy_j,
            drive_wakes: played.wakes,
            response_ms: answers.responses(),
            failed: answers.failed,
            map_bytes: played.cost.map_bytes,
            longest_mover_wait_ms: round(played.cost.longest_wait.seconds() * 1e3),
            layers: played.layers.clone(),
            phases: (0..self.phases.len()).map(|index| self.phase(index, &base[index], requests)).collect(),
            reconfigurations: played.reconfigured.iter().map(reconfiguration).collect(),
            seek_histogram: histogram(&all.work),
            accesses: Accesses::default(),
            notes: Vec::new(),
            event_hash: format!("{:016x}", played.event_hash),
        }
    }

    fn traffic(&self, part: &Part) -> Option<outcome::TrafficFigures> {
        Some(traffic_of(self.played.counting_layer()?, part.traffic.as_ref()?))
    }

    fn requests_of(&self, index: usize, all: u64) -> u64 {
        let next = self.phases.get(index + 1).map_or(all, |next| next.first_request);
        next - self.phases[index].first_request
    }

    /// Index of the first reconfiguration's phase; 0 if there is none.
    fn first_reconfiguration(&self) -> usize {
        self.phases.iter().position(|phase| phase.name.starts_with('R')).unwrap_or(0)
    }

    /// Whether the layer served requests in another place, or copied, before this phase.
    fn acts_before(&self, phase: usize) -> bool {
        let traffic = self.parts[..phase].iter().filter_map(|part| part.traffic);
        traffic.map(|of| of.hits + of.absorbed + of.background.requests).any(|acts| acts > 0)
    }

    /// 1 - ours / the base's over these phases, in per cent.
    fn reduction(&self, base: &[Part], phases: &[usize], of: impl Fn(&Work) -> Nanos) -> f64 {
        let sum = |parts: &[Part]| phases.iter().map(|&index| of(&parts[index].work)).sum::<Nanos>();
        saved(sum(&self.parts), sum(base))
    }

    fn phase(&self, index: usize, base: &Part, requests: u64) -> outcome::Phase {
        let part = &self.parts[index];
        let traffic = self.traffic(part);
        outcome::Phase {
            name: self.phases[index].name.clone(),
            first_request: self.phases[index].first_request,
            requests: self.requests_of(index, requests),
            work: drive_work(&part.work),
            vanilla_busy_s: base.work.busy().seconds(),
            reduction_pct: saved(part.work.busy(), base.work.busy()),
            served_from_bopt_pct: traffic.as_ref().map_or(0.0, hit_pct),
            traffic,
            mean_response_ms: round(part.times.mean_ms()),
            p99_response_ms: round(part.times.p99_ms()),
            bounds: None,
        }
    }

    /// Adds what could be reached at most.
    pub fn add_bounds(&self, variant: &mut Variant, bound: &Bound, base: &[Part]) {
        let last = self.phases.iter().position(|phase| phase.name == FINAL).unwrap_or(self.phases.len());
        let from = self.first_reconfiguration();
        let pct = |of: &dyn Fn(usize) -> Nanos, settled: bool| {
            let counts = |&index: &usize| !settled || self.phases[index].name.starts_with('N');
            let counted = || (from..last).filter(counts);
            saved(counted().map(of).sum(), counted().map(|index| base[index].work.busy()).sum())
        };
        let pcts = |settled| BoundPct {
            oracle_pct: pct(&|index| bound.oracle[index].foreground, settled),
            oracle_seen_pct: pct(&|index| bound.seen[index].foreground, settled),
            transfer_only_pct: pct(&|index| base[index].work.transfer, settled),
        };
        variant.bounds = Some(Bounds { between: pcts(true), whole: pcts(false), runs: bound.runs });
        for (index, phase) in variant.phases.iter_mut().enumerate().take(last).skip(from) {
            let (oracle, seen) = (&bound.oracle[index], &bound.seen[index]);
            phase.bounds = Some(PhaseBounds {
                oracle_s: oracle.foreground.seconds(),
                oracle_policy: oracle.policy.clone(),
                oracle_seen_s: seen.foreground.seconds(),
                oracle_seen_policy: seen.policy.clone(),
                transfer_only_s: base[index].work.transfer.seconds(),
            });
        }
    }
}

fn saved(ours: Nanos, vanilla: Nanos) -> f64 {
    if vanilla == Nanos::ZERO { 0.0 } else { round(100.0 * (1.0 - ours.0 as f64 / vanilla.0 as f64)) + 0.0 }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { round(100.0 * part as f64 / whole as f64) }
}

/// Rounds per cent to three digits.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// The figures of a device's work.
pub(crate) fn drive_work(work: &Work) -> DriveWork {
    let background = work.busy().since(work.foreground);
    DriveWork {
        head: HeadTime::of(work),
        foreground_s: work.foreground.seconds(),
        background_s: background.seconds(),
        background_in_idle_time_s: work.in_idle_time.seconds(),
        seeks: work.seeks,
        mean_seek_cylinders: round(work.cylinders as f64 / (work.seeks as f64).max(1.0)),
        nonsequential_pct: percent(work.seeks, work.blocks_read),
        blocks_read: work.blocks_read,
        blocks_written: work.blocks_written,
    }
}

fn traffic_of(layer: &str, traffic: &LayerTraffic) -> outcome::TrafficFigures {
    outcome::TrafficFigures {
        above: side(&traffic.above),
        below: side(&traffic.below),
        background: side(&traffic.background),
        pages: traffic.pages,
        hits: traffic.hits,
        splits: traffic.splits,
        absorbed_pages: traffic.absorbed,
        drained_pages: traffic.drained,
        layer: layer.to_owned(),
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

fn hit_pct(traffic: &outcome::TrafficFigures) -> f64 {
    percent(traffic.hits, traffic.pages)
}

fn reconfiguration(done: &Done) -> outcome::Reconfiguration {
    let stage = |stage: &seekless_core::Stage| outcome::Stage {
        name: stage.name.to_owned(),
        seconds: stage.took.seconds(),
        pages: stage.pages,
    };
    let Done { number, layer, report } = done;
    outcome::Reconfiguration {
        name: format!("R{number}"),
        layer: layer.clone(),
        start_s: report.start.seconds(),
        stages: report.stages.iter().map(stage).collect(),
        vertices: report.vertices,
        edges: report.edges,
        planned_pages: report.planned_pages,
        copied_pages: report.copied_pages,
        promoted_pages: report.promoted_pages,
    }
}

fn histogram(work: &Work) -> Vec<(u64, u64)> {
    let last = work.by_distance.iter().rposition(|&count| count > 0);
    let bins = work.by_distance.iter().enumerate().take(last.map_or(0, |last| last + 1));
    bins.map(|(bin, &count)| (1 << bin, count)).collect()
}
