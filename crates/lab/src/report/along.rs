//! Horizontal axes of charts, and shared axes of several charts.

use std::collections::BTreeMap;

use super::plot::{Form, Plot};
use super::scale::Scale;
use super::text::number;

/// Content of the horizontal axis.
pub enum Along {
    /// Values above 0, ascending, on a logarithmic scale.
    Log(Vec<f64>),
    /// Values from 0 on, ascending.
    Linear(Vec<f64>),
    /// Names, evenly spaced, each with an ascending number that identifies it.
    Names(Vec<(f64, String)>),
}

impl Default for Along {
    fn default() -> Along {
        Along::Names(Vec::new())
    }
}

impl Along {
    /// Names with their numbers.
    pub fn names(names: impl Iterator<Item = (f64, String)>) -> Along {
        Along::Names(names.collect())
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        match self {
            Along::Log(values) | Along::Linear(values) => values.len(),
            Along::Names(names) => names.len(),
        }
    }

    /// Name of a place.
    pub fn name(&self, at: usize) -> String {
        match self {
            Along::Log(values) | Along::Linear(values) => number(values[at]),
            Along::Names(names) => names[at].1.clone(),
        }
    }

    /// The scale, if it has one, that covers `reach` besides the values.
    pub fn scale(&self, reach: &[f64]) -> Option<Scale> {
        match self {
            Along::Log(values) => Some(Scale::log(values.iter().chain(reach).copied())),
            Along::Linear(values) => Some(Scale::linear(values.iter().chain(reach).copied())),
            Along::Names(_) => None,
        }
    }
}

/// What the axes of a chart cover besides its own values; empty: nothing else.
#[derive(Clone, Default)]
pub struct Reach {
    /// Of the horizontal axis.
    pub along: Vec<f64>,
    /// Of the values.
    pub values: Vec<f64>,
}

/// Gives charts of the same kind the same axes, for comparison.
pub fn align(plots: &mut [&mut Plot]) {
    let mut reach = Reach::default();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for plot in plots.iter() {
        let shown = |value: &&f64| value.is_finite() && (!plot.value_log || **value > 0.0);
        let values = plot.series.iter().flat_map(|series| series.values.iter().flatten());
        reach.values.extend(ends(values.filter(shown)));
        match &plot.along {
            Along::Log(values) | Along::Linear(values) => reach.along.extend(ends(values.iter())),
            // Numbers of places are not negative: their bits are in the same order.
            Along::Names(each) => {
                names.extend(each.iter().map(|(key, name)| (key.to_bits(), name.clone())));
            }
        }
    }
    for plot in plots.iter_mut() {
        plot.reach = reach.clone();
        spread(plot, &names);
    }
}

/// The smallest and the largest value, if there are any.
fn ends<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let ends: Option<[f64; 2]> = values.fold(None, |ends, &value| match ends {
        None => Some([value, value]),
        Some([low, high]) => Some([value.min(low), value.max(high)]),
    });
    ends.into_iter().flatten().collect()
}

/// Gives the chart all of `names` as its places; the new ones are empty.
fn spread(plot: &mut Plot, names: &BTreeMap<u64, String>) {
    let Along::Names(own) = &plot.along else { return };
    let places: BTreeMap<u64, usize> =
        own.iter().enumerate().map(|(place, (key, _))| (key.to_bits(), place)).collect();
    let nothing = if plot.form == Form::Bars { Some(0.0) } else { None };
    for series in &mut plot.series {
        let value = |key: &u64| places.get(key).map_or(nothing, |&place| series.values[place]);
        series.values = names.keys().map(value).collect();
    }
    plot.along = Along::names(names.iter().map(|(&key, name)| (f64::from_bits(key), name.clone())));
}

#[cfg(test)]
mod tests {
    use super::super::plot::Series;
    use super::*;

    fn bars(values: &[(f64, f64)]) -> Plot {
        let series = vec![Series { name: "a".into(), values: values.iter().map(|v| Some(v.1)).collect() }];
        let along = Along::names(values.iter().map(|v| (v.0, v.0.to_string())));
        Plot { along, series, form: Form::Bars, ..Plot::default() }
    }

    #[test]
    fn aligned_charts_have_the_same_places_and_scales() {
        let (mut one, mut two) = (bars(&[(1.0, 5.0), (4.0, 7.0)]), bars(&[(2.0, 900.0)]));
        align(&mut [&mut one, &mut two]);
        for plot in [&one, &two] {
            assert_eq!((0..3).map(|at| plot.along.name(at)).collect::<Vec<_>>(), ["1", "2", "4"]);
            assert_eq!(plot.reach.values, [5.0, 7.0, 900.0, 900.0]);
        }
        assert_eq!(one.series[0].values, [Some(5.0), Some(0.0), Some(7.0)]);
        assert_eq!(two.series[0].values, [Some(0.0), Some(900.0), Some(0.0)]);
    }
}
