//! Fits what no data sheet tells to measured service times: the turn's time, where tracks begin, overheads,
//! the arm, the cache's ways.
//!
//! First the platter's angles are found by the phase of reads that came off the media (`phase`, `skews`), and
//! what a description does not know moves (`slips`, `split`), then
//! everything else by going down: one figure after another is tried at other values, and what makes the model
//! take more nearly what the real drive took is kept (`descent`). No chance is involved.

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

/// A drive that was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// It.
    pub spec: Spec,
    /// On which side of requests think times lie.
    pub think: Think,
    /// What changed: figure, before, after.
    pub changes: Vec<String>,
}

/// Fits `spec` to measured requests; `progress` is told how much is done, 0 to 1.
pub fn fit(spec: &Spec, measured: &[Measured], progress: &mut dyn FnMut(f64)) -> Fitted {
    let think = phase::think_side(spec, measured);
    let told = Drive::new(spec).mechanics().revolution().0 as f64;
    let readings = phase::readings(spec, measured, think);
    let mut phased = spec.clone();
    let turn = skews::fit(&mut phased, &readings, told);
    let cut = split::cut(&phased, &readings, turn);
    let slipped = slips::find(spec, measured, think, turn);
    // Skews that tell nothing may do harm.
    let cost = |spec: &Spec| descent::cost(spec, measured, think);
    let tried = [Some(phased), cut, slipped, Some(spec.clone())];
    let best = tried.into_iter().flatten().min_by(|one, other| cost(one).total_cmp(&cost(other)));
    let mut best = best.unwrap_or_else(|| spec.clone());
    let changes = descent::descend(&mut best, measured, think, progress);
    tell_sources(&mut best);
    Fitted { spec: best, think, changes }
}

/// What was fitted says so, and from what.
fn tell_sources(spec: &mut Spec) {
    for figure in ["rpm", "head_switch_us", "write_settle_us", "command", "bus", "cache", "seek", "zone"] {
        let source = spec.source.entry(figure.to_owned()).or_default();
        let told = source.strip_prefix("fitted: ").map_or_else(
            || format!("fitted: to measured service times; before that, {source}"),
            |before| format!("fitted: {before}"),
        );
        *source = told;
    }
}
