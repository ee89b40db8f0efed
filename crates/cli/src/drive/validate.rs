//! `seekless drive validate`: compares a drive with service times measured on the real one.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_drive::Spec;
use seekless_drive::disk::Drive;
use seekless_drive::fit::phase::think_side;
use seekless_drive::import::disksim;
use seekless_drive::spec::find;
use seekless_drive::validate::{Fidelity, Measured, Think, accesses_as_measured, compare, drive_as_measured};
use seekless_trace::{Format, ReadOptions, Reader};
use serde::Serialize;

use crate::output::{self, Form};
use crate::table::Table;
use crate::text::{count, number};

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive validate atlas10k.parv atlas10k.trace
  seekless drive validate my-drive.toml my-drive.trace --half second --json
  seekless drive validate my-drive.toml my-drive.trace --plot errors.svg

TRACE is one of DiskSim's validation traces: R|W, Hit|Miss, sector, sectors, service time, think
time. The model is driven as the real drive was: one request at a time.";

/// Arguments of `drive validate`.
#[derive(Args)]
pub struct Validate {
    /// Name of a drive, a TOML file, or a .parv file of DiskSim
    drive: String,
    /// Measured requests
    trace: PathBuf,
    /// Half of the requests that counts; the other one only warms the drive up
    #[arg(long, value_enum, default_value = "all")]
    half: Half,
    /// Put a request's think time before it or after it [default: the one for which media reads are in phase with the
    /// rotating disk]
    #[arg(long, value_enum)]
    think: Option<Side>,
    /// Draw both distributions, and the errors over time and by kind of request, to this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Overwrite the SVG file
    #[arg(long, requires = "plot")]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// A part of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Half {
    /// All of them
    All,
    /// The first half
    First,
    /// The second half
    Second,
}

impl Half {
    /// The range of the part among `requests` requests.
    fn of(self, requests: usize) -> std::ops::Range<usize> {
        match self {
            Half::All => 0..requests,
            Half::First => 0..requests / 2,
            Half::Second => requests / 2..requests,
        }
    }
}

/// Position of a think time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Before its request
    Before,
    /// After its request
    After,
}

/// Result of a validation.
#[derive(JsonSchema, Serialize)]
pub struct Validated {
    half: Half,
    think: Think,
    #[serde(flatten)]
    fidelity: Fidelity,
    /// Errors if the drive read out of order while it holds the bus, for one that does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_order: Option<Fidelity>,
    requests_per_cpu_s: f64,
}

/// `seekless drive validate`
pub fn run(validate: &Validate) -> anyhow::Result<()> {
    let spec = drive(&validate.drive)?;
    let measured = measured(&validate.trace, &spec)?;
    let think = match validate.think {
        Some(Side::Before) => Think::Before,
        Some(Side::After) => Think::After,
        None => think_side(&spec, &measured),
    };
    if let Some(path) = &validate.plot {
        output::expect_room(path, validate.force)?;
        let accesses = accesses_as_measured(&mut Drive::new(&spec), &measured, think);
        let part = validate.half.of(measured.len());
        let title = format!("{}: {}", spec.name, spec.title);
        output::file(
            path,
            &seekless_lab::report::validation(&title, &accesses[part.clone()], &measured[part]),
        )?;
    }
    let validated = Validated::of(&spec, &measured, think, validate.half);
    validate.form.print(&validated, "", || text(&validated))
}

impl Validated {
    /// The errors of `spec` against measured requests.
    pub fn of(spec: &Spec, measured: &[Measured], think: Think, half: Half) -> Validated {
        let mut model = Drive::new(spec);
        let began = cpu_seconds();
        let simulated = drive_as_measured(&mut model, measured, think);
        let took = cpu_seconds() - began;
        let part = half.of(measured.len());
        let compared = |simulated: &[Nanos]| compare(&simulated[part.clone()], &measured[part.clone()]);
        let fidelity = compared(&simulated);
        let mut free = spec.clone();
        free.cache.in_order_when_held = false;
        let held = spec.bus.holds_read();
        let out_of_order = (free.cache.reads_any_order(held) && !spec.cache.reads_any_order(held))
            .then(|| compared(&drive_as_measured(&mut Drive::new(&free), measured, think)));
        let requests_per_cpu_s = measured.len() as f64 / took.max(1e-9);
        Validated { half, think, fidelity, out_of_order, requests_per_cpu_s }
    }
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The drive of this name or file.
pub fn drive(name: &str) -> anyhow::Result<Spec> {
    let path = Path::new(name);
    let disksims = ["parv", "diskspecs", "model"];
    if path.extension().is_some_and(|extension| disksims.iter().any(|known| extension == *known)) {
        return Ok(disksim(path, "imported")?.spec);
    }
    Ok(find(name)?)
}

/// The requests of a validation trace.
pub fn measured(path: &Path, spec: &Spec) -> anyhow::Result<Vec<Measured>> {
    let options = ReadOptions { format: Format::named("disksim-validate"), ..ReadOptions::default() };
    let records = Reader::open(&[path], &options)?.collect::<Result<Vec<_>, _>>()?;
    Ok(seekless_lab::measured::measured(&path.display().to_string(), &records, spec)?)
}

pub fn text(validated: &Validated) -> String {
    let fidelity = &validated.fidelity;
    let ms = |value: f64| number(value, 3);
    let part = match (validated.half, validated.think) {
        (Half::All, Think::Before) => "all, think times before their requests",
        (Half::All, Think::After) => "all, think times behind their requests",
        (Half::First, Think::Before) => "the first half, think times before their requests",
        (Half::First, Think::After) => "the first half, think times behind their requests",
        (Half::Second, Think::Before) => "the second half, think times before their requests",
        (Half::Second, Think::After) => "the second half, think times behind their requests",
    };
    let mut table = Table::new(&["", ">", ""]);
    for (name, value, what) in [
        ("requests", count(fidelity.requests), part),
        ("median error", ms(fidelity.median_error_ms), "ms"),
        ("QQ RMS", ms(fidelity.qq_rms_ms), "ms: the sorted times against each other"),
        ("paired RMS", ms(fidelity.paired_rms_ms), "ms: each request against itself"),
        ("within 0.5 ms", number(fidelity.within_half_ms_pct, 1), "% of requests"),
        ("mean, simulated", ms(fidelity.mean_simulated_ms), "ms"),
        ("mean, measured", ms(fidelity.mean_measured_ms), "ms"),
    ] {
        table.row([name, &value, what]);
    }
    if let Some(free) = &validated.out_of_order {
        table.row([
            "QQ RMS, out of order",
            &ms(free.qq_rms_ms),
            "ms: if it did not read in order on a held bus",
        ]);
        table.row(["within 0.5 ms", &number(free.within_half_ms_pct, 1), "% of requests, the same"]);
    }
    table.text()
}
