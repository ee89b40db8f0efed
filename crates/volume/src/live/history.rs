//! The past of a layer as the status shows it, and as lines of the log.

use schemars::JsonSchema;
use seekless_core::Nanos;
use seekless_core::history::{Checked, Gain, Past, Predicted, Span};
use serde::{Deserialize, Serialize};

/// A reconfiguration that has ended, also without a change.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct PastStatus {
    /// Its number since the layer was opened, from 1.
    pub number: u64,
    /// Seconds from the server's start to its begin.
    pub at_s: f64,
    /// Reason for it.
    pub why: String,
    /// What it decided.
    pub decided: String,
    /// Its duration in seconds.
    pub took_s: f64,
    /// Its stages, in order.
    pub stages: Vec<StageStatus>,
    /// Pages in the plan.
    pub planned_pages: u64,
    /// Pages copied.
    pub copied_pages: u64,
    /// What its decision was expected to save, if a rehearsal chose it.
    pub predicted: Option<PredictedStatus>,
    /// How well the model predicted the requests before it, if a rehearsal was made.
    pub model: Option<ModelError>,
    /// Gain measured from its end to the end of the next one, if any read was timed.
    pub gain: Option<GainStatus>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A stage of a reconfiguration.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct StageStatus {
    /// Its name.
    pub name: String,
    /// Its duration in seconds, including foreground requests in between.
    pub took_s: f64,
    /// Pages moved or examined.
    pub pages: u64,
}

/// Busy time of the devices for the requests of a rehearsal.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct PredictedStatus {
    /// Requests that were played on the model.
    pub requests: u64,
    /// Busy time for them if nothing changes, in seconds.
    pub present_s: f64,
    /// Busy time for them as decided, in seconds.
    pub chosen_s: f64,
    /// Busy time of the change itself, in seconds.
    pub moves_s: f64,
    /// What is saved, in per cent, without the change itself.
    pub saved_percent: f64,
}

/// Mean response time of the same requests on the model and in fact.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct ModelError {
    /// On the model, in milliseconds.
    pub predicted_ms: f64,
    /// As measured, in milliseconds.
    pub measured_ms: f64,
    /// The error in per cent of what was measured; above 0 if the model is slower.
    pub error_percent: f64,
}

/// Reads of clean copies in short random intervals: from the copies, and from the origin to be compared with them.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct GainStatus {
    /// Timed reads from copies.
    pub reads_from_copies: u64,
    /// Timed reads from the origin.
    pub reads_from_origin: u64,
    /// Mean response time from copies, in milliseconds.
    pub copies_ms: Option<f64>,
    /// Mean response time from the origin, in milliseconds.
    pub origin_ms: Option<f64>,
    /// Response time that copies save, in per cent of that from the origin; absent with too few intervals.
    pub gain_percent: Option<f64>,
    /// Half of the confidence interval of that, 95 %, in per cent.
    pub plus_minus_percent: Option<f64>,
}

/// Hits and gain of the latest time.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct SpanStatus {
    /// The time: `hour`, `day` or `week`.
    pub of: String,
    /// Its length in seconds: less if the layer was opened later.
    pub length_s: f64,
    /// Pages that clients read and wrote.
    pub pages: u64,
    /// Those of them that copies served.
    pub hits: u64,
    /// The gain, if any read was timed.
    pub gain: Option<GainStatus>,
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

impl GainStatus {
    fn of(gain: &Gain) -> Option<GainStatus> {
        let (gain_percent, plus_minus_percent) = gain.percent().unzip();
        (gain.copies.reads + gain.origin.reads > 0).then(|| GainStatus {
            reads_from_copies: gain.copies.reads,
            reads_from_origin: gain.origin.reads,
            copies_ms: gain.copies.mean_ms(),
            origin_ms: gain.origin.mean_ms(),
            gain_percent,
            plus_minus_percent,
        })
    }

    /// The gain in words, if it is known.
    pub fn text(&self) -> Option<String> {
        let (gain, error) = self.gain_percent.zip(self.plus_minus_percent)?;
        let (copies, origin) = self.copies_ms.zip(self.origin_ms)?;
        Some(format!(
            "reads from copies take {gain:.0} ± {error:.0} % less ({copies:.2} ms, from the origin {origin:.2} ms)"
        ))
    }
}

