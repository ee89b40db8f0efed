//! Options of freeblock scheduling.

use clap::Args;
use seekless_core::Nanos;
use seekless_drive::freeblock::{FreeOptions, FreePolicy};
use seekless_volume::duration;

/// How to use the head's rotational waits.
#[derive(Clone, Args)]
pub struct Filling {
    /// Choose as many blocks of one track as possible (paper), or stop at several and take rare blocks first (weighted)
    /// [default: weighted]
    #[arg(long, value_name = "POLICY")]
    freeblock_policy: Option<FreePolicy>,
    /// Safety margin of every planned arrival of the head [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    guard: Option<Nanos>,
    /// Microseconds of a wait that a decision takes, unless the request was known before [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    decision_us: Option<u64>,
    /// Read pending blocks at full speed while the queue is empty, as long as this delays foreground requests by no
    /// more than this on average; 0s for never [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_delay_limit: Option<Nanos>,
    /// For experiments: random error of every seek in a wait against the model, early or late, at most this [default:
    /// 0s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    model_error: Option<Nanos>,
}

impl Filling {
    /// Whether any of the options is given.
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
