//! `seekless lab scan`: full scans of a busy disk, for free.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Policy, spec};
use seekless_lab::Pace;
use seekless_lab::mining::{Foreground, Mined, Mining, head_alone, mine};
use seekless_layers::registry;
use serde::Serialize;

use crate::Usage;
use crate::filling::Filling;
use crate::output;
use crate::progress::Progress;
use crate::setup::{OUTSTANDING, number_or_text, option, whole_sectors};
use crate::table::Table;
use crate::text::{count, counted, number};
use crate::trace;
use crate::workload::positive_time;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless lab scan
  seekless lab scan --drive wd-re3-1tb --workload oltp:mpl=20 --for 1h
  seekless lab scan --trace data/svnserver2
  seekless lab scan --workload oltp:mpl=7 --scrub class=free wanted=8GiB
  seekless lab scan --drive quantum-atlas-10k --freeblock-policy paper --scheduler fcfs --scans 10 --json

What is free about it: docs/book/freeblock.md.";

/// What is scanned beside what.
#[derive(Args)]
pub struct Arguments {
    /// A disk of `seekless drive list`, or a file that ends in .toml
    #[arg(long, value_name = "NAME", default_value = "wd2500aaks")]
    drive: String,
    /// The foreground: a workload of `seekless lab run --workloads`
    #[arg(long, value_name = "SPEC", default_value = "oltp")]
    workload: String,
    /// Or a recording, to its end: each process's next read waits for its previous one, and at most 8 are outstanding
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["workload", "time"])]
    trace: Vec<PathBuf>,
    #[arg(long, value_name = "NAME", default_value = "c-look",
        help = format!("Which request of the foreground comes next: {}", Policy::NAMES))]
    scheduler: Policy,
    /// The size of a block of the scan
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = whole_sectors)]
    block: u64,
    /// What blocks may take up that wait for their rest on the next track, or to be taken
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    buffers: Size,
    /// So many full scans, one after another
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    scans: u64,
    /// Or so much virtual time, whichever is over first
    #[arg(long = "for", value_name = "TIME", value_parser = positive_time)]
    time: Option<Nanos>,
    /// By the layer scrub with these options, of its page, instead
    #[arg(long, value_name = "KEY=VALUE", num_args = 0.., value_parser = option, conflicts_with_all = ["block", "buffers"])]
    scrub: Option<Vec<(String, String)>>,
    /// Of the drive the head alone, as in the paper: no cache, and a bus that takes no time
    #[arg(long)]
    head_alone: bool,
    #[command(flatten)]
    filling: Filling,
    /// All randomness follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What came of it.
#[derive(Serialize)]
struct Told {
    drive: String,
    workload: String,
    scheduler: String,
    freeblock_policy: String,
    elapsed_s: f64,
    requests: u64,
    mean_response_ms: f64,
    /// Without the scan.
    mean_response_alone_ms: f64,
    /// How much longer all requests took than without the scan, in nanoseconds.
    foreground_delta_ns: f64,
    /// Whether each request and each answer came at the same time as without it.
    foreground_same: bool,
    free_mb_s: f64,
    potential_mb_s: f64,
    share_pct: f64,
    scans: f64,
    scans_per_day: f64,
    blocks: u64,
    /// Read by a scrub, and not for free: megabytes a second.
    paid_mb_s: f64,
    /// Where the waits went, in per cent of them.
    free_transfer_pct: f64,
    extra_seek_pct: f64,
    unused_pct: f64,
    /// In idle time: tracks that the head went to, megabytes a second there, and the delay of the requests that came
    /// meanwhile, in all: for a seek that had begun, and because the head was elsewhere.
    idle_visits: u64,
    idle_mb_s: f64,
    idle_waited_ms: f64,
    idle_moved_ms: f64,
    /// With a wrong model: pieces of blocks that had passed before the head came, and requests of the foreground that
    /// waited for another turn.
    missed: u64,
    late: u64,
}

/// Scans, and does the same without scanning.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut drive = spec::find(&arguments.drive)?;
    if arguments.head_alone {
        drive = head_alone(&drive);
    }
    let foreground = if arguments.trace.is_empty() {
        Foreground::Load(arguments.workload.clone())
    } else {
        let trace = trace::load(&arguments.trace)?;
        let reaches = trace.records.iter().map(|record| record.extent.end().0).max().unwrap_or(0);
        if reaches > drive.sectors {
            let (found, most) = (Size(reaches * SECTOR_BYTES), Size(drive.sectors * SECTOR_BYTES));
            anyhow::bail!(
                "--trace: found requests up to {found}, expected at most {most}, which {} has",
                drive.name
            );
        }
        Foreground::Trace(trace.records.into(), Pace::Closed { outstanding: OUTSTANDING })
    };
    let mining = Mining {
        drive,
        policy: arguments.scheduler,
        foreground,
        free: FreeOptions { buffers: arguments.buffers.0, ..arguments.filling.options() },
        block: arguments.block,
        scans: arguments.scans,
        scrub: arguments.scrub.as_deref().map(scrub).transpose()?,
        time: arguments.time,
        seed: arguments.seed,
    };
    let progress = Progress::spinner("scanning beside the workload");
    let mined = mine(&mining, None)?;
    drop(progress);
    let progress = Progress::spinner("the workload alone");
    let alone = mine(&mining, Some(mined.requests))?;
    drop(progress);
    let told = told(&mining, &mined, &alone);
    if arguments.json { output::json(&told) } else { output::print(&text(&told)) }
}

