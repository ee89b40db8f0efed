//! `seekless drive calibrate`: what a disk is like, by timed reads; by timed writes too if that is asked for by the
//! device's name.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use seekless_core::Nanos;
use seekless_core::runtime::Runtime;
use seekless_drive::calibrate::{self, Calibration, Comparison, Options};
use seekless_drive::spec::{find, shipped};
use seekless_drive::{Disk, QueueOptions, Spec};
use serde::Serialize;

use super::calibrated;
use crate::output;
use crate::progress::Progress;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive calibrate /dev/sdb -o my-drive.toml
  seekless drive calibrate seagate-cheetah-9lp
  seekless drive calibrate wd2500aaks --json | jq .found.zones
  seekless drive calibrate /dev/sdb --destructive /dev/sdb -o my-drive.toml

DEVICE is a whole spinning disk that nobody uses, and that nobody else reads meanwhile. Without
--destructive it is only read.
A drive of `seekless drive list` or a TOML file is simulated, which takes no time of anybody's; what
is true is then told beside what was found.

--destructive writes to some hundred blocks what was read from them just before, to find how much
longer writes settle. No byte changes, unless the power or a write fails: then a block may be lost.
At your own risk.";

/// Which device, and how.
#[derive(Args)]
pub struct Calibrate {
    /// A disk such as /dev/sdb; or a drive of `seekless drive list` or a TOML file, simulated
    device: String,
    /// Where to write the drive that was found
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// What the drive is to be called [default: the name of the file that is written]
    #[arg(long, requires = "output")]
    name: Option<String>,
    /// Overwrite a file that is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Of the disk's time, at most
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = at_least_a_minute)]
    time: Nanos,
    /// Take flash, a partition, a device made of others or a file, to try: the figures mean nothing
    #[arg(long)]
    anything: bool,
    /// Write too, to find how much longer writes settle: DEVICE again, so that no other disk is meant. Blocks get what
    /// was read from them; they may be lost if the power fails. At your own risk
    #[arg(long, value_name = "DEVICE")]
    destructive: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Told<'a> {
    device: &'a str,
    simulated: bool,
    found: &'a Calibration,
    /// Where the device is simulated: how near that is to what it is.
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
pub fn run(asked: &Calibrate) -> anyhow::Result<()> {
    if let Some(again) = asked.destructive.as_ref().filter(|again| **again != asked.device) {
        anyhow::bail!(
            "--destructive: found {again}, expected the device that is calibrated again: {}",
            asked.device
        );
    }
    if let Some(path) = &asked.output {
        output::expect_folder(path)?;
        if path.exists() && !asked.force {
            anyhow::bail!("{}: is there already; --force overwrites it", path.display());
        }
    }
    let truth = simulated(&asked.device)?;
    if let Some(spec) = truth.as_ref().filter(|spec| spec.actuators > 1) {
        anyhow::bail!("{}: found {} arms, expected a drive with one", asked.device, spec.actuators);
    }
    let progress = Progress::measured();
    let mut tell =
        |stage: &'static str, part: f64| progress.at(stage, (part.clamp(0.0, 1.0) * 1000.0) as u64, 1000);
    let destructive = asked.destructive.is_some();
    let options = Options { time: asked.time, destructive, ..Options::default() };
    let (found, title) = match &truth {
        Some(spec) => {
            let disk = Disk::new(0, spec, QueueOptions::default());
            let found = Runtime::new(options.seed).run(calibrate::calibrate(&disk, options, &mut tell))?;
            (found, format!("{}, simulated and calibrated", spec.title))
        }
        None => real(asked, options, &mut tell)?,
    };
    drop(progress);
    let found = found.with_context(|| asked.device.clone())?;
    let near = truth.as_ref().map(|spec| Comparison::new(&found, spec));
    if let Some(path) = &asked.output {
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = asked.name.clone().unwrap_or_else(stem);
        let text = toml::to_string(&found.spec(&name, &title))?;
        seekless_drive::spec::parse(&path.display().to_string(), &text)
            .context("what was found is no drive")?;
        output::file(path, &text)?;
    }
    if asked.json {
        let told = Told {
            device: &asked.device,
            simulated: truth.is_some(),
            found: &found,
            near: near.as_ref(),
            output: asked.output.as_deref(),
        };
        return output::json(&told);
    }
    let mut text = calibrated::text(&asked.device, &found, truth.as_ref(), near.as_ref());
    if let Some(path) = &asked.output {
        text.extend(["\nWritten to ", &path.display().to_string(), "\n"]);
    }
    output::print(&text)
}

/// The drive to simulate, if `device` is the name of one.
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

/// What was found, and what the drive is called by people.
type Measured = (Result<Calibration, calibrate::Unknown>, String);

/// A real device.
#[cfg(target_os = "linux")]
fn real(asked: &Calibrate, options: Options, tell: &mut calibrate::Progress<'_>) -> anyhow::Result<Measured> {
    use seekless_serve::{Admission, DirectFile, Target};

    let target = Target::open(
        Path::new(&asked.device),
        Admission { anything: asked.anything, writes: options.destructive },
    )?;
    let title = target.model.clone().unwrap_or_else(|| asked.device.clone());
    let found = Runtime::new(options.seed).run(async {
        let device = DirectFile::new(target);
        calibrate::calibrate(&device, options, tell).await
    })?;
    Ok((found, format!("{title}, calibrated")))
}

/// Nothing: this is not Linux.
#[cfg(not(target_os = "linux"))]
fn real(asked: &Calibrate, _: Options, _: &mut calibrate::Progress<'_>) -> anyhow::Result<Measured> {
    anyhow::bail!(
        "{}: found a device, expected the name of a drive: devices are read on Linux only",
        asked.device
    )
}
