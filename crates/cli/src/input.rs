//! Which trace is read, and how: the options that every command on a trace has.

use std::path::PathBuf;

use clap::Args;
use seekless_core::Size;
use seekless_trace::{Columns, Format, ReadOptions, TimeUnit};

/// How the files of a trace are read.
#[derive(Args, Clone, Default)]
pub struct Reading {
    /// The format of the files [default: what their content says]; `trace info --formats` lists them
    #[arg(long, value_name = "NAME", value_parser = format)]
    format: Option<&'static Format>,
    /// The format that `blkparse -f` was given, for the text it printed: "%D %T.%t %p %a %d %S %n %C\n"
    #[arg(long, value_name = "SPEC")]
    columns: Option<Columns>,
    /// The unit of times, s, ms, us or ns, where the format leaves it open [default: fio us, mqsim ns]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// The size of sectors in addresses, where the format leaves it open [default: spc, fiu 512B]
    #[arg(long, value_name = "SIZE")]
    sector_size: Option<Size>,
    /// Only the requests of this volume
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Count records that make no sense, and go on
    #[arg(long)]
    skip_bad: bool,
}

fn format(name: &str) -> Result<&'static Format, String> {
    Format::named(name)
        .ok_or_else(|| format!("found '{name}', expected a name that trace info --formats lists"))
}

impl Reading {
    /// The same for the trace crate; with `latencies`, requests wait for their answers.
    pub fn options(&self, latencies: bool) -> ReadOptions {
        ReadOptions {
            format: self.format,
            columns: self.columns.clone(),
            time_unit: self.time_unit,
            sector_bytes: self.sector_size.map(|size| size.0),
            skip_bad: self.skip_bad,
            latencies,
            volume: self.volume.clone(),
        }
    }
}

/// A trace that is read.
#[derive(Args, Clone)]
pub struct Input {
    /// The files of one recording, or its name (data/mail for data/mail.blktrace.0.xz and so on); - is
    /// standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// How they are read
    #[command(flatten)]
    pub reading: Reading,
}
