//! Results of a comparison, as printed, drawn and written as JSON. Plain data: every number in a report is a field
//! here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_drive::Work;
use serde::Serialize;

use crate::accesses::Accesses;
use crate::workload::answers::Responses;

/// Head time by part, in seconds. `busy_s` is the sum of the four parts.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct HeadTime {
    /// Total.
    pub busy_s: f64,
    /// Seeks, head switches, settling.
    pub seek_s: f64,
    /// Rotational wait for the sector.
    pub rotation_s: f64,
    /// Transfer from or to the media, or from the drive's cache.
    pub transfer_s: f64,
    /// Command overhead.
    pub overhead_s: f64,
}

impl HeadTime {
    /// The head time of a device's work.
    pub fn of(work: &Work) -> HeadTime {
        HeadTime {
            busy_s: work.busy().seconds(),
            seek_s: work.seek.seconds(),
            rotation_s: work.rotation.seconds(),
            transfer_s: work.transfer.seconds(),
            overhead_s: work.overhead.seconds(),
        }
    }
}

/// The drive's work in one stretch of the run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct DriveWork {
    /// Head time.
    #[serde(flatten)]
    pub head: HeadTime,
    /// Head time for foreground requests.
    pub foreground_s: f64,
    /// Head time for background work: copies, draining, their map pages.
    pub background_s: f64,
    /// Part of that in commands that were issued while no request of a client waited in the queue.
    pub background_in_idle_time_s: f64,
    /// Media accesses that moved the arm.
    pub seeks: u64,
    /// Mean distance of those, in cylinders.
    pub mean_seek_cylinders: f64,
    /// The BORG paper's ratio (section 6): seeks per 512-byte block read, in per cent. Zero if nothing was read.
    pub nonsequential_pct: f64,
    /// 512-byte blocks read from the drive.
    pub blocks_read: u64,
    /// 512-byte blocks written to the drive.
    pub blocks_written: u64,
}

/// A phase: a range of the trace's requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Phase {
    /// `N1`, `R1`, `N2`, ... as in the BORG paper; `final` is the write-back of dirty pages after the last request.
    pub name: String,
    /// First request of the phase, counted from zero.
    pub first_request: u64,
    /// Number of requests.
    pub requests: u64,
    /// The drive's work in the phase.
    #[serde(flatten)]
    pub work: DriveWork,
    /// Busy time of the base's drives for the same requests, in seconds.
    pub vanilla_busy_s: f64,
    /// 1 - busy / the base's busy, in per cent.
    pub reduction_pct: f64,
    /// Share of pages served from the BOPT, in per cent.
    pub served_from_bopt_pct: f64,
    /// Traffic above and below the layer; `null` without one.
    #[serde(rename = "sides")]
    pub traffic: Option<TrafficFigures>,
    /// Mean response time of the phase's requests, in milliseconds; zero if none succeeded.
    pub mean_response_ms: f64,
    /// 99th percentile of their response times, to two digits, in milliseconds.
    pub p99_response_ms: f64,
    /// What could be reached at most; `null` unless asked for.
    pub bounds: Option<PhaseBounds>,
}

/// What BORG could reach at most in a phase, as head time for clients' requests in seconds: see [`crate::bounds`].
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct PhaseBounds {
    /// With all of the phase's requests known.
    pub oracle_s: f64,
    /// The policy that needed so little.
    pub oracle_policy: String,
    /// With those known that ask for pages seen before.
    pub oracle_seen_s: f64,
    /// The policy that needed so little.
    pub oracle_seen_policy: String,
    /// The base's transfers alone.
    pub transfer_only_s: f64,
}

/// What BORG could reach at most in a run: the base's busy time saved, copies not counted, in per cent.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Bounds {
    /// In the phases of `reduction_pct`.
    pub between: BoundPct,
    /// From the first reconfiguration's start on.
    pub whole: BoundPct,
    /// Runs that the oracles are the best of.
    pub runs: u64,
}

