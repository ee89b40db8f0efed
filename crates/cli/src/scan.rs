//! `seekless lab scan`: full scans of a busy disk, for free.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::{Nanos, SECTOR_BYTES, Size};
use seekless_drive::freeblock::FreeOptions;
use seekless_drive::{Policy, spec};
use seekless_lab::mining::{Foreground, Mined, Mining, head_alone, mine};
use seekless_lab::{Pace, pace_of};
use seekless_layers::registry;
use serde::Serialize;

use crate::Usage;
use crate::filling::Filling;
use crate::output::Form;
use crate::parse::{number_or_text, option, whole_sectors};
use crate::progress::Progress;
use crate::setup::OUTSTANDING;
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
  seekless lab scan --drive quantum-atlas-10k --scheduler fcfs --scans 10 --json

How it is free: docs/book/freeblock.md.";

/// Arguments of `lab scan`.
#[derive(Args)]
pub struct Arguments {
    /// Name of a drive, or a TOML file
    #[arg(long, value_name = "NAME", default_value = "wd2500aaks")]
    drive: String,
    /// Workload of the foreground; `seekless lab run --workloads` lists them
    #[arg(long, value_name = "SPEC", default_value = "oltp")]
    workload: String,
    /// Recording to play as the foreground, to its end: each process's next read waits for its previous one, with at
    /// most 8 requests outstanding
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["workload", "time"])]
    trace: Vec<PathBuf>,
    #[arg(long, value_name = "NAME", default_value = "c-look",
        help = format!("Which request of the foreground comes next: {}", Policy::NAMES))]
    scheduler: Policy,
    /// Block size of the scan
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = whole_sectors)]
    block: u64,
    /// Memory for blocks that continue on the next track, or wait to be taken
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    buffers: Size,
    /// Number of full scans, one after another
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    scans: u64,
    /// Limit in virtual time, if it is over first
    #[arg(long = "for", value_name = "TIME", value_parser = positive_time)]
    time: Option<Nanos>,
    /// Scan with the layer scrub and these options instead
    #[arg(long, value_name = "KEY=VALUE", num_args = 0.., value_parser = option, conflicts_with_all = ["block", "buffers"])]
    scrub: Option<Vec<(String, String)>>,
    /// Simulate the head alone, as in the paper: no cache, and no bus time
    #[arg(long)]
    head_alone: bool,
    #[command(flatten)]
    filling: Filling,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    form: Form,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Output {
    drive: String,
    workload: String,
    scheduler: String,
    freeblock_policy: String,
    elapsed_s: f64,
    requests: u64,
    mean_response_ms: f64,
    /// Mean response time without the scan.
    mean_response_alone_ms: f64,
    /// Increase of the response times of all requests over those without the scan, in nanoseconds.
    foreground_delta_ns: f64,
    /// Whether each request arrived and completed at the same time as without the scan.
    foreground_same: bool,
    free_mb_s: f64,
    potential_mb_s: f64,
    share_pct: f64,
    scans: f64,
    scans_per_day: f64,
    blocks: u64,
    /// Throughput of a scrub outside free time, in MB/s.
    paid_mb_s: f64,
    /// Use of rotational waits, in per cent.
    free_transfer_pct: f64,
    extra_seek_pct: f64,
    unused_pct: f64,
    /// In idle time: visited tracks, MB/s there, and the total delay of requests that arrived meanwhile: because of a
    /// seek under way, and because the head was elsewhere.
    idle_visits: u64,
    idle_mb_s: f64,
    idle_waited_ms: f64,
    idle_moved_ms: f64,
    /// With a model error: parts of blocks missed because the head came late, and foreground requests that missed a
    /// revolution.
    missed: u64,
    late: u64,
}

/// Scans, and runs the workload again without the scan.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut drive = spec::find(&arguments.drive)?;
    if arguments.head_alone {
        drive = head_alone(&drive);
    }
    if arguments.block > drive.sectors {
        let (found, most) = (Size(arguments.block * SECTOR_BYTES), Size(drive.sectors * SECTOR_BYTES));
        anyhow::bail!("--block: found {found}, expected at most {most}, which {} has", drive.name);
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
        let pace = pace_of(&trace, Pace::Closed { outstanding: OUTSTANDING });
        Foreground::Trace(trace.records.into(), pace)
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
    let output = output(&mining, &mined, &alone);
    arguments.form.print(&output, "", || text(&output))
}

/// Options of the layer scrub.
fn scrub(options: &[(String, String)]) -> anyhow::Result<toml::Table> {
    let table = options.iter().map(|(key, value)| (key.clone(), number_or_text(value))).collect();
    let entry = registry::find("scrub").context("scrub: found no such layer")?;
    entry.check(&table).map_err(|refused| Usage(format!("--scrub: {refused}")))?;
    Ok(table)
}

fn output(mining: &Mining, mined: &Mined, alone: &Mined) -> Output {
    let (freed, seconds) = (&mined.freed, mined.elapsed.seconds().max(1e-9));
    let free = (freed.bytes + freed.foreground_bytes) as f64;
    let percent = |part: Nanos| 100.0 * part.seconds() / freed.potential.seconds().max(1e-9);
    let scans = mined.blocks as f64 / (mining.drive.sectors / mining.block) as f64;
    let used = percent(freed.transfer) + percent(freed.seek);
    Output {
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
        share_pct: 100.0 * freed.share(),
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

fn text(output: &Output) -> String {
    let mut table = Table::new(&["", ""]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("foreground", format!("{} on {}, {}", output.workload, output.drive, output.scheduler));
    row("  requests", format!("{} in {} s", count(output.requests), number(output.elapsed_s, 0)));
    row("  mean response", format!("{} ms", number(output.mean_response_ms, 3)));
    row("  and without the scan", format!("{} ms", number(output.mean_response_alone_ms, 3)));
    let same = if output.foreground_same { "each one at the same time" } else { "not the same" };
    row("  all together longer by", format!("{} ns; {same}", number(output.foreground_delta_ns, 0)));
    if output.late + output.missed > 0 {
        row("  waited for another turn", count(output.late));
        row("  blocks or parts missed", count(output.missed));
    }
    if output.idle_visits > 0 {
        let each = (output.mean_response_ms - output.mean_response_alone_ms) * 1e3;
        row("  each later by", format!("{} us on average", number(each, 1)));
        let parts =
            format!("{} ms, {} ms", number(output.idle_waited_ms, 1), number(output.idle_moved_ms, 1));
        row("  waiting for a seek, head elsewhere", parts);
    }
    row("free", format!("{} MB/s, policy {}", number(output.free_mb_s, 2), output.freeblock_policy));
    let potential = format!("{} MB/s", number(output.potential_mb_s, 2));
    row("  of the potential", format!("{} % of {potential}", number(output.share_pct, 1)));
    if output.idle_visits > 0 {
        let visits = count(output.idle_visits);
        row("  in idle time", format!("{} MB/s, {visits} tracks", number(output.idle_mb_s, 2)));
    }
    if output.paid_mb_s > 0.0 {
        row("not free", format!("{} MB/s", number(output.paid_mb_s, 2)));
    }
    row("  scans", format!("{} ({})", number(output.scans, 3), counted(output.blocks, "block")));
    row("  scans a day", number(output.scans_per_day, 1));
    row(
        "  where the head's waits went",
        format!(
            "transfers {} %, extra seeks {} %, unused {} %",
            number(output.free_transfer_pct, 1),
            number(output.extra_seek_pct, 1),
            number(output.unused_pct, 1)
        ),
    );
    table.text()
}
