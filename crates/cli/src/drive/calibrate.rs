//! `seekless drive calibrate`: measures a disk by timed reads; by timed writes too if requested with the device's name.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_core::runtime::Runtime;
use seekless_drive::calibrate::{self, Calibration, Comparison, Options};
use seekless_drive::spec::{find, shipped};
use seekless_drive::{Disk, QueueOptions, Spec};
use serde::Serialize;

use super::calibrated;
use crate::output::{self, Form};
use crate::progress::Progress;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive calibrate /dev/sdb -o my-drive.toml
  seekless drive calibrate seagate-cheetah-9lp
  seekless drive calibrate wd2500aaks --json | jq .found.zones
  seekless drive calibrate /dev/sdb --destructive /dev/sdb -o my-drive.toml

DEVICE is a whole spinning disk that is not in use, nor read by others meanwhile. Without
--destructive it is only read.
A drive of `seekless drive list` or a TOML file is simulated; the output then shows its true figures
beside the measured ones.

--destructive rewrites some hundred blocks with their own content, to measure how much longer writes
settle. No byte changes, unless the power or a write fails: then a block may be lost.
At your own risk.";

/// Arguments of `drive calibrate`.
#[derive(Args)]
pub struct Calibrate {
    /// A disk such as /dev/sdb; or the name or TOML file of a drive to simulate
    device: String,
    /// Write the measured drive to this file
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Name of the drive [default: the name of the output file]
    #[arg(long, requires = "output")]
    name: Option<String>,
    /// Overwrite the output file
    #[arg(long, requires = "output")]
    force: bool,
    /// Limit on the disk time used
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = at_least_a_minute)]
    time: Nanos,
    /// Allow flash, a partition, a stacked device or a file, for experiments: the figures mean nothing
    #[arg(long)]
    anything: bool,
    /// Write too, to measure the settle time of writes: repeat DEVICE here, to confirm the disk. Blocks are rewritten
    /// with their own content, but may be lost if the power fails. At your own risk
    #[arg(long, value_name = "DEVICE")]
    destructive: Option<String>,
    #[command(flatten)]
    form: Form,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Calibrated<'a> {
    device: &'a str,
    simulated: bool,
    found: &'a Calibration,
    /// For a simulated device: how close the result is to the truth.
    #[serde(skip_serializing_if = "Option::is_none")]
    near: Option<&'a Comparison>,
    output: Option<&'a Path>,
}

fn at_least_a_minute(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    if time < Nanos::from_millis(60_000) {
        return Err("expected a minute or more".to_owned());
    }
    Ok(time)
}

/// `seekless drive calibrate`
pub fn run(arguments: &Calibrate) -> anyhow::Result<()> {
    if let Some(again) = arguments.destructive.as_ref().filter(|again| **again != arguments.device) {
        anyhow::bail!(
            "--destructive: found {again}, expected the device that is calibrated again: {}",
            arguments.device
        );
    }
    if let Some(path) = &arguments.output {
        output::expect_folder(path)?;
        output::expect_room(path, arguments.force)?;
    }
    let truth = simulated(&arguments.device)?;
    if let Some(spec) = truth.as_ref().filter(|spec| spec.actuators > 1) {
        anyhow::bail!("{}: found {} arms, expected a drive with one", arguments.device, spec.actuators);
    }
    let progress = Progress::measured();
    let mut report =
        |stage: &'static str, part: f64| progress.at(stage, (part.clamp(0.0, 1.0) * 1000.0) as u64, 1000);
    let destructive = arguments.destructive.is_some();
    let options = Options { time: arguments.time, destructive, ..Options::default() };
    let (found, title) = match &truth {
        Some(spec) => {
            let disk = Disk::new(0, spec, QueueOptions::default());
            let found = Runtime::new(options.seed).run(calibrate::calibrate(&disk, options, &mut report))?;
            (found, format!("{}, simulated and calibrated", spec.title))
        }
        None => real(arguments, options, &mut report)?,
    };
    drop(progress);
    let found = found.with_context(|| arguments.device.clone())?;
    let near = truth.as_ref().map(|spec| Comparison::new(&found, spec));
    if let Some(path) = &arguments.output {
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = arguments.name.clone().unwrap_or_else(stem);
        let text = toml::to_string(&found.spec(&name, &title))?;
        seekless_drive::spec::parse(&path.display().to_string(), &text)
            .context("the measured figures make no valid drive")?;
        output::file(path, &text)?;
    }
    let result = Calibrated {
        device: &arguments.device,
        simulated: truth.is_some(),
        found: &found,
        near: near.as_ref(),
        output: arguments.output.as_deref(),
    };
    arguments.form.print(&result, "found.zones", || {
        let mut text = calibrated::text(&arguments.device, &found, truth.as_ref(), near.as_ref());
        if let Some(path) = &arguments.output {
            text.extend(["\nWritten to ", &path.display().to_string(), "\n"]);
        }
        text
    })
}

/// The drive to simulate, if `device` names one.
fn simulated(device: &str) -> anyhow::Result<Option<Spec>> {
    let file = Path::new(device).extension().is_some_and(|extension| extension == "toml");
    let name = shipped().any(|name| name == device);
    if file || name {
        return Ok(Some(find(device)?));
    }
    if !device.contains('/') && !Path::new(device).exists() {
        find(device).with_context(|| format!("{device}: found neither a device nor a drive"))?;
    }
    Ok(None)
}

/// The measured drive, and its description.
type Measured = (Result<Calibration, calibrate::Unknown>, String);

/// Calibrates a real device.
#[cfg(target_os = "linux")]
fn real(
    arguments: &Calibrate,
    options: Options,
    report: &mut calibrate::Progress<'_>,
) -> anyhow::Result<Measured> {
    use seekless_serve::{Admission, DirectFile, Target};

    let target = Target::open(
        Path::new(&arguments.device),
        Admission { any_kind: arguments.anything, writes: options.destructive },
    )?;
    let title = target.model.clone().unwrap_or_else(|| arguments.device.clone());
    let found = Runtime::new(options.seed).run(async {
        let device = DirectFile::new(target);
        calibrate::calibrate(&device, options, report).await
    })?;
    Ok((found, format!("{title}, calibrated")))
}

/// Not supported: this is not Linux.
#[cfg(not(target_os = "linux"))]
fn real(arguments: &Calibrate, _: Options, _: &mut calibrate::Progress<'_>) -> anyhow::Result<Measured> {
    anyhow::bail!(
        "{}: found a device, expected the name of a drive: devices can be read on Linux only",
        arguments.device
    )
}