/// The options of the layer.
fn scrub(options: &[(String, String)]) -> anyhow::Result<toml::Table> {
    let table = options.iter().map(|(key, value)| (key.clone(), number_or_text(value))).collect();
    let entry = registry::find("scrub").context("scrub: found no such layer")?;
    entry.check(&table).map_err(|refused| Usage(format!("--scrub: {refused}")))?;
    Ok(table)
}

fn told(mining: &Mining, mined: &Mined, alone: &Mined) -> Told {
    let (freed, seconds) = (&mined.freed, mined.elapsed.seconds().max(1e-9));
    let free = (freed.bytes + freed.foreground_bytes) as f64;
    let percent = |part: Nanos| 100.0 * part.seconds() / freed.potential.seconds().max(1e-9);
    let scans = mined.blocks as f64 / (mining.drive.sectors / mining.block) as f64;
    let used = percent(freed.transfer) + percent(freed.seek);
    Told {
        drive: mining.drive.name.clone(),
        workload: match &mining.foreground {
            Foreground::Load(text) => text.clone(),
            Foreground::Trace(records, _) => {
                format!("a recording of {} requests", count(records.len() as u64))
            }
        },
        scheduler: mining.policy.to_string(),
        freeblock_policy: mining.free.policy.to_string(),
        elapsed_s: seconds,
        requests: mined.requests,
        mean_response_ms: 1e3 * mined.waited.seconds() / mined.requests.max(1) as f64,
        mean_response_alone_ms: 1e3 * alone.waited.seconds() / alone.requests.max(1) as f64,
        foreground_delta_ns: mined.waited.0 as f64 - alone.waited.0 as f64,
        foreground_same: mined.hash == alone.hash,
        free_mb_s: free / 1e6 / seconds,
        potential_mb_s: freed.potential_bytes as f64 / 1e6 / seconds,
        share_pct: 100.0 * free / freed.potential_bytes.max(1) as f64,
        scans,
        scans_per_day: scans * 86_400.0 / seconds,
        blocks: mined.blocks,
        paid_mb_s: (mined.paid_blocks * mining.block * SECTOR_BYTES) as f64 / 1e6 / seconds,
        free_transfer_pct: percent(freed.transfer),
        extra_seek_pct: percent(freed.seek),
        unused_pct: (100.0 - used).max(0.0),
        idle_visits: freed.visits,
        idle_mb_s: freed.idle_bytes as f64 / 1e6 / seconds,
        idle_waited_ms: 1e3 * freed.idle_waited.seconds(),
        idle_moved_ms: freed.idle_moved as f64 / 1e6,
        missed: freed.missed,
        late: freed.late,
    }
}

fn text(told: &Told) -> String {
    let mut table = Table::new(&["", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("foreground", format!("{} on {}, {}", told.workload, told.drive, told.scheduler));
    row("  requests", format!("{} in {} s", count(told.requests), number(told.elapsed_s, 0)));
    row("  mean response", format!("{} ms", number(told.mean_response_ms, 3)));
    row("  and without the scan", format!("{} ms", number(told.mean_response_alone_ms, 3)));
    let same = if told.foreground_same { "each one at the same time" } else { "not the same" };
    row("  all together longer by", format!("{} ns; {same}", number(told.foreground_delta_ns, 0)));
    if told.late + told.missed > 0 {
        row("  waited for another turn", count(told.late));
        row("  blocks or parts missed", count(told.missed));
    }
    if told.idle_visits > 0 {
        let each = (told.mean_response_ms - told.mean_response_alone_ms) * 1e3;
        row("  each later by", format!("{} us on average", number(each, 1)));
        let parts = format!("{} ms, {} ms", number(told.idle_waited_ms, 1), number(told.idle_moved_ms, 1));
        row("  waiting for a seek, head elsewhere", parts);
    }
    row("free", format!("{} MB/s, policy {}", number(told.free_mb_s, 2), told.freeblock_policy));
    let potential = format!("{} MB/s", number(told.potential_mb_s, 2));
    row("  of the potential", format!("{} % of {potential}", number(told.share_pct, 1)));
    if told.idle_visits > 0 {
        let visits = count(told.idle_visits);
        row("  in idle time", format!("{} MB/s, {visits} tracks", number(told.idle_mb_s, 2)));
    }
    if told.paid_mb_s > 0.0 {
        row("not free", format!("{} MB/s", number(told.paid_mb_s, 2)));
    }
    row("  scans", format!("{} ({})", number(told.scans, 3), counted(told.blocks, "block")));
    row("  scans a day", number(told.scans_per_day, 1));
    row(
        "  where the head's waits went",
        format!(
            "transfers {} %, extra seeks {} %, unused {} %",
            number(told.free_transfer_pct, 1),
            number(told.extra_seek_pct, 1),
            number(told.unused_pct, 1)
        ),
    );
    table.text()
}
