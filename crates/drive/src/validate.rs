//! Validation of a drive's model against service times measured on the real drive.
//!
//! The model is driven as the real drive was: one request at a time, the next one after the measured think time; the
//! clock is the model's own. *QQ RMS* compares the sorted times, *paired RMS* each request with itself: only the second
//! shows whether the model knows where the head is.

use schemars::JsonSchema;
use seekless_core::{Extent, Nanos, Op};
use serde::Serialize;

use crate::disk::Drive;
use crate::disk::mechanics::Access;

/// A request and the real drive's service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub op: Op,
    /// Sectors.
    pub at: Extent,
    /// Service time of the real drive.
    pub service: Nanos,
    /// Idle time between this request and a neighbour (see [`Think`]).
    pub think: Nanos,
}

/// Whether a request's think time is before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Think {
    /// Before the request.
    Before,
    /// After the request.
    After,
}

/// Differences between the model and the real drive.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Fidelity {
    /// Number of requests compared.
    pub requests: u64,
    /// Median of the absolute differences, in milliseconds.
    pub median_error_ms: f64,
    /// Root mean square of the differences of the sorted times.
    pub qq_rms_ms: f64,
    /// Root mean square of each request's difference.
    pub paired_rms_ms: f64,
    /// Share of requests at most half a millisecond off, in percent.
    pub within_half_ms_pct: f64,
    /// Mean service time of the model.
    pub mean_simulated_ms: f64,
    /// Mean service time of the real drive.
    pub mean_measured_ms: f64,
}

/// The model's time for each request, in their order.
pub fn drive_as_measured(drive: &mut Drive, measured: &[Measured], think: Think) -> Vec<Nanos> {
    accesses_as_measured(drive, measured, think).iter().map(Access::total).collect()
}

/// As `drive_as_measured`, with the parts of each time.
pub fn accesses_as_measured(drive: &mut Drive, measured: &[Measured], think: Think) -> Vec<Access> {
    let mut now = Nanos::ZERO;
    let mut simulated = Vec::with_capacity(measured.len());
    for request in measured {
        if think == Think::Before {
            now += request.think;
        }
        let took = drive.serve(request.op, request.at, now, false);
        simulated.push(took);
        now += took.total();
        if think == Think::After {
            now += request.think;
        }
    }
    simulated
}

/// Compares the model's times with the measured ones.
pub fn compare(simulated: &[Nanos], measured: &[Measured]) -> Fidelity {
    let real = || measured.iter().map(|request| request.service);
    let count = simulated.len().max(1) as f64;
    let mean = |times: &mut dyn Iterator<Item = Nanos>| times.map(millis).sum::<f64>() / count;
    let rms = |squares: f64| (squares / count).sqrt();
    let off = || simulated.iter().zip(real()).map(|(simulated, real)| millis(*simulated) - millis(real));
    let mut errors: Vec<f64> = off().map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    let (mut sorted, mut sorted_real) = (simulated.to_vec(), real().collect::<Vec<_>>());
    sorted.sort_unstable();
    sorted_real.sort_unstable();
    let apart = sorted.iter().zip(&sorted_real).map(|(one, other)| (millis(*one) - millis(*other)).powi(2));
    Fidelity {
        requests: simulated.len() as u64,
        median_error_ms: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
        qq_rms_ms: rms(apart.sum()),
        paired_rms_ms: rms(off().map(|off| off * off).sum()),
        within_half_ms_pct: 100.0 * errors.partition_point(|error| *error <= 0.5) as f64 / count,
        mean_simulated_ms: mean(&mut simulated.iter().copied()),
        mean_measured_ms: mean(&mut real()),
    }
}

fn millis(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}
