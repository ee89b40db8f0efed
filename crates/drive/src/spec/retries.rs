//! The part of a description that gives the rare accesses which do not succeed at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checked, within};

/// Retries: a share of the accesses to the media takes further revolutions. Without them every access succeeds at once.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    /// Share of the accesses that fail at first, 0 to 1.
    pub share: f64,
    /// Most revolutions until such an access succeeds; each number from 1 to this one is as likely.
    pub revolutions: u32,
    /// Which accesses those are: drives with the same number retry the same ones, counted from the start.
    #[serde(default)]
    pub seed: u64,
}

impl RetrySpec {
    pub(super) fn check(&self) -> Checked {
        within("retries.share", self.share, 0.0, 1.0)?;
        within("retries.revolutions", self.revolutions.into(), 1.0, 10_000.0)
    }
}
