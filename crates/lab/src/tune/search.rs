//! The search: one parameter after the other, until none improves the best point any more; then the plane of the first
//! two parameters through it, and on from there if that has a better one.
//!
//! Pure: the search says which points it needs next, and its caller measures them, in any order and on any number of
//! threads. The result depends on the costs alone. Ties go to the point that the search is at.

use std::collections::BTreeMap;

/// A point: the index of each parameter's value.
pub type Point = Vec<usize>;

/// A point must cost less than this part of the best one: the search does not walk along differences that mean nothing.
const WINS_BELOW: f64 = 0.999;

/// A search of the point that costs least.
#[derive(Clone, Debug)]
pub struct Search {
    /// Number of values of each parameter, at least one.
    counts: Vec<usize>,
    start: Point,
    /// Costs; `None` of points that cannot be measured.
    costs: BTreeMap<Point, Option<f64>>,
}

/// What a search needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The costs of these points.
    Measure(Vec<Point>),
    /// Nothing more: this is the best point; `None` if not even the first one can be measured.
    Done(Option<Point>),
}

impl Search {
    /// A search over parameters with these numbers of values, from `start` on.
    pub fn new(counts: Vec<usize>, start: Point) -> Search {
        Search { counts, start, costs: BTreeMap::new() }
    }

    /// Records the cost of a point; `None` if it cannot be measured.
    pub fn add(&mut self, point: Point, cost: Option<f64>) {
        self.costs.insert(point, cost);
    }

    /// What is needed now.
    pub fn step(&self) -> Step {
        match self.walk() {
            Ok(best) => Step::Done(best),
            Err(unknown) => Step::Measure(unknown),
        }
    }

    /// The points that differ from `point` in this parameter at most, in the order of its values.
    pub fn line(&self, point: &Point, parameter: usize) -> Vec<Point> {
        let with = |value| {
            let mut other = point.clone();
            other[parameter] = value;
            other
        };
        (0..self.counts[parameter]).map(with).collect()
    }

    /// The points that differ from `point` in the first two parameters at most, row by row; none with one parameter.
    pub fn plane(&self, point: &Point) -> Vec<Vec<Point>> {
        if self.counts.len() < 2 {
            return Vec::new();
        }
        self.line(point, 0).iter().map(|row| self.line(row, 1)).collect()
    }

    /// Walks from the start as far as the costs are known: the best point, or the points that are unknown.
    fn walk(&self) -> Result<Option<Point>, Vec<Point>> {
        let mut at = self.start.clone();
        if self.known(&at)?.is_none() {
            return Ok(None);
        }
        loop {
            let before = at.clone();
            for parameter in 0..self.counts.len() {
                at = self.best(&at, self.line(&at, parameter))?;
            }
            if at == before {
                at = self.best(&at, self.plane(&at).concat())?;
            }
            if at == before {
                return Ok(Some(at));
            }
        }
    }

    fn known(&self, point: &Point) -> Result<Option<f64>, Vec<Point>> {
        self.costs.get(point).copied().ok_or_else(|| vec![point.clone()])
    }

    /// The best of these points, or `at` if none is clearly better; an error if some are unknown.
    fn best(&self, at: &Point, points: Vec<Point>) -> Result<Point, Vec<Point>> {
        let unknown: Vec<Point> =
            points.iter().filter(|point| !self.costs.contains_key(*point)).cloned().collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let now = self.known(at)?.unwrap_or(f64::INFINITY);
        let costs = points.into_iter().filter_map(|point| Some((self.costs[&point]?, point)));
        let least = costs.min_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(least.filter(|(cost, _)| *cost < now * WINS_BELOW).map_or_else(|| at.clone(), |(_, point)| point))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches with this cost; the best point, and how many were measured.
    fn searched(
        counts: &[usize],
        start: &[usize],
        cost: impl Fn(&Point) -> Option<f64>,
    ) -> (Option<Point>, usize) {
        let mut search = Search::new(counts.to_vec(), start.to_vec());
        loop {
            match search.step() {
                Step::Done(best) => return (best, search.costs.len()),
                Step::Measure(points) => {
                    assert!(!points.is_empty());
                    for point in points {
                        let cost = cost(&point);
                        assert!(!search.costs.contains_key(&point), "{point:?} twice");
                        search.add(point, cost);
                    }
                }
            }
        }
    }

    #[test]
    fn it_ends_where_no_parameter_improves() {
        let bowl = |point: &Point| Some(100.0 + (point[0] as f64 - 3.0).powi(2) + (point[1] as f64).powi(2));
        let (best, measured) = searched(&[5, 4], &[0, 2], bowl);
        assert_eq!(best, Some(vec![3, 0]));
        assert_eq!(measured, 20, "and all of the plane");
    }

    #[test]
    fn a_valley_across_two_parameters_is_found_by_the_plane() {
        // From the start each parameter alone makes it worse.
        let costs = [[5.0, 9.0, 9.0], [9.0, 9.0, 9.0], [9.0, 9.0, 1.0]];
        let (best, _) = searched(&[3, 3, 2], &[0, 0, 0], |at| Some(costs[at[0]][at[1]] + at[2] as f64));
        assert_eq!(best, Some(vec![2, 2, 0]));
    }

    #[test]
    fn points_that_cannot_be_measured_are_passed_over() {
        let cost = |point: &Point| (point[0] != 1).then(|| 10.0 - point[0] as f64);
        assert_eq!(searched(&[3], &[0], cost).0, Some(vec![2]));
        assert_eq!(searched(&[3], &[1], cost).0, None);
    }

    #[test]
    fn differences_that_mean_nothing_change_nothing() {
        assert_eq!(searched(&[2], &[0], |point| Some(1_000.0 - point[0] as f64 * 0.9)).0, Some(vec![0]));
    }

    proptest! {
        #[test]
        fn no_neighbour_is_clearly_better(
            counts in proptest::collection::vec(1_usize..5, 1..4),
            costs in proptest::collection::vec(proptest::option::weighted(0.9, 1.0_f64..2.0), 64),
        ) {
            let cost = |point: &Point| {
                costs[point.iter().zip(&counts).fold(0, |all, (value, count)| all * count + value)]
            };
            let start = vec![0; counts.len()];
            let (best, measured) = searched(&counts, &start, cost);
            prop_assert!(measured <= counts.iter().product());
            prop_assert_eq!(best.is_none(), cost(&start).is_none());
            if let Some(best) = best {
                let search = Search::new(counts.clone(), start);
                let near = (0..counts.len()).flat_map(|parameter| search.line(&best, parameter));
                for near in near.chain(search.plane(&best).concat()) {
                    let least = cost(&best).unwrap() * WINS_BELOW;
                    prop_assert!(cost(&near).is_none_or(|cost| cost >= least), "{near:?} against {best:?}");
                }
            }
        }
    }
}
