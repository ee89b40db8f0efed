//! What a comparison found, as it is printed, drawn and written as JSON. Plain data: every number
//! that a report shows is a field here.

use std::collections::BTreeMap;

use seekless_drive::Work;
use serde::Serialize;

use crate::workload::answers::Responses;

/// Where the head's time went, in seconds. `busy_s` is the sum of the four parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadTime {
    /// All of it.
    pub busy_s: f64,
    /// Moving the arm, switching heads, settling.
    pub seek_s: f64,
    /// Waiting for the sector to come round.
    pub rotation_s: f64,
    /// On the media, or from the drive's cache.
    pub transfer_s: f64,
    /// Commands.
    pub overhead_s: f64,
}

impl HeadTime {
    /// The time of a device's work.
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

/// What the drive did in one stretch of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveWork {
    /// The head's time.
    #[serde(flatten)]
    pub head: HeadTime,
    /// Of it, spent for foreground requests.
    pub foreground_s: f64,
    /// Of it, spent for background work: copies, draining, their map pages.
    pub background_s: f64,
    /// Media accesses that moved the arm.
    pub seeks: u64,
    /// How far, on average, in cylinders.
    pub mean_seek_cylinders: f64,
    /// The BORG paper's ratio (section 6): seeks per 512-byte block read, in per cent. Zero if nothing was read.
    pub nonsequential_pct: f64,
    /// 512-byte blocks read from the drive.
    pub blocks_read: u64,
    /// 512-byte blocks written to the drive.
    pub blocks_written: u64,
}

/// A phase: a range of the trace's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// `N1`, `R1`, `N2`, ... as in the BORG paper; `final` is the write-back of what is dirty after the last request.
    pub name: String,
    /// The first request of the phase, counted from zero.
    pub first_request: u64,
    /// How many requests.
    pub requests: u64,
    /// What the drive did for them, and meanwhile.
    #[serde(flatten)]
    pub work: DriveWork,
    /// What the base's drives were busy with exactly these requests, in seconds.
    pub vanilla_busy_s: f64,
    /// 1 - busy / the base's busy, in per cent.
    pub reduction_pct: f64,
    /// Pages asked for that were served from the BOPT, in per cent.
    pub served_from_bopt_pct: f64,
    /// Above and below the layer; `null` without one.
    pub sides: Option<Sides>,
}

/// What a layer was asked, and what it asked of the devices below it for that. A seek is a request that does not start where
/// the last one of its side ended, whatever a queue and a drive made of it later.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sides {
    /// As clients asked, at addresses of the volume.
    pub above: Side,
    /// For clients, at addresses of the components.
    pub below: Side,
    /// Copies, draining and their map pages, at addresses of the components.
    pub background: Side,
    /// Pages asked for, read or written.
    pub pages: u64,
    /// Of them those that were served from the BOPT.
    pub hits: u64,
    /// Requests that were split over several places.
    pub splits: u64,
    /// Pages that went into the write buffer instead of home.
    pub absorbed_pages: u64,
    /// Dirty pages that went home.
    pub drained_pages: u64,
    /// The layer that counted this: the topmost one that does.
    pub layer: String,
}

/// One side's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// Reads and writes.
    pub requests: u64,
    /// Requests that did not start where the one before ended.
    pub seeks: u64,
    /// Of the seeks, those to another component, which have no distance.
    pub crossings: u64,
    /// How far the others went on average.
    pub mean_seek_bytes: f64,
    /// The BORG paper's ratio (section 6): seeks per 512-byte block read, in per cent. Zero if nothing was read.
    pub nonsequential_pct: f64,
    /// 512-byte blocks.
    pub blocks_read: u64,
    /// 512-byte blocks.
    pub blocks_written: u64,
}

/// What one reconfiguration took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reconfiguration {
    /// `R1`, ...
    pub name: String,
    /// The layer that was reconfigured.
    pub layer: String,
    /// When it started, in the run's virtual time.
    pub start_s: f64,
    /// Virtual time of each stage in seconds, in order: analyse, plan, outgoing, relocate, incoming.
    pub stages: Vec<Stage>,
    /// Vertices and edges of the access graph.
    pub vertices: u64,
    /// Directed edges of the access graph.
    pub edges: u64,
    /// Pages in the new plan.
    pub planned_pages: u64,
    /// Pages that were copied, home or into the BOPT.
    pub copied_pages: u64,
    /// Those of them that were to be copied for free, and were not in time.
    pub promoted_pages: u64,
}

/// One stage of a reconfiguration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    /// The paper's word for it.
    pub name: String,
    /// How long it took in virtual time, foreground requests in between included.
    pub seconds: f64,
    /// Pages it moved (or, for analyse and plan, looked at).
    pub pages: u64,
}

