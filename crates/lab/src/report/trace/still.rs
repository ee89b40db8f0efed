//! Addresses over time as a still picture: for paper, for files, and for browsers without scripts.

use std::fmt::Write;

use seekless_core::SECTOR_BYTES;

use super::accesses::{Mark, Picture};
use super::families::FAMILIES;
use crate::report::text::{bytes, escape, number};

/// Size of the picture and position of its axes, in SVG units.
const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 1028.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 378.0;
/// Side of a square, and number of squares.
const SQUARE: f64 = 3.0;
const COLUMNS: usize = 316;
const ROWS: usize = 116;
/// One for each family, and one for all others.
const COLOURS: usize = FAMILIES + 1;
/// Letters of a volume's name, at most.
const LETTERS: usize = 24;
/// Least distance between the names of two volumes.
const LINE: f64 = 15.0;

/// The ends of the axes; both start at zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axes {
    /// Of the horizontal axis.
    pub seconds: f64,
    /// Of the vertical axis.
    pub sectors: u64,
}

impl Axes {
    /// The squares that a mark covers: columns, then rows from below.
    fn covered(self, picture: &Picture, mark: &Mark) -> [(usize, usize); 2] {
        let unit = picture.unit_nanos as f64 / 1e9;
        let (long, high) = if picture.points { (0.0, mark.count as f64) } else { (1.0, 1.0) };
        let of = |from: f64, length: f64, end: f64, squares: usize| {
            let part = |value: f64| ((value / end.max(1e-9) * squares as f64) as usize).min(squares - 1);
            // A range that ends where a square begins does not cover it.
            (part(from), part((from + length * (1.0 - 1e-6)).max(from)))
        };
        [
            of(mark.time as f64 * unit, long * unit, self.seconds, COLUMNS),
            of(
                mark.place as f64 * picture.unit_sectors as f64,
                high * picture.unit_sectors as f64,
                self.sectors as f64,
                ROWS,
            ),
        ]
    }

    fn y(self, sector: f64) -> f64 {
        BOTTOM - sector / (self.sectors as f64).max(1.0) * (BOTTOM - TOP)
    }
}

/// The picture: each square in the colour with the most requests. `volumes` are named where they begin.
pub fn svg(
    axes: Axes,
    picture: &Picture,
    volumes: &[(String, u64)],
    colour: impl Fn(u8) -> usize,
    title: &str,
) -> String {
    let mut out = format!(
        "<svg class=\"still\" role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" aria-label=\"{}\">",
        escape(title)
    );
    draw_axes(&mut out, axes);
    draw_squares(&mut out, &squares(axes, picture, colour));
    draw_volumes(&mut out, axes, volumes);
    out.push_str("</svg>");
    out
}

/// For each square the colour of most of its requests, row by row from below.
fn squares(axes: Axes, picture: &Picture, colour: impl Fn(u8) -> usize) -> Vec<Option<usize>> {
    let mut counts = vec![[0_u64; COLOURS]; COLUMNS * ROWS];
    for mark in &picture.marks {
        let colour = colour(mark.class).min(COLOURS - 1);
        let requests = if picture.points { 1 } else { mark.count };
        let [columns, rows] = axes.covered(picture, mark);
        for row in rows.0..=rows.1 {
            for column in columns.0..=columns.1 {
                counts[row * COLUMNS + column][colour] += requests;
            }
        }
    }
    let most = |counts: &[u64; COLOURS]| {
        // Of equals the first.
        let best = (0..COLOURS).rev().max_by_key(|&colour| counts[colour])?;
        (counts[best] > 0).then_some(best)
    };
    counts.iter().map(most).collect()
}

/// A path for each colour; neighbours in a row are one stroke.
fn draw_squares(out: &mut String, squares: &[Option<usize>]) {
    for colour in 0..COLOURS {
        let mut path = String::new();
        for (row, squares) in squares.chunks(COLUMNS).enumerate() {
            let y = BOTTOM - (row as f64 + 0.5) * SQUARE;
            let mut column = 0;
            while column < COLUMNS {
                let run = squares[column..].iter().take_while(|square| **square == Some(colour)).count();
                if run > 0 {
                    let x = LEFT + column as f64 * SQUARE;
                    let _ = write!(path, "M{x} {y}h{}", run as f64 * SQUARE);
                }
                column += run.max(1);
            }
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"squares b{colour}\" d=\"{path}\"/>");
        }
    }
}

