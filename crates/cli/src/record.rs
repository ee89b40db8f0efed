//! `seekless trace record`: the arguments, the progress on a terminal, the summary.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seekless_core::{Nanos, Size};
use seekless_record::{Choice, End, Message, Request, Summary, Tally};

use crate::output;
use crate::table::Table;
use crate::text::{count, counted, size, span};

/// What stands below the help.
pub const HELP: &str = "\
Examples:
  seekless trace record sda -o home.trace --for 10m
  seekless trace record /dev/mapper/home -o home.trace --max 1GiB --json

Needs Linux and the rights of root. The file is in the format of blktrace: `seekless trace stats
home.trace` reads it, and so does `blkparse -i - < home.trace`.";

/// What `trace record` is asked.
#[derive(Args)]
pub struct Arguments {
    /// The device: /dev/sda, sda, a partition, or a device-mapper device
    device: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after this long, such as 30s, 10m or 2h [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Nanos>,
    /// Stop before the file is larger than this, such as 1GiB
    #[arg(long, value_name = "SIZE")]
    max: Option<Size>,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
    /// Where the events come from
    #[arg(long, value_enum, default_value = "auto")]
    source: From,
    /// The kernel's buffer for each CPU; larger ones lose less
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = buffer)]
    buffer: Size,
    /// Where tracefs is mounted, if not at a usual place
    #[arg(long, value_name = "FOLDER")]
    tracefs: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The sources as a user names them.
#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// The blk tracer if nobody uses it, else events
    Auto,
    /// The kernel's blk tracer, of which there is one
    Blk,
    /// Block events in a buffer of their own, which disturbs nobody
    Events,
}

/// A buffer that a kernel can make, and that holds something.
fn buffer(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: seekless_core::units::UnitError| error.to_string())?;
    if (64 << 10..=1 << 30).contains(&size.0) {
        Ok(size)
    } else {
        Err(format!("found {size}, expected 64KiB to 1GiB"))
    }
}

/// Records.
pub fn run(asked: &Arguments) -> anyhow::Result<()> {
    if asked.output.as_os_str() == "-" {
        anyhow::bail!("-o -: found standard output, expected a file");
    }
    let request = Request {
        device: asked.device.clone(),
        output: asked.output.clone(),
        force: asked.force,
        tracefs: asked.tracefs.clone(),
        source: match asked.source {
            From::Auto => Choice::Auto,
            From::Blk => Choice::Blk,
            From::Events => Choice::Events,
        },
        duration: asked.duration,
        max_bytes: asked.max.map(|max| max.0),
        buffer_bytes: asked.buffer.0,
    };
    let bar = bar();
    let recorded = seekless_record::record(&request, &mut |told| tell(&bar, &told));
    bar.finish_and_clear();
    let summary = recorded?;
    let lost = summary.tally.lost;
    if lost > 0 {
        output::warn(&[format!(
            "the kernel had no room for {}: record with a larger --buffer than {}",
            counted(lost, "event"),
            asked.buffer
        )]);
    }
    if asked.json { output::json(&summary) } else { output::print(&text(&summary)) }
}

/// A line on a terminal, nothing elsewhere.
fn bar() -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg}").expect("that is a template");
    ProgressBar::with_draw_target(None, target).with_style(style)
}

fn tell(bar: &ProgressBar, told: &Message) {
    match told {
        Message::Began(device, source) => {
            bar.set_message(format!("recording {} ({source}), Ctrl-C stops", output::plain(device)));
        }
        Message::Tally(tally) => bar.set_message(line(tally)),
        Message::Warning(warning) => bar.suspend(|| output::warn(std::slice::from_ref(warning))),
    }
}

fn line(tally: &Tally) -> String {
    let lost = if tally.lost > 0 { format!(", {} lost", count(tally.lost)) } else { String::new() };
    format!(
        "recording, Ctrl-C stops: {}, {} of {}, {}{lost}",
        span(tally.seconds),
        counted(tally.requests, "request"),
        counted(tally.events, "event"),
        size(tally.bytes)
    )
}

fn text(summary: &Summary) -> String {
    let tally = &summary.tally;
    let end = match summary.end {
        End::Signal => "by a signal",
        End::Time => "the time asked for is over",
        End::Size => "the file is as large as it may be",
    };
    let mut table = Table::new(&["", ""]);
    table.row(["device".to_owned(), format!("{} ({})", summary.device, summary.number)]);
    table.row(["source".to_owned(), summary.source.to_owned()]);
    table.row(["file".to_owned(), format!("{} ({})", summary.file.display(), size(tally.bytes))]);
    table.row(["time span".to_owned(), span(tally.seconds)]);
    table.row(["ended".to_owned(), end.to_owned()]);
    table.row(["requests".to_owned(), count(tally.requests)]);
    table.row(["events".to_owned(), format!("{}, {} lost", count(tally.events), count(tally.lost))]);
    table.row(["names".to_owned(), count(tally.names)]);
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_something_and_fits() {
        assert_eq!(buffer("8MiB"), Ok(Size(8 << 20)));
        assert!(buffer("1KiB").is_err() && buffer("2GiB").is_err());
    }
}