/// One variant of the system, over the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Variant {
    /// `vanilla`, the layer's name, or that of the volume file.
    pub name: String,
    /// The volume in a line: its drives, and its layers from the top down.
    pub volume: String,
    /// The whole run, the final write-back included.
    #[serde(flatten)]
    pub work: DriveWork,
    /// Pages asked for that were served from the BOPT, in per cent.
    pub served_from_bopt_pct: f64,
    /// Above and below the layer; `null` without one.
    pub sides: Option<Sides>,
    /// Disk busy time saved against the base in the N phases after the first reconfiguration (the paper's figure).
    pub reduction_pct: f64,
    /// The same from the first reconfiguration's start to the end, every copy and the final write-back included.
    pub net_reduction_pct: f64,
    /// Head time for foreground requests only, from the first reconfiguration's start to the end.
    pub foreground_reduction_pct: f64,
    /// Requests that arrived while a reconfiguration ran, in per cent of all.
    pub reconfiguring_requests_pct: f64,
    /// Foreground requests waiting or in service at the drive, averaged over its busy time.
    pub mean_queue: f64,
    /// Requests per media access: 1 is no merging.
    pub merge_ratio: f64,
    /// Virtual time from the first request to the last answer, in seconds.
    pub elapsed_s: f64,
    /// Of it, what the drive was not busy, in seconds.
    pub idle_s: f64,
    /// Response times of requests that did not fail, from issue to answer, in milliseconds.
    pub response_ms: Responses,
    /// Requests that failed.
    pub failed: u64,
    /// Memory of the indirection map in bytes; 0 without one.
    pub map_bytes: u64,
    /// The longest that a request waited for its pages while a layer moved some, in milliseconds.
    pub longest_mover_wait_ms: f64,
    /// What each layer counted, by its name.
    pub layers: BTreeMap<String, BTreeMap<String, u64>>,
    /// In order of the trace.
    pub phases: Vec<Phase>,
    /// In order of time.
    pub reconfigurations: Vec<Reconfiguration>,
    /// (largest distance in cylinders, how many seeks went that far or less but farther than the bin before).
    pub seek_histogram: Vec<(u64, u64)>,
    /// What a reader should know before believing these figures.
    pub notes: Vec<String>,
    /// The hash of the run's event log, in hexadecimal.
    pub event_hash: String,
}

/// How the trace was played. Of the drive and its queue, where volumes come from files: those of the base's first drive;
/// [`Variant::volume`] says what each is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// The trace's files.
    pub trace: Vec<String>,
    /// The volume files; empty if all variants are on one drive, with the settings below.
    pub volumes: Vec<String>,
    /// The drive's name.
    pub drive: String,
    /// `closed` or `open`.
    pub pace: String,
    /// Which request came next: `c-look`, `sptf` and so on.
    pub scheduler: String,
    /// A request that waited longer went next, in milliseconds; 0 for never.
    pub starvation_limit_ms: f64,
    /// Commands at most in the drive, which put them in an order of its own; `None` if the scheduler saw its head.
    pub depth: Option<u32>,
    /// Whether writes were acknowledged before they were on the media.
    pub write_cache: bool,
    /// Requests outstanding at most (closed pace).
    pub outstanding: u64,
    /// Open pace: how much faster than recorded.
    pub speed: f64,
    /// Whether the queue merged adjacent requests.
    pub merge: bool,
    /// Bytes of the device that clients see.
    pub over_bytes: u64,
    /// Bytes of the BOPT.
    pub bopt_bytes: u64,
    /// Its first sector on the drive.
    pub bopt_at_sector: u64,
    /// The part of the BOPT that takes writes.
    pub write_buffer: f64,
    /// How often the layout is reconfigured.
    pub reconfigure: u64,
    /// The background's guaranteed share of the head's time, in per cent.
    pub background_share_pct: f64,
    /// `run`: the trace goes on while a reconfiguration runs; `stop`: it is held.
    pub reconfigure_clock: String,
    /// In which class reconfigurations copy: background or free.
    pub reconfigure_class: String,
    /// How the head's waits are filled: paper or weighted; `None` if they are not.
    pub freeblock: Option<String>,
}

/// A whole comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// How the trace was played.
    pub settings: Settings,
    /// The base first.
    pub variants: Vec<Variant>,
    /// That of the second variant; of the first where there is one only.
    pub reduction_pct: f64,
    /// The same.
    pub net_reduction_pct: f64,
    /// The same.
    pub foreground_reduction_pct: f64,
    /// The same.
    pub reconfiguring_requests_pct: f64,
    /// What a reader should know before believing the figures.
    pub notes: Vec<String>,
}
