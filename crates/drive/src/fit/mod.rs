//! Fits figures that no data sheet gives to measured service times: the turn, track offsets, overheads, the seek curve,
//! cache policies.
//!
//! First the platter's angles are found by the phase of read misses (`phase`, `skews`), and shifts that the description
//! does not list (`slips`, `split`); then everything else by coordinate descent: one figure after another is tried at
//! other values, and changes that bring the model nearer to the real drive are kept (`descent`), but none by which the
//! mean or the distribution of all times gets worse than the description's. The result is
//! deterministic.

mod clock;
mod descent;
mod knobs;
pub mod phase;
mod skews;
mod slips;
mod split;

use crate::disk::Drive;
use crate::spec::Spec;
use crate::validate::{Measured, Think};
use descent::Objective;

/// A fitted drive.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Description.
    pub spec: Spec,
    /// On which side of requests think times lie.
    pub think: Think,
    /// Changes: figure, before, after.
    pub changes: Vec<String>,
}

/// Fits `spec` to measured requests; `progress` is called with the part done, 0 to 1, and ends the fit early by
/// returning false, as does an interruption from outside ([`seekless_core::runtime::interruptible`]).
pub fn fit(spec: &Spec, measured: &[Measured], progress: &mut dyn FnMut(f64) -> bool) -> Fitted {
    let given = spec;
    // A real drive may read out of order while it holds the bus, which a description of DiskSim's does not.
    let mut ours = spec.clone();
    ours.cache.in_order_when_held = false;
    let spec = &ours;
    let think = phase::think_side(spec, measured);
    let described = Drive::new(spec).mechanics().revolution().0 as f64;
    let readings = phase::readings(spec, measured, think);
    let mut phased = spec.clone();
    let turn = skews::fit(&mut phased, &readings, described);
    let cut = split::cut(&phased, &readings, turn);
    let slipped = slips::find(spec, measured, think, turn);
    // Skews without information may do harm.
    let objective = Objective::new(given, measured, think);
    let cost = |spec: &Spec| objective.cost(spec);
    let tried = [Some(phased), cut, slipped, Some(spec.clone())];
    let best = tried.into_iter().flatten().min_by(|one, other| cost(one).total_cmp(&cost(other)));
    let mut best = best.unwrap_or_else(|| spec.clone());
    let start = best.clone();
    let mut changes = descent::descend(&mut best, &objective, &mut |done| progress(done / 2.0));
    if objective.is_farther(&best) {
        // From there on, back to a mean and a distribution as near as the description's.
        let bounded = objective.bounded();
        descent::descend(&mut best, &bounded, &mut |done| progress(0.5 + done / 2.0));
        changes = descent::changes(&start, &best);
    }
    progress(1.0);
    mark_sources(&mut best);
    Fitted { spec: best, think, changes }
}

/// Marks the sources of fitted figures.
fn mark_sources(spec: &mut Spec) {
    for figure in ["rpm", "head_switch_us", "write_settle_us", "command", "bus", "cache", "seek", "zone"] {
        let source = spec.source.entry(figure.to_owned()).or_default();
        let described = source.strip_prefix("fitted: ").map_or_else(
            || format!("fitted: to measured service times; before that, {source}"),
            |before| format!("fitted: {before}"),
        );
        *source = described;
    }
}
