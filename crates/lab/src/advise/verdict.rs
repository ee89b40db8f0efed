//! When a remedy is worth it: its gain is larger than it could be by chance, and requests do not wait longer for it.

use schemars::JsonSchema;
use seekless_core::units::thousands;
use serde::Serialize;

use super::{Measured, PARTS, Remedy};

/// Smallest gain that is worth an installation, in per cent of the busy time.
pub const MIN_GAIN_PCT: f64 = 3.0;
/// Smallest gain that counts, in standard errors.
const ERRORS: f64 = 2.0;
/// By how much the mean response time may grow.
const MAX_SLOWER: f64 = 1.02;
/// Below this share of the time, an idle disk needs no remedy, in per cent.
const MIN_BUSY_PCT: f64 = 1.0;
/// The longest recording that is asked for, in days.
const LONGEST_DAYS: f64 = 14.0;
/// Requests below which nothing is judged: 50 for each part of a recording.
pub const LEAST_REQUESTS: u64 = 50 * PARTS;
/// Requests of a recording that is asked for where there are fewer than that.
const ENOUGH_REQUESTS: f64 = 10.0 * LEAST_REQUESTS as f64;
/// The shortest recording that is asked for then, in seconds.
const SHORTEST_S: f64 = 600.0;

/// What is to be thought of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It helps.
    Recommended,
    /// It saves too little, or makes requests wait longer.
    NotWorthIt,
    /// It seems to help, and the recording is too short to know.
    TooShort,
}

/// What a remedy saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Of the whole recording, in per cent.
    pub net_pct: f64,
    /// Standard error of that, from its parts.
    pub error_pct: f64,
}

impl Gain {
    /// Of busy times by part, in seconds.
    pub fn of(base: &[f64], ours: &[f64]) -> Gain {
        let whole: f64 = base.iter().sum();
        if whole <= 0.0 {
            return Gain { net_pct: 0.0, error_pct: 0.0 };
        }
        let net = 1.0 - ours.iter().sum::<f64>() / whole;
        // Each part with the weight of its busy time. What is written back at the end belongs to the last part.
        let parts: Vec<(f64, f64)> = base
            .iter()
            .zip(ours)
            .filter(|(base, _)| **base > 0.0)
            .map(|(base, ours)| (base / whole, 1.0 - ours / base))
            .collect();
        let count = parts.len() as f64;
        if count < 2.0 {
            return Gain { net_pct: 100.0 * net, error_pct: 100.0 };
        }
        let squares: f64 = parts.iter().map(|(weight, gain)| (weight * (gain - net)).powi(2)).sum();
        Gain { net_pct: 100.0 * net, error_pct: 100.0 * (squares * count / (count - 1.0)).sqrt() }
    }

    fn is_certain(&self) -> bool {
        self.net_pct > ERRORS * self.error_pct
    }

    /// How long a recording should be to tell whether a gain as this one is by chance, in seconds, if this one is of
    /// `length_s`: the error falls with the root of the length. `None` if that is longer than is asked for.
    pub fn enough_s(&self, length_s: f64) -> Option<f64> {
        let times = (ERRORS * self.error_pct / self.net_pct).powi(2);
        within_reason((length_s * times).max(length_s))
    }
}

/// Judges a remedy with this gain, by the disk as it is and by its own run.
pub fn judge(gain: &Gain, base: &Measured, ours: &Measured) -> Judgement {
    let slower = ours.mean_ms > base.mean_ms * MAX_SLOWER;
    if gain.net_pct < MIN_GAIN_PCT || slower || base.busy_pct() < MIN_BUSY_PCT {
        Judgement::NotWorthIt
    } else if gain.is_certain() {
        Judgement::Recommended
    } else {
        Judgement::TooShort
    }
}

