//! Public measurements of real drives, and what the models of these drives give for the same work.
//!
//! The measurements are in `data/measured-drives.toml`, each with its source and with the drives that were fitted to
//! it: what a drive was not fitted to, it predicts. Fault model: none; the file is part of the program, and a test
//! reads it.

mod job;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use schemars::JsonSchema;
use seekless_core::runtime::Stalled;
use serde::{Deserialize, Serialize};

use crate::spec::{Model, SpecError};
pub use job::{Did, Job};

/// The measurements that are known.
const KNOWN: &str = include_str!("../../../../data/measured-drives.toml");

/// A figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Mean response time, in milliseconds.
    MeanMs,
    /// Median of the response times, in milliseconds.
    P50Ms,
    /// 99th percentile, in milliseconds.
    P99Ms,
    /// 99.9th percentile, in milliseconds.
    P999Ms,
    /// Requests a second.
    PerS,
    /// 10^6 bytes a second.
    MbS,
}

impl Figure {
    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Figure::MeanMs | Figure::P50Ms | Figure::P99Ms | Figure::P999Ms => "ms",
            Figure::PerS => "per s",
            Figure::MbS => "MB/s",
        }
    }
}

/// A figure measured on a real drive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Models of the drive.
    pub drives: Vec<String>,
    /// Those among them that were fitted to this figure.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// What was measured.
    pub what: String,
    /// What the drive did.
    pub job: Job,
    /// Which figure of it.
    pub figure: Figure,
    /// Its value on the real drive.
    pub real: f64,
    /// Where it was published.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurements {
    measurement: Vec<Measurement>,
}

/// Whether a model was fitted to a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// It was.
    Fitted,
    /// It was not.
    Predicted,
}

/// A measured figure beside that of a model.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Compared {
    /// Name of the model.
    pub drive: String,
    /// What was measured.
    pub what: String,
    /// Unit of both figures.
    pub unit: &'static str,
    /// The figure of the real drive.
    pub real: f64,
    /// The figure of the model.
    pub ours: f64,
    /// How much more the model gives, in per cent.
    pub off_pct: f64,
    /// Whether the model was fitted to it.
    #[serde(rename = "use")]
    pub used: Use,
    /// Where the figure of the real drive was published.
    pub source: String,
}

/// Errors of a comparison.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file of measurements.
    #[error("data/measured-drives.toml: {0}")]
    Measurements(#[from] toml::de::Error),
    /// A drive.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// A request that never ended.
    #[error(transparent)]
    Stalled(#[from] Stalled),
    /// A request that failed.
    #[error("{drive}: {error}")]
    Failed {
        /// The drive.
        drive: String,
        /// The error.
        error: seekless_core::IoError,
    },
}

/// All measurements that are known.
pub fn known() -> Result<Vec<Measurement>, CheckError> {
    Ok(toml::from_str::<Measurements>(KNOWN)?.measurement)
}

/// Compares models with `measurements`: the one called `only`, or all of them.
pub fn compare(measurements: &[Measurement], only: Option<&str>) -> Result<Vec<Compared>, CheckError> {
    let mut done: BTreeMap<(&str, Job), Did> = BTreeMap::new();
    let mut compared = Vec::new();
    for measurement in measurements {
        for drive in measurement.drives.iter().filter(|drive| only.is_none_or(|only| only == *drive)) {
            let did = match done.entry((drive, measurement.job)) {
                Entry::Occupied(did) => did.into_mut(),
                Entry::Vacant(did) => did.insert(measurement.job.on(&Model::find(drive)?)?),
            };
            let ours = did.figure(measurement.figure);
            compared.push(Compared {
                drive: drive.clone(),
                what: measurement.what.clone(),
                unit: measurement.figure.unit(),
                real: measurement.real,
                ours,
                off_pct: (ours / measurement.real - 1.0) * 100.0,
                used: if measurement.fitted.contains(drive) { Use::Fitted } else { Use::Predicted },
                source: measurement.source.clone(),
            });
        }
    }
    compared.sort_by(|a, b| a.drive.cmp(&b.drive));
    Ok(compared)
}