impl PastStatus {
    /// The status of a reconfiguration.
    pub fn of(past: &Past) -> PastStatus {
        let predicted = |predicted: Predicted| PredictedStatus {
            requests: predicted.requests,
            present_s: seconds(predicted.present),
            chosen_s: seconds(predicted.chosen),
            moves_s: seconds(predicted.moves),
            saved_percent: predicted.saved_percent(),
        };
        let model = |checked: Checked| ModelError {
            predicted_ms: seconds(checked.predicted) * 1e3,
            measured_ms: seconds(checked.measured) * 1e3,
            error_percent: checked.error_percent(),
        };
        let stages = past.report.stages.iter().map(|stage| StageStatus {
            name: stage.name.to_owned(),
            took_s: seconds(stage.took),
            pages: stage.pages,
        });
        PastStatus {
            number: past.number,
            at_s: seconds(past.report.start),
            why: past.why.clone(),
            decided: past.decided.clone(),
            took_s: seconds(past.took),
            stages: stages.collect(),
            planned_pages: past.report.planned_pages,
            copied_pages: past.report.copied_pages,
            predicted: past.predicted.map(predicted),
            model: past.model.map(model),
            gain: GainStatus::of(&past.gain),
            error: past.error.clone(),
        }
    }

    /// It in a line.
    pub fn line(&self) -> String {
        let PastStatus { why, decided, took_s, copied_pages, .. } = self;
        let mut parts = vec![format!("reconfigured, {why}: {decided}")];
        if *copied_pages > 0 {
            parts.push(format!("{copied_pages} pages copied"));
        }
        parts.push(format!("{took_s:.1} s"));
        let predicted = self.predicted.as_ref().map(|predicted| predicted.saved_percent);
        if let Some(saved) = predicted.filter(|saved| saved.abs() >= 0.5) {
            parts.push(format!("expected to save {saved:.0} % of the disk's time"));
        }
        if let Some(gain) = self.gain.as_ref().and_then(GainStatus::text) {
            parts.push(format!("measured since then: {gain}"));
        }
        if let Some(model) = &self.model {
            parts.push(format!("before it the model was off by {:+.0} %", model.error_percent));
        }
        if let Some(error) = &self.error {
            parts.push(format!("failed: {error}"));
        }
        parts.join("; ")
    }
}

impl SpanStatus {
    /// Hits and gain over the last hour, day and week.
    pub fn all(spans: &[Span]) -> Vec<SpanStatus> {
        let status = |(span, of): (&Span, &str)| SpanStatus {
            of: of.to_owned(),
            length_s: seconds(span.length),
            pages: span.pages,
            hits: span.hits,
            gain: GainStatus::of(&span.gain),
        };
        spans.iter().zip(["hour", "day", "week"]).map(status).collect()
    }

    /// It in a line.
    pub fn line(&self) -> String {
        let hits = 100.0 * self.hits as f64 / self.pages.max(1) as f64;
        let gain = self.gain.as_ref().and_then(GainStatus::text).map(|gain| format!("; {gain}"));
        format!("{hits:.1} % of {} pages from copies{}", self.pages, gain.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use seekless_core::Reconfigured;

    use super::*;

    #[test]
    fn a_line_has_the_reason_the_decision_and_its_gain() {
        let ms = Nanos::from_millis;
        let mut past = Past {
            why: "20000 requests since the last decision".into(),
            decided: "left as it is".into(),
            took: ms(1_230),
            ..Past::default()
        };
        let line = |past: &Past| PastStatus::of(past).line();
        assert_eq!(line(&past), "reconfigured, 20000 requests since the last decision: left as it is; 1.2 s");
        past.report = Reconfigured { copied_pages: 7, ..Reconfigured::default() };
        past.predicted = Some(Predicted { requests: 1, present: ms(100), chosen: ms(60), moves: ms(1) });
        past.model = Some(Checked { predicted: ms(9), measured: ms(10) });
        for _ in 0..10 {
            past.gain.copies.add_interval(1, ms(3));
            past.gain.origin.add_interval(1, ms(10));
        }
        past.error = Some("broken".into());
        assert_eq!(
            line(&past),
            "reconfigured, 20000 requests since the last decision: left as it is; 7 pages copied; 1.2 s; expected to \
             save 40 % of the disk's time; measured since then: reads from copies take 70 ± 0 % less (3.00 ms, from \
             the origin 10.00 ms); before it the model was off by -10 %; failed: broken"
        );
    }
}