/// Reductions of the bounds, in per cent.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct BoundPct {
    /// With each phase's own future known.
    pub oracle_pct: f64,
    /// With that part of it known that asks for pages seen before.
    pub oracle_seen_pct: f64,
    /// Without seeks, rotational waits and command handling.
    pub transfer_only_pct: f64,
}

/// Traffic above a layer, and below it to its devices. A seek is a request that does not start where the last one of
/// its side ended, whatever a queue and a drive made of it later.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct TrafficFigures {
    /// Requests of clients, at addresses of the volume.
    pub above: Side,
    /// Requests below for clients, at addresses of the components.
    pub below: Side,
    /// Copies, draining and their map pages, at addresses of the components.
    pub background: Side,
    /// Pages of clients' requests, read or written.
    pub pages: u64,
    /// Pages among them that were served from the BOPT.
    pub hits: u64,
    /// Requests that were split over several places.
    pub splits: u64,
    /// Pages that went into the write buffer instead of the origin.
    pub absorbed_pages: u64,
    /// Dirty pages written to the origin.
    pub drained_pages: u64,
    /// The layer whose traffic this is: the topmost one that counts it.
    pub layer: String,
}

/// Traffic of one side.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Side {
    /// Reads and writes.
    pub requests: u64,
    /// Requests that do not start where the one before ended.
    pub seeks: u64,
    /// Seeks to another component, which have no distance.
    pub crossings: u64,
    /// Mean distance of the other seeks.
    pub mean_seek_bytes: f64,
    /// The BORG paper's ratio (section 6): seeks per 512-byte block read, in per cent. Zero if nothing was read.
    pub nonsequential_pct: f64,
    /// 512-byte blocks read.
    pub blocks_read: u64,
    /// 512-byte blocks written.
    pub blocks_written: u64,
}

/// A reconfiguration.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Reconfiguration {
    /// `R1`, ...
    pub name: String,
    /// The layer.
    pub layer: String,
    /// Its start, in the run's virtual time.
    pub start_s: f64,
    /// Its stages in order: analyse, plan, outgoing, relocate, incoming.
    pub stages: Vec<Stage>,
    /// Vertices of the access graph.
    pub vertices: u64,
    /// Directed edges of the access graph.
    pub edges: u64,
    /// Pages in the new plan.
    pub planned_pages: u64,
    /// Pages that were copied, to the origin or into the BOPT.
    pub copied_pages: u64,
    /// Pages among them whose free copies were late and were promoted.
    pub promoted_pages: u64,
}

/// One stage of a reconfiguration.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Stage {
    /// The paper's name for it.
    pub name: String,
    /// Virtual time in seconds, foreground requests in between included.
    pub seconds: f64,
    /// Pages it moved (or, for analyse and plan, examined).
    pub pages: u64,
}

/// One variant of the system, over the whole trace.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Variant {
    /// `vanilla`, or the name of the layer or the volume file.
    pub name: String,
    /// The volume in a line: its drives, and its layers from the top down.
    pub volume: String,
    /// The whole run, the final write-back included.
    #[serde(flatten)]
    pub work: DriveWork,
    /// Share of pages served from the BOPT, in per cent.
    pub served_from_bopt_pct: f64,
    /// Traffic above and below the layer; `null` without one.
    #[serde(rename = "sides")]
    pub traffic: Option<TrafficFigures>,
    /// Disk busy time saved compared with the base in the N phases after the first reconfiguration (the paper's
    /// figure).
    pub reduction_pct: f64,
    /// As `reduction_pct`, from the first reconfiguration's start to the end, every copy and the final write-back
    /// included; over the whole run if the layer held anything before.
    pub net_reduction_pct: f64,
    /// As `net_reduction_pct`, for the head time of foreground requests only.
    pub foreground_reduction_pct: f64,
    /// What could be reached at most; `null` unless asked for, or if nothing was reconfigured.
    pub bounds: Option<Bounds>,
    /// Requests that arrived while a reconfiguration ran, in per cent of all.
    pub reconfiguring_requests_pct: f64,
    /// Foreground requests waiting or in service at the drive, averaged over its busy time.
    pub mean_queue: f64,
    /// Requests per media access: 1 means no merging.
    pub merge_ratio: f64,
    /// Virtual time from the first request to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Time in which the drive was not busy, in seconds.
    pub idle_s: f64,
    /// Energy of all drives, the final write-back included, in joules; `None` if the description of one lacks it.
    pub energy_j: Option<f64>,
    /// Commands that woke a drive from a power state: one that had spun down, if it has such a state.
    pub drive_wakes: u64,
    /// Response times of successful requests, in milliseconds.
    pub response_ms: Responses,
    /// Requests that failed.
    pub failed: u64,
    /// Memory of the indirection map in bytes; 0 without one.
    pub map_bytes: u64,
    /// Longest wait of a request for pages being moved, in milliseconds.
    pub longest_mover_wait_ms: f64,
    /// Counters of each layer, by its name.
    pub layers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Phases in order of the trace.
    pub phases: Vec<Phase>,
    /// Reconfigurations in order of time.
    pub reconfigurations: Vec<Reconfiguration>,
    /// Bins: (largest distance in cylinders, number of seeks of at most that and more than the bin before).
    pub seek_histogram: Vec<(u64, u64)>,
    /// What the drives did, if that was to be kept ([`crate::setup::Play::accesses`]); not in JSON.
    #[serde(skip)]
    pub accesses: Accesses,
    /// Caveats about these figures.
    pub notes: Vec<String>,
    /// Hash of the run's event log, in hexadecimal.
    pub event_hash: String,
}

