//! The part of a description that gives a drive's power.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checked, fault, within};

/// Power of a drive, in watts, and its idle states.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    /// Ready and idle: a disk turns, its arm on the track. Also while it waits for a sector.
    pub idle_w: f64,
    /// While the arm moves; a flash drive has none.
    #[serde(default)]
    pub seek_w: f64,
    /// While data are read or written.
    pub active_w: f64,
    /// Idle states, in the order in which they are entered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<PowerState>,
}

/// A power state of an idle drive.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerState {
    /// Name, such as `unloaded` or `standby`.
    pub name: String,
    /// Power in this state.
    pub watts: f64,
    /// Idle time after which it is entered, in seconds.
    pub after_s: f64,
    /// Recovery time of the next command, in milliseconds.
    pub recover_ms: f64,
    /// Power during recovery.
    pub recover_w: f64,
}

/// The highest power of a drive.
const MOST_WATTS: f64 = 1000.0;

impl PowerSpec {
    /// Power of one of `parts` equal parts of a drive.
    pub(super) fn part(&self, parts: u32) -> PowerSpec {
        let part = |watts: f64| watts / f64::from(parts);
        let state = |state: &PowerState| PowerState {
            watts: part(state.watts),
            recover_w: part(state.recover_w),
            ..state.clone()
        };
        PowerSpec {
            idle_w: part(self.idle_w),
            seek_w: part(self.seek_w),
            active_w: part(self.active_w),
            state: self.state.iter().map(state).collect(),
        }
    }

    pub(super) fn check(&self) -> Checked {
        for (key, watts) in [("idle_w", self.idle_w), ("seek_w", self.seek_w), ("active_w", self.active_w)] {
            within(&format!("power.{key}"), watts, 0.0, MOST_WATTS)?;
        }
        let mut after = 0.0;
        for (number, state) in self.state.iter().enumerate() {
            let key = |key: &str| format!("power.state {}: {key}", number + 1);
            within(&key("watts"), state.watts, 0.0, MOST_WATTS)?;
            within(&key("recover_w"), state.recover_w, 0.0, MOST_WATTS)?;
            within(&key("recover_ms"), state.recover_ms, 0.0, 600_000.0)?;
            within(&key("after_s"), state.after_s, 0.0, 1e6)?;
            if state.after_s <= after {
                let expected = format!("more than {after}, after which it is in the state before");
                return fault(key("after_s"), state.after_s.to_string(), expected);
            }
            after = state.after_s;
        }
        Ok(())
    }
}
