//! A task of a sweep: all that its result depends on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seekless_trace::Trace;
use seekless_volume::description::{Description, VolumeError};
use seekless_volume::file;
use serde::Serialize;

use super::hash::Hash;
use super::row::{Figure, Row};
use crate::compare::compare_volumes;
use crate::error::LabError;
use crate::setup::{Candidate, OUTSTANDING, Pace, Play, Progress};

/// A self-contained task.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Task {
    /// The program that runs it, with its version: another one may have other results.
    pub program: String,
    /// The recording.
    pub trace: Source,
    /// The volume to measure.
    pub volume: VolumeText,
    /// The volume to compare with; without one, the volume without its layers.
    pub base: Option<VolumeText>,
    /// Hashes of the drive files that both name.
    pub drive_files: BTreeMap<String, String>,
    /// How to play the trace.
    pub play: PlayKeys,
    /// Values of the parameters, by name, in the order of the columns.
    pub settings: Vec<(String, Figure)>,
}

/// The files of a recording.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Source {
    /// Its name in the sweep's file.
    pub name: String,
    /// The files, each with the hash of its content.
    pub files: Vec<(String, String)>,
    /// The volume of the recording, if it is one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// A volume file with the task's options.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct VolumeText {
    /// The file; drive files are sought beside it.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// How to play a trace, as far as a sweep varies it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct PlayKeys {
    /// Limit of outstanding requests.
    pub outstanding: u64,
    /// Open pace with this speed-up, in place of the closed one.
    pub speed: Option<f64>,
    /// Number of reconfigurations.
    pub reconfigure: u32,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for PlayKeys {
    /// The defaults of `seekless lab compare`.
    fn default() -> PlayKeys {
        let Play { reconfigure, seed, .. } = Play::default();
        PlayKeys { outstanding: u64::from(OUTSTANDING), speed: None, reconfigure, seed }
    }
}

impl VolumeText {
    /// The volume.
    pub fn description(&self) -> Result<Description, VolumeError> {
        file::parse(&self.file, &self.text)
    }
}

impl Task {
    /// The hash of the task's content, in hexadecimal: the program, the contents of the files, and all options, but no
    /// names of files.
    pub fn identity(&self) -> String {
        let traces: Vec<&String> = self.trace.files.iter().map(|(_, hash)| hash).collect();
        let drives: Vec<&String> = self.drive_files.values().collect();
        let base = self.base.as_ref().map(|base| &base.text);
        let content =
            (&self.program, (traces, &self.trace.volume), &self.volume.text, base, drives, &self.play);
        Hash::of(serde_json::to_string(&content).unwrap_or_default().as_bytes()).to_string()
    }

    /// The parameters in a line, for messages.
    pub fn line(&self) -> String {
        let each: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        each.join(", ")
    }

    /// The volume to compare with; `None` if there is no file and a layer lies over several devices.
    pub fn base(&self, volume: &Description) -> Result<Option<Description>, VolumeError> {
        self.base.as_ref().map_or_else(|| Ok(volume.without_layers()), |base| base.description().map(Some))
    }
}

/// The row of a task, whose trace this is.
pub fn run(task: &Task, trace: &Trace, progress: &dyn Fn(Progress)) -> Row {
    compared(task, trace, progress).unwrap_or_else(|error| Row::failed(task.identity(), error.to_string()))
}

fn compared(task: &Task, trace: &Trace, progress: &dyn Fn(Progress)) -> Result<Row, LabError> {
    let volume = task.volume.description()?;
    let Some(base) = task.base(&volume)? else {
        let found = "no volume to compare with".to_owned();
        return Err(LabError::Setting { setting: "base", found, expected: "a volume file".to_owned() });
    };
    let PlayKeys { outstanding, speed, reconfigure, seed } = task.play;
    let closed = Pace::Closed { outstanding: outstanding as usize };
    let pace = speed.map_or(closed, |speed| Pace::Open { speed });
    let play = Play { pace, reconfigure, seed, ..Play::default() };
    let candidate = |name: &str, volume| Candidate { name: name.to_owned(), volume };
    let both = [candidate("base", base), candidate("volume", volume)];
    let compared = compare_volumes(trace, &both, &play, progress)?;
    Ok(Row::of(task.identity(), &compared.variants[0], &compared.variants[1]))
}