/// How the trace was played. With volume files, the drive and queue are those of the base's first drive;
/// [`Variant::volume`] describes each.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Settings {
    /// Files of the trace.
    pub trace: Vec<String>,
    /// Volume files; empty if all variants are on one drive, with the settings below.
    pub volumes: Vec<String>,
    /// The drive's name.
    pub drive: String,
    /// Why it was taken, where none was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_chosen_because: Option<String>,
    /// `closed`, `open` or `paper`.
    pub pace: String,
    /// Scheduler: `c-look`, `sptf` and so on.
    pub scheduler: String,
    /// Longest wait in the queue before a request goes next regardless, in milliseconds; 0 for no limit.
    pub starvation_limit_ms: f64,
    /// Queue depth of the drive, which orders its commands itself; `None` if the scheduler saw its head.
    pub depth: Option<u32>,
    /// Whether the drive's write cache was on.
    pub write_cache: bool,
    /// Limit of outstanding requests (closed pace).
    pub outstanding: u64,
    /// Open pace: speed-up over the recorded times.
    pub speed: f64,
    /// Whether the queue merged adjacent requests.
    pub merge: bool,
    /// Bytes of the clients' volume.
    pub over_bytes: u64,
    /// Bytes of the BOPT.
    pub bopt_bytes: u64,
    /// First sector of the BOPT on its drive.
    pub bopt_at_sector: u64,
    /// The BOPT's own drive; `None` if it is on that of the clients.
    pub bopt_drive: Option<String>,
    /// Part of the BOPT that absorbs writes.
    pub write_buffer: f64,
    /// Number of reconfigurations.
    pub reconfigure: u64,
    /// When layers were reconfigured: `8 times`, `when it pays` and so on.
    pub schedule: String,
    /// Guaranteed share of the head's time for background work, in per cent.
    pub background_share_pct: f64,
    /// `run`: the trace goes on during a reconfiguration; `stop`: it is held.
    pub reconfigure_clock: String,
    /// Class of a reconfiguration's copies: background or free.
    pub reconfigure_class: String,
    /// Freeblock policy: paper or weighted; `None` if it is off.
    pub freeblock: Option<String>,
}

/// A whole comparison.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Comparison {
    /// How the trace was played.
    pub settings: Settings,
    /// Variants, the base first.
    pub variants: Vec<Variant>,
    /// Of the second variant, or of the first if there is only one.
    pub reduction_pct: f64,
    /// As `reduction_pct`.
    pub net_reduction_pct: f64,
    /// As `reduction_pct`.
    pub foreground_reduction_pct: f64,
    /// As `reduction_pct`.
    pub reconfiguring_requests_pct: f64,
    /// Caveats about the figures.
    pub notes: Vec<String>,
}
