//! A drive's arithmetic against service times that were measured on the real one.
//!
//! The model is driven as the real drive was: one request at a time, the next one so long after the answer as
//! the measurement says; the clock is the model's own. *QQ RMS* compares the sorted times, *paired RMS* each
//! request with itself: only the second shows whether the model knows where the head is.

use seekless_core::{Extent, Nanos, Op};
use serde::Serialize;

use crate::disk::Drive;
use crate::disk::mechanics::Access;

/// A request and what the real drive took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub op: Op,
    /// Where.
    pub at: Extent,
    /// What the real drive took.
    pub service: Nanos,
    /// The time between this request and a neighbour, in which nothing was asked for.
    pub think: Nanos,
}

/// Between which requests the think time that stands with one lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Think {
    /// Before it.
    Before,
    /// Behind it.
    After,
}

/// How far the model is from the real drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// How many requests were compared.
    pub requests: u64,
    /// Half of the requests are at most so far off, in milliseconds.
    pub median_error_ms: f64,
    /// Root of the mean square of the differences of the sorted times.
    pub qq_rms_ms: f64,
    /// Root of the mean square of each request's difference.
    pub paired_rms_ms: f64,
    /// Of the requests, those at most half a millisecond off.
    pub within_half_ms_pct: f64,
    /// Mean service time of the model.
    pub mean_simulated_ms: f64,
    /// Mean service time of the real drive.
    pub mean_measured_ms: f64,
}

/// What the model takes for each request, in their order.
pub fn drive_as_measured(drive: &mut Drive, measured: &[Measured], think: Think) -> Vec<Nanos> {
    accesses_as_measured(drive, measured, think).iter().map(Access::total).collect()
}

/// The same, with where each time goes.
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
