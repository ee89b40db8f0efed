//! Limits of an exploration.

use seekless_core::Nanos;

/// Limits of an exploration.
#[derive(Clone, Debug)]
pub struct Options {
    /// New states after which it ends.
    pub states: u64,
    /// States at a moment of a run.
    pub each: u64,
    /// Examine one in this many moments of a run: with a larger number, more runs for the same number of states.
    pub one_in: u64,
    /// Crashes in a row.
    pub depth: u64,
    /// One in this many restarts continues to the next crash.
    pub goes_on: u64,
    /// Whether every page is written first.
    pub fill: bool,
    /// Runs without a power cut before all others; if `None`, they take turns with those that have one, for half of the
    /// time.
    pub plain: Option<u64>,
    /// Restarts that cost as much as a run without a power cut.
    pub run_costs: u64,
    /// One in this many steps of a run takes or deletes a snapshot or clone, and some requests go to these; 0 for none.
    pub snapshots: u64,
    /// Limit on the response time of every request, in virtual time; that of a command is [`COMMAND_BOUND`] times it.
    pub bound: Nanos,
    /// Seed of all random choices.
    pub seed: u64,
    /// Clock of [`Tally::spent`], in nanoseconds; the default stands still.
    pub clock: fn() -> u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            states: 100_000,
            each: 64,
            one_in: 1,
            depth: 3,
            goes_on: 200,
            fill: false,
            plain: None,
            run_costs: RUN_COSTS,
            snapshots: 0,
            bound: Nanos::from_millis(10_000),
            seed: 1,
            clock: || 0,
        }
    }
}

/// A command is hundreds of requests, some one after the other, of which a slow device takes seconds each.
pub const COMMAND_BOUND: u64 = 6;
/// Restarts that take about as long as a run without a power cut.
const RUN_COSTS: u64 = 40;
