//! Options of every command that reads a trace.

use std::path::PathBuf;

use clap::Args;
use seekless_core::Size;
use seekless_core::names::perhaps;
use seekless_trace::{Columns, DESCRIBED, FORMATS, Fixed, Format, ReadOptions, TimeUnit};

use crate::shipped;

/// How to read the files of a trace.
#[derive(Args, Clone, Default)]
pub struct Reading {
    /// Format of the files [default: detected from their content]; `trace info --formats` lists them
    #[arg(long, value_name = "NAME", value_parser = format)]
    format: Option<&'static Format>,
    /// Columns of a text: "time:us,op,offset:bytes,size:bytes", or the format that `blkparse -f` was given
    #[arg(long, value_name = "SPEC")]
    columns: Option<Columns>,
    /// Fields of a binary record: "u64le-time:us,u64le-offset:bytes,u32le-size:bytes", or u32le-page
    #[arg(long, value_name = "SPEC", conflicts_with = "columns")]
    record: Option<Fixed>,
    /// Unit of times where the format leaves it open: s, ms, us or ns [default: fio us, mqsim ns, columns and record s]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// Size of a sector in addresses where the format leaves it open [default: 512B]
    #[arg(long, value_name = "SIZE")]
    sector_size: Option<Size>,
    /// Read only the requests of this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Count malformed records, and go on
    #[arg(long)]
    skip_bad: bool,
}

fn format(name: &str) -> Result<&'static Format, String> {
    Format::named(name).ok_or_else(|| {
        let perhaps = perhaps(name, FORMATS.iter().chain(DESCRIBED).map(|format| format.name));
        format!("found '{name}', expected a name that trace info --formats lists{perhaps}")
    })
}

impl Reading {
    /// Whether one volume only is read.
    pub fn has_volume(&self) -> bool {
        self.volume.is_some()
    }

    /// Options for the trace crate; with `latencies`, requests are matched with their completions.
    pub fn options(&self, latencies: bool) -> ReadOptions {
        ReadOptions {
            format: self.format,
            columns: self.columns.clone(),
            record: self.record.clone(),
            time_unit: self.time_unit,
            sector_bytes: self.sector_size.map(|size| size.0),
            skip_bad: self.skip_bad,
            latencies,
            volume: self.volume.clone(),
        }
    }
}

/// A trace to read.
#[derive(Args, Clone)]
pub struct Input {
    /// Files of one recording, or its name (data/mail for data/mail.blktrace.0.xz and so on, here or where the
    /// program's own are); - is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// How to read them.
    #[command(flatten)]
    pub reading: Reading,
}

impl Input {
    /// The files here, or those of a recording that ships.
    pub fn found(&self) -> anyhow::Result<Vec<PathBuf>> {
        shipped::traces(&self.files)
    }
}
