//! Seek times, tabulated by distance when a drive is loaded.
//!
//! Square root and division are exact by IEEE 754, so the table is the same on every machine.

use crate::spec::SeekCurve;

/// Nanoseconds by distance, for 0 to `cylinders` - 1 cylinders.
pub fn tabulate(curve: &SeekCurve, cylinders: u64) -> Vec<u32> {
    let farthest = cylinders.max(2) - 1;
    let nanos = |distance| {
        let nanos = (micros(curve, distance, farthest) * 1_000.0).round();
        nanos.clamp(0.0, f64::from(u32::MAX)) as u32
    };
    std::iter::once(0).chain((1..=farthest).map(nanos)).collect()
}

/// The time of a distance of 1 to `farthest` cylinders, in microseconds.
pub fn micros(curve: &SeekCurve, distance: u64, farthest: u64) -> f64 {
    match curve {
        SeekCurve::Table { points } => at(points, distance),
        SeekCurve::ThreePoint { track_us, average_us, full_us } => {
            let (b, c) = three_point(*track_us, *average_us, *full_us, farthest as f64);
            let beyond = distance as f64 - 1.0;
            track_us + b * beyond.sqrt() + c * beyond
        }
        SeekCurve::Hp { divide, short_us, short_root_us, long_us, long_each_us, single_us, first_us } => {
            match (distance, first_us.get(distance as usize - 1), single_us) {
                (_, Some(time), _) | (1, None, Some(time)) => *time,
                _ if distance < u64::from(*divide) => short_us + short_root_us * (distance as f64).sqrt(),
                _ => long_us + long_each_us * distance as f64,
            }
        }
        SeekCurve::Settle { flat, settle_us, root_us, each_us } => {
            let beyond = distance.saturating_sub(u64::from(*flat)) as f64;
            settle_us + root_us * beyond.sqrt() + each_us * beyond
        }
        SeekCurve::Constant { us } => *us,
    }
}

/// Interpolates a table at a distance, in the table's unit: linearly between the points, extrapolated after the last
/// two.
pub fn at(points: &[(u32, f64)], distance: u64) -> f64 {
    let after = points.partition_point(|&(at, _)| u64::from(at) < distance);
    match (points.get(after.wrapping_sub(1)), points.get(after)) {
        (_, Some(&(at, time))) if u64::from(at) == distance => time,
        (Some(&low), Some(&high)) => line(low, high, distance),
        (None, Some(&(_, time))) => time,
        (Some(&last), None) => match points.get(after.wrapping_sub(2)) {
            Some(&before) => line(before, last, distance),
            None => last.1,
        },
        (None, None) => 0.0,
    }
}

fn line(low: (u32, f64), high: (u32, f64), distance: u64) -> f64 {
    let part = (distance as f64 - f64::from(low.0)) / f64::from(high.0 - low.0);
    low.1 + part * (high.1 - low.1)
}

/// b and c of `track + b sqrt(x) + c x`, where x = distance - 1, through (a third of the way, average) and
/// (all of it, full).
fn three_point(track: f64, average: f64, full: f64, farthest: f64) -> (f64, f64) {
    let (x1, x2) = ((farthest / 3.0 - 1.0).max(0.0), (farthest - 1.0).max(0.0));
    let (y1, y2) = (average - track, full - track);
    let (r1, r2) = (x1.sqrt(), x2.sqrt());
    let determinant = r1 * x2 - r2 * x1;
    if determinant.abs() < f64::EPSILON {
        return (0.0, 0.0);
    }
    ((y1 * x2 - y2 * x1) / determinant, (r1 * y2 - r2 * y1) / determinant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_interpolated_and_extrapolated_linearly() {
        let points = vec![(1, 1000.0), (3, 2000.0), (5, 2500.0)];
        let table = tabulate(&SeekCurve::Table { points }, 9);
        assert_eq!(
            table[..8],
            [0, 1_000_000, 1_500_000, 2_000_000, 2_250_000, 2_500_000, 2_750_000, 3_000_000]
        );
    }

    #[test]
    fn three_points_are_met() {
        let curve = SeekCurve::ThreePoint { track_us: 2_000.0, average_us: 8_900.0, full_us: 21_000.0 };
        let table = tabulate(&curve, 30_001);
        assert_eq!((table[1], table[10_000], table[30_000]), (2_000_000, 8_900_000, 21_000_000));
        assert!(table.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn hps_curve_is_a_root_then_a_line_after_the_first_few() {
        let curve = SeekCurve::Hp {
            divide: 100,
            short_us: 1_000.0,
            short_root_us: 100.0,
            long_us: 1_500.0,
            long_each_us: 5.0,
            single_us: None,
            first_us: vec![700.0, 800.0],
        };
        let table = tabulate(&curve, 201);
        assert_eq!((table[1], table[2], table[4], table[100]), (700_000, 800_000, 1_200_000, 2_000_000));
        assert_eq!(table[200], 2_500_000);
    }

    #[test]
    fn short_seeks_of_todays_drives_only_settle() {
        let curve = SeekCurve::Settle { flat: 50, settle_us: 475.0, root_us: 10.0, each_us: 0.1 };
        let table = tabulate(&curve, 151);
        assert!(table[1..=50].iter().all(|&time| time == 475_000));
        assert_eq!(table[150], 475_000 + 100_000 + 10_000);
    }
}
