//! A drive as pictures: seek times, and throughput by position.
//!
//! The curves are those of the simulated drive, not those of its description.

use seekless_drive::Spec;
use seekless_drive::disk::Drive;

use super::along::Along;
use super::figure::{Figure, Panel};
use super::plot::{Plot, Series};
use super::standalone;

/// Points of a curve.
const POINTS: u64 = 200;

/// The drive as the text of an SVG file of its own.
pub fn drive(spec: &Spec) -> String {
    let curves = Drive::new(spec);
    let seek = |distance: u64| curves.mechanics().seek(distance).0 as f64 / 1e6;
    let [rates, tracks] = zones(spec);
    let plots = [
        ("The arm: time by distance", plot(linear(spec, &seek), "cylinders", "ms", "seek")),
        ("On a logarithmic scale: short seeks", plot(powers(spec, &seek), "cylinders", "ms", "seek")),
        ("Zones: rate by place, first sector on the left", rates),
        ("Zones: sectors a track, outer edge on the left", tracks),
    ];
    let panels = plots.map(|(name, plot)| Panel { name: name.to_owned(), svg: plot.svg(), note: plot.note });
    let figure = Figure {
        id: "drive",
        title: spec.title.clone(),
        caption: "Seek time by distance; throughput by position.".to_owned(),
        panels: panels.into(),
        ..Figure::default()
    };
    standalone::svg(&figure)
}

fn plot(curve: (Along, Vec<f64>), along_label: &'static str, value_label: &'static str, name: &str) -> Plot {
    let (along, values) = curve;
    Plot { along, along_label, value_label, series: vec![series(name, values)], ..Plot::default() }
}

fn series(name: &str, values: Vec<f64>) -> Series {
    Series { name: name.to_owned(), values: values.into_iter().map(Some).collect() }
}

/// The curve at evenly spaced distances.
fn linear(spec: &Spec, seek: &dyn Fn(u64) -> f64) -> (Along, Vec<f64>) {
    let farthest = spec.cylinders().saturating_sub(1);
    let mut distances: Vec<u64> = (0..=POINTS).map(|step| farthest * step / POINTS).collect();
    // From the next cylinder on it takes time at all.
    distances.push(1.min(farthest));
    distances.sort_unstable();
    distances.dedup();
    let times = distances.iter().map(|&distance| seek(distance)).collect();
    (Along::Linear(distances.iter().map(|&distance| distance as f64).collect()), times)
}

/// The curve at logarithmically spaced distances.
fn powers(spec: &Spec, seek: &dyn Fn(u64) -> f64) -> (Along, Vec<f64>) {
    let farthest = spec.cylinders().saturating_sub(1).max(1);
    let mut distances = vec![1];
    while let Some(&last) = distances.last().filter(|&&last| last < farthest) {
        distances.push((last + last.div_ceil(12)).min(farthest));
    }
    let times = distances.iter().map(|&distance| seek(distance.min(spec.cylinders() - 1))).collect();
    (Along::Log(distances.iter().map(|&distance| distance as f64).collect()), times)
}

/// Throughput by capacity, and sectors by cylinder: a step for each zone.
fn zones(spec: &Spec) -> [Plot; 2] {
    let (mut places, mut stream, mut media) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cylinders, mut sectors) = (Vec::new(), Vec::new());
    let whole = spec.sectors as f64 * 512.0 / 1e9;
    let mut start = 0.0;
    for (zone, first) in spec.zone.iter().zip(spec.first_cylinders()) {
        let tracks = f64::from(zone.cylinders) * f64::from(spec.heads);
        let end = start + tracks * f64::from(zone.sectors_per_track) * 512.0 / 1e9;
        // The last tracks may hold spares and sectors beyond the capacity.
        places.extend([start, end].map(|place: f64| place.min(whole)));
        stream.extend([spec.stream_mb_s(zone); 2]);
        media.extend([spec.media_mb_s(zone); 2]);
        cylinders.extend([first as f64, (first + u64::from(zone.cylinders)) as f64]);
        sectors.extend([f64::from(zone.sectors_per_track); 2]);
        start = end;
    }
    let mut rates = plot((Along::Linear(places), stream), "GB", "MB/s", "in sequence");
    rates.series.push(series("media", media));
    "Solid: in sequence, the skews counted. Dashed: what passes under the head.".clone_into(&mut rates.note);
    [rates, plot((Along::Linear(cylinders), sectors), "cylinder", "sectors", "sectors a track")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_drive::spec::{disks, find};

    #[test]
    fn every_drive_has_a_picture_of_lines_that_stay_inside() {
        for name in disks() {
            let svg = drive(&find(name).unwrap());
            assert_eq!(svg.matches("<polyline").count(), 5, "{name}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
            assert!(svg.len() < 60_000, "{name}: {}", svg.len());
        }
    }

    #[test]
    fn a_drive_of_one_cylinder_has_a_picture_too() {
        let mut spec = find("wd2500aaks").unwrap();
        spec.zone.truncate(1);
        spec.zone[0].cylinders = 1;
        spec.sectors = 8;
        assert!(drive(&spec).contains("<polyline"));
    }
}
