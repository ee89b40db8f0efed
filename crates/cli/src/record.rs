//! `seekless trace record`: arguments, progress on a terminal, summary.

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seekless_core::{Nanos, Size};
use seekless_record::{Choice, End, Message, Request, Summary, Tally};

use crate::noted;
use crate::output;
use crate::table::Table;
use crate::text::{count, counted, size, span};

/// Text below the help.
pub const HELP: &str = "\
Examples:
  seekless trace record sda -o home.trace --for 10m
  seekless trace record /dev/mapper/home -o home.trace --max 1GiB --json

Needs Linux and the rights of root. The file is in the format of blktrace: `seekless trace stats
home.trace` reads it, and so does `blkparse -i - < home.trace`.";

/// Arguments of `trace record`.
#[derive(Args)]
pub struct Arguments {
    /// Device: /dev/sda, sda, a partition, or a device-mapper device
    device: PathBuf,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after this time, such as 30s, 10m or 2h [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Nanos>,
    /// Stop before the file exceeds this size, such as 1GiB
    #[arg(long, value_name = "SIZE")]
    max: Option<Size>,
    /// Overwrite FILE
    #[arg(long)]
    force: bool,
    /// Source of the events
    #[arg(long, value_enum, default_value = "auto")]
    source: From,
    /// Size of the kernel's buffer for each CPU; larger ones lose less
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = buffer)]
    buffer: Size,
    /// Mount point of tracefs, if it is not a usual one
    #[arg(long, value_name = "FOLDER")]
    tracefs: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Sources, as named on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum From {
    /// The blk tracer if it is free, otherwise events
    Auto,
    /// The kernel's blk tracer, of which there is only one
    Blk,
    /// Block events in a buffer of their own, which affects no other tracing
    Events,
}

/// A buffer size that kernels accept.
fn buffer(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: seekless_core::units::UnitError| error.to_string())?;
    if (64 << 10..=1 << 30).contains(&size.0) {
        Ok(size)
    } else {
        Err(format!("found {size}, expected 64KiB to 1GiB"))
    }
}

/// Records a trace.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.output.as_os_str() == "-" {
        anyhow::bail!("-o -: found standard output, expected a file");
    }
    let notes = noted::file(&arguments.output);
    output::expect_room(&notes, arguments.force)?;
    let request = Request {
        device: arguments.device.clone(),
        output: arguments.output.clone(),
        force: arguments.force,
        tracefs: arguments.tracefs.clone(),
        source: match arguments.source {
            From::Auto => Choice::Auto,
            From::Blk => Choice::Blk,
            From::Events => Choice::Events,
        },
        duration: arguments.duration,
        max_bytes: arguments.max.map(|max| max.0),
        buffer_bytes: arguments.buffer.0,
    };
    let bar = bar();
    let recorded = seekless_record::record(&request, &mut |event| show(&bar, &event));
    bar.finish_and_clear();
    let summary = recorded?;
    output::file(&notes, &output::json_text(&summary)?)?;
    let lost = summary.tally.lost;
    if lost > 0 {
        output::warn(&[format!(
            "the kernel's buffer overflowed by {}: record with a larger --buffer than {}",
            counted(lost, "event"),
            arguments.buffer
        )]);
    }
    if arguments.json { output::json(&summary) } else { output::print(&text(&summary)) }
}

/// A progress line on a terminal, nothing elsewhere.
fn bar() -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{msg}").expect("that is a template");
    ProgressBar::with_draw_target(None, target).with_style(style)
}

fn show(bar: &ProgressBar, event: &Message) {
    match event {
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
        End::Time => "the duration is over",
        End::Size => "the file has reached its size limit",
    };
    let mut table = Table::new(&["", ""]);
    table.row(["device".to_owned(), format!("{} ({})", summary.device, summary.number)]);
    if let Some(model) = &summary.disk.model {
        table.row(["model".to_owned(), model.clone()]);
    }
    table.row(["source".to_owned(), summary.source.to_owned()]);
    table.row(["file".to_owned(), format!("{} ({})", summary.file.display(), size(tally.bytes))]);
    table.row(["notes".to_owned(), noted::file(&summary.file).display().to_string()]);
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