fn draw_axes(out: &mut String, axes: Axes) {
    let (unit, name) = time_unit(axes.seconds);
    let end = axes.seconds / unit;
    for tick in ticks(end, 10.0) {
        let x = LEFT + tick / end.max(1e-9) * (RIGHT - LEFT);
        let _ = write!(out, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>");
        let y = BOTTOM + 18.0;
        let _ = write!(out, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y}\">{}</text>", number(tick));
    }
    for tick in address_ticks(axes.sectors) {
        let (x, y) = (LEFT - 6.0, axes.y(tick as f64));
        let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        let text = bytes(tick.saturating_mul(SECTOR_BYTES));
        let _ = write!(out, "<text class=\"end\" x=\"{x}\" y=\"{:.1}\">{text}</text>", y + 4.5);
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>");
    let _ = write!(out, "<text x=\"4\" y=\"16\">address</text>");
    let y = BOTTOM + 40.0;
    let _ = write!(out, "<text class=\"end\" x=\"{RIGHT}\" y=\"{y}\">time, {name}</text>");
}

/// A line where each volume begins, and its name above it where there is room.
fn draw_volumes(out: &mut String, axes: Axes, volumes: &[(String, u64)]) {
    let mut free = BOTTOM + LINE;
    for (name, first) in volumes {
        let y = axes.y(*first as f64);
        if *first > 0 {
            let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        }
        if y <= free - LINE {
            let name: String = name.chars().take(LETTERS).collect();
            let (x, above) = (RIGHT - 4.0, y - 4.0);
            let _ =
                write!(out, "<text class=\"end over\" x=\"{x}\" y=\"{above:.1}\">{}</text>", escape(&name));
            free = y;
        }
    }
}

/// Round values up to `end`, about `most` of them.
fn ticks(end: f64, most: f64) -> Vec<f64> {
    if end <= 0.0 {
        return vec![0.0];
    }
    let power = 10.0_f64.powf((end / most).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| end / step <= most);
    let step = step.unwrap_or(end);
    let count = (end / step * (1.0 + 1e-9)) as u32;
    (0..=count).map(|at| f64::from(at) * step).collect()
}

/// Sectors that are round in bytes, at most eight of them above zero.
fn address_ticks(sectors: u64) -> impl Iterator<Item = u64> {
    let step = (sectors / 8).max(1).next_power_of_two();
    (0..=sectors / step).map(move |at| at * step)
}

/// Units of time in seconds, with the times from which on they are used.
const TIMES: [(f64, f64, &str); 4] = [
    (86_400.0 * 3.0, 86_400.0, "days"),
    (3_600.0 * 3.0, 3_600.0, "h"),
    (60.0 * 5.0, 60.0, "min"),
    (0.0, 1.0, "s"),
];

/// A suitable unit for this many seconds, and its name.
pub fn time_unit(seconds: f64) -> (f64, &'static str) {
    let suits = TIMES.into_iter().find(|(from, _, _)| seconds >= *from).unwrap_or(TIMES[3]);
    (suits.1, suits.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: bool, marks: Vec<Mark>) -> Picture {
        Picture {
            seconds: 316.0,
            sectors: 116,
            requests: marks.len() as u64,
            families: Vec::new(),
            volumes: Vec::new(),
            volume_count: 1,
            points,
            unit_nanos: 1_000_000_000,
            unit_sectors: 1,
            marks,
            timeline: super::super::timeline::Timeline::default(),
        }
    }

    fn axes() -> Axes {
        Axes { seconds: 316.0, sectors: 116 }
    }

    #[test]
    fn a_square_has_the_colour_of_most_of_its_requests() {
        let mark = |time, place, class, count| Mark { time, place, class, count };
        let marks = vec![mark(0, 0, 3, 4), mark(0, 0, 0, 5), mark(7, 1, 3, 1)];
        let squares = squares(axes(), &picture(false, marks), |class| usize::from(class) / 3);
        assert_eq!(squares.iter().flatten().count(), 2);
        assert_eq!((squares[0], squares[COLUMNS + 7]), (Some(0), Some(1)));
    }

    #[test]
    fn a_request_covers_its_sectors() {
        let marks = vec![Mark { time: 316, place: 4, class: 0, count: 3 }];
        let squares = squares(axes(), &picture(true, marks), |_| 2);
        let rows: Vec<usize> =
            (0..ROWS).filter(|row| squares[row * COLUMNS + COLUMNS - 1].is_some()).collect();
        assert_eq!(rows, [4, 5, 6]);
    }

    #[test]
    fn axes_are_marked_at_round_values() {
        assert_eq!(ticks(7.3, 10.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(ticks(0.0, 10.0), [0.0]);
        assert_eq!(
            address_ticks(20 << 20).collect::<Vec<_>>(),
            (0..=5).map(|at| at << 22).collect::<Vec<u64>>()
        );
        assert!(address_ticks(u64::MAX >> 1).count() <= 9);
        assert_eq!(time_unit(7_000.0), (60.0, "min"));
        assert_eq!(time_unit(700_000.0).1, "days");
    }
}
