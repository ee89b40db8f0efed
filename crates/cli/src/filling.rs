//! The options of freeblock scheduling.

use clap::Args;
use seekless_core::Nanos;
use seekless_drive::freeblock::{FreeOptions, FreePolicy};
use seekless_volume::duration;

/// How the head's waits are filled.
#[derive(Args)]
pub struct Filling {
    /// What is looked for: as many blocks of one track as can be (paper), or several stops, and blocks that are
    /// hard to come by first (weighted) [default: weighted]
    #[arg(long, value_name = "POLICY")]
    freeblock_policy: Option<FreePolicy>,
    /// The head is planned to be so much earlier wherever it has to be in time [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    guard: Option<Nanos>,
    /// A decision takes so many microseconds of a wait, unless the request was known before [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    decision_us: Option<u64>,
    /// While nothing waits, what is wanted is read at full speed, as long as the foreground's requests are delayed by no
    /// more than this on average; 0s for never [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_delay_limit: Option<Nanos>,
    /// An experiment: wherever the head seeks to in a wait, it comes earlier or later than the model says, by at most
    /// so much [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    model_error: Option<Nanos>,
}

impl Filling {
    /// Whether any of it is told.
    pub fn is_told(&self) -> bool {
        let times = self.guard.or(self.model_error).or(self.idle_delay_limit).is_some();
        self.freeblock_policy.is_some() || times || self.decision_us.is_some()
    }

    /// The options.
    pub fn options(&self) -> FreeOptions {
        let usual = FreeOptions::default();
        FreeOptions {
            policy: self.freeblock_policy.unwrap_or(usual.policy),
            guard: self.guard.unwrap_or(usual.guard),
            decision: self.decision_us.map_or(usual.decision, |micros| Nanos(micros * 1_000)),
            idle_delay_limit: self.idle_delay_limit.unwrap_or(usual.idle_delay_limit),
            model_error: self.model_error.unwrap_or(usual.model_error),
            ..usual
        }
    }
}