/// What to do, in a sentence.
pub fn sentence(base: &Measured, remedies: &[Remedy]) -> String {
    let of = |judgement| remedies.iter().find(move |remedy| remedy.judgement == judgement);
    if let Some(best) = of(Judgement::Recommended) {
        return format!(
            "Worth it: {}. It saves {:.0} % of the disk's busy time, give or take {:.0}.",
            best.what, best.net_gain_pct, best.error_pct
        );
    }
    if base.busy_pct() < MIN_BUSY_PCT {
        return format!("Nothing is worth it: the disk is busy {:.1} % of the time.", base.busy_pct());
    }
    let Some(best) = of(Judgement::TooShort) else {
        return format!(
            "Nothing that was tried is worth it: none saves {MIN_GAIN_PCT:.0} % of the disk's busy time without making requests wait."
        );
    };
    let longer = match best.record_s {
        Some(needed) => format!("a recording of {} would tell", rounded(needed)),
        None => format!("not even a recording of {LONGEST_DAYS:.0} days would tell"),
    };
    format!(
        "Not known: {} seems to save {:.0} %, give or take {:.0}; {longer}.",
        best.what, best.net_gain_pct, best.error_pct
    )
}

/// How long a recording should be where this one has too few requests to judge by, in seconds; `None` if that is longer
/// than is asked for.
pub fn enough_for_few_s(requests: u64, recorded_s: f64) -> Option<f64> {
    let needed = recorded_s * ENOUGH_REQUESTS / requests.max(1) as f64;
    within_reason(needed.max(SHORTEST_S))
}

/// The sentence for a recording of too few requests.
pub fn too_few(requests: u64, record_s: Option<f64>) -> String {
    let found = match requests {
        0 => return "Nothing is worth it: the recording has no requests.".to_owned(),
        1 => "1 request".to_owned(),
        other => format!("{other} requests"),
    };
    let how = match record_s {
        Some(needed) => format!("record {}", rounded(needed)),
        None => "the disk has next to nothing to do".to_owned(),
    };
    format!("Not known: the recording has {found}, too few to judge by; {how}.")
}

/// The sentence for a recording whose rows are not in the order of their times.
pub fn unsorted(late: u64, requests: u64) -> String {
    let (late, requests) = (thousands(late), thousands(requests));
    format!(
        "Not known: {late} of {requests} requests are not in the order of their times, which would be wrong; sort the rows by \
         time."
    )
}

fn within_reason(seconds: f64) -> Option<f64> {
    (seconds <= LONGEST_DAYS * 86_400.0).then_some(seconds)
}

/// A duration in the unit that suits it, rounded up.
pub fn rounded(seconds: f64) -> String {
    let (value, unit) = match seconds {
        _ if seconds < 120.0 => (seconds, "seconds"),
        _ if seconds < 7_200.0 => (seconds / 60.0, "minutes"),
        _ if seconds < 172_800.0 => (seconds / 3_600.0, "hours"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{:.0} {unit}", value.ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_recording_is_as_long_as_the_error_demands() {
        let gain = |net_pct, error_pct| Gain { net_pct, error_pct };
        // Twice the error is twice the gain: four times the length.
        assert_eq!(gain(10.0, 10.0).enough_s(600.0), Some(2_400.0));
        assert_eq!(gain(4.0, 60.0).enough_s(3_600.0), None);
        assert_eq!(enough_for_few_s(200, 2_000.0), Some(40_000.0));
        assert_eq!((enough_for_few_s(0, 0.0), enough_for_few_s(2, 86_400.0)), (Some(600.0), None));
        assert_eq!(rounded(2_400.0), "40 minutes");
        let sentence = too_few(1, Some(600.0));
        assert_eq!(
            sentence,
            "Not known: the recording has 1 request, too few to judge by; record 10 minutes."
        );
    }

    #[test]
    fn a_gain_of_one_part_is_within_its_error() {
        let gain = Gain::of(&[10.0, 10.0, 10.0, 10.0], &[10.0, 10.0, 10.0, 2.0]);
        assert!((gain.net_pct - 20.0).abs() < 1e-9 && !gain.is_certain(), "{gain:?}");
        let gain = Gain::of(&[10.0, 20.0, 10.0, 5.0], &[8.0, 16.4, 8.0, 4.0]);
        assert!((gain.net_pct - 19.11).abs() < 0.01 && gain.is_certain(), "{gain:?}");
        assert_eq!(Gain::of(&[], &[]), Gain { net_pct: 0.0, error_pct: 0.0 });
        assert!(!Gain::of(&[5.0, 0.0], &[1.0, 0.0]).is_certain());
    }
}
