//! Addresses over time as a figure: the still picture with its legend and table, and the data for the script to draw it
//! with zoom, pan and tooltips.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use seekless_core::SECTOR_BYTES;
use serde_json::{Value, json};

use super::accesses::{Mark, Picture};
use super::families::{FAMILIES, Family};
use super::still::{self, Axes};
use crate::report::figure::{Figure, Panel};
use crate::report::legend::Legend;
use crate::report::table::Table;
use crate::report::text::{bytes, number, percent, whole};

/// What marks are coloured by, without processes.
const KINDS: [&str; 3] = ["reads", "writes", "discards"];
/// Borders are not drawn between more volumes than this.
const BORDERS: usize = 24;

/// Common parts of a figure's pictures: the ends of their axes, and the meaning of colours.
struct Shared {
    axes: Axes,
    by_process: bool,
    /// Meaning of each colour, if processes have colours.
    colours: Vec<Family>,
    /// Kinds of requests that occur.
    kinds: Vec<usize>,
}

/// What the pictures show.
pub struct Words {
    /// The first sentence of the caption, without its end: what a mark is.
    pub mark: &'static str,
    /// What a mark's colour says, as the caption goes on, if it is that of a source.
    pub colour: &'static str,
    /// The end of the caption.
    pub meaning: &'static str,
    /// What is counted by source.
    pub source: &'static str,
}

/// Those of a trace.
pub const OF_A_TRACE: Words = Words {
    mark: "Each request at its time and its address",
    colour: "in the colour of the processes that made it",
    meaning: "Level lines are places that are accessed repeatedly, slopes are sequential streams, and clouds are \
              random accesses: what a disk is slow at.",
    source: "process",
};

/// The figure of the pictures, each with the trace's name; `None` if none shows a request.
pub fn figure(pictures: &[(&str, &Picture)], words: &Words) -> Option<Figure> {
    if pictures.iter().all(|(_, picture)| picture.requests == 0) {
        return None;
    }
    let shared = Shared::of(pictures);
    let whose = if shared.by_process {
        words.colour
    } else {
        "in the colour of its kind: the trace names no processes"
    };
    let mut figure = Figure {
        id: "accesses",
        title: "Addresses over time".to_owned(),
        caption: format!(
            "{}, {whose}; where several fall together, of those with the most. {}",
            words.mark, words.meaning
        ),
        legend: shared.legend(),
        wide: true,
        ..Figure::default()
    };
    for (name, picture) in pictures {
        let titled =
            if pictures.len() > 1 { format!("{}: {name}", figure.title) } else { figure.title.clone() };
        let colours = shared.colours_of(picture);
        let svg =
            still::svg(shared.axes, picture, &borders(picture), |class| colours[usize::from(class)], &titled);
        let name = if pictures.len() > 1 { (*name).to_owned() } else { String::new() };
        figure.panels.push(Panel { name, svg, note: note(picture) });
        figure.tables.push(table(picture, &titled, words.source));
    }
    Some(figure)
}

/// Data for the script.
pub fn data(pictures: &[(&str, &Picture)], words: &Words) -> Value {
    let shared = Shared::of(pictures);
    let one = |(name, picture): &(&str, &Picture)| {
        let colours = shared.colours_of(picture);
        let family =
            |(place, family): (usize, &Family)| json!([shown(family), family_colour(&colours, place)]);
        json!({
            "name": name,
            "points": picture.points,
            "unitSeconds": picture.unit_nanos as f64 / 1e9,
            "unitSectors": picture.unit_sectors,
            "marks": picture.marks.len(),
            "families": picture.families.iter().enumerate().map(family).collect::<Vec<_>>(),
            "volumes": picture.volumes,
            "borders": picture.volumes.len() <= BORDERS,
            "data": picture.text(),
        })
    };
    json!({
        "seconds": shared.axes.seconds,
        "sectors": shared.axes.sectors,
        "byProcess": shared.by_process,
        "source": words.source,
        "kinds": shared.kinds,
        "colours": shared.colours.iter().map(shown).collect::<Vec<_>>(),
        "maps": pictures.iter().map(one).collect::<Vec<_>>(),
    })
}

impl Shared {
    fn of(pictures: &[(&str, &Picture)]) -> Shared {
        let pictures = || pictures.iter().map(|(_, picture)| picture);
        Shared {
            axes: Axes {
                seconds: pictures().map(|picture| picture.seconds).fold(0.0, f64::max),
                sectors: pictures().map(|picture| picture.sectors).max().unwrap_or(0),
            },
            by_process: pictures().any(|picture| picture.knows_processes()),
            colours: colours(pictures().map(|picture| &picture.families)),
            kinds: kinds(pictures().flat_map(|picture| &picture.marks)),
        }
    }

    /// The colour of each class of the picture's marks.
    fn colours_of(&self, picture: &Picture) -> Vec<usize> {
        let of_family = |family: &Family| {
            self.colours
                .iter()
                .position(|colour| colour.name == family.name)
                .unwrap_or(FAMILIES)
                .min(FAMILIES)
        };
        let families = picture.families.iter().map(of_family);
        families
            .flat_map(|colour| (0..3).map(move |kind| if self.by_process { colour } else { kind }))
            .collect()
    }

    fn legend(&self) -> Legend {
        let mut legend = Legend::default();
        let mut add = |colour: usize, name: &str| {
            legend.add(format!("<rect class=\"a{colour}\" width=\"32\" height=\"14\"/>"), name);
        };
        if self.by_process {
            self.colours.iter().enumerate().for_each(|(colour, family)| add(colour, &shown(family)));
        } else {
            self.kinds.iter().for_each(|&kind| add(kind, KINDS[kind]));
        }
        legend
    }
}

/// Kinds that occur.
fn kinds<'a>(marks: impl Iterator<Item = &'a Mark>) -> Vec<usize> {
    let mut occurs = [false; KINDS.len()];
    for mark in marks {
        occurs[usize::from(mark.class) % KINDS.len()] = true;
    }
    (0..KINDS.len()).filter(|&kind| occurs[kind]).collect()
}

/// The colour of a family's marks.
fn family_colour(colours: &[usize], place: usize) -> usize {
    colours.get(place * 3).copied().unwrap_or(FAMILIES)
}

/// The families of all pictures with the most requests, and last all others, if there are any.
fn colours<'a>(pictures: impl Iterator<Item = &'a Vec<Family>>) -> Vec<Family> {
    let (mut named, mut others): (BTreeMap<&str, u64>, u64) = (BTreeMap::new(), 0);
    for (place, family) in pictures.flat_map(|families| families.iter().enumerate()) {
        if place < FAMILIES {
            *named.entry(&family.name).or_default() += family.requests;
        } else {
            others += family.requests;
        }
    }
    let mut named: Vec<Family> =
        named.into_iter().map(|(name, requests)| Family { name: name.to_owned(), requests }).collect();
    named.sort_by_key(|family| Reverse(family.requests));
    others += named.iter().skip(FAMILIES).map(|family| family.requests).sum::<u64>();
    named.truncate(FAMILIES);
    if others > 0 {
        named.push(Family { name: "others".to_owned(), requests: others });
    }
    named
}

/// A family's name for readers.
fn shown(family: &Family) -> String {
    if family.name == "?" { "unknown".to_owned() } else { family.name.clone() }
}

/// Where volumes begin, except the first, each with its name.
fn borders(picture: &Picture) -> Vec<(String, u64)> {
    if (2..=BORDERS).contains(&picture.volumes.len()) { picture.volumes.clone() } else { Vec::new() }
}

/// Meaning of a mark in this picture.
fn note(picture: &Picture) -> String {
    if picture.points {
        return format!("Every one of its {} requests is drawn.", whole(picture.requests));
    }
    format!(
        "Its {} requests are counted in cells of {} by {}: the finest grid that fits into this page.",
        whole(picture.requests),
        span(picture.unit_nanos as f64 / 1e9),
        bytes(picture.unit_sectors.saturating_mul(SECTOR_BYTES))
    )
}

/// A short time with its unit.
pub fn span(seconds: f64) -> String {
    let (size, unit) = match seconds {
        short if short < 1e-6 => (short * 1e9, "ns"),
        short if short < 1e-3 => (short * 1e6, "\u{b5}s"),
        short if short < 1.0 => (short * 1e3, "ms"),
        long if long < 120.0 => (long, "s"),
        long if long < 7_200.0 => (long / 60.0, "min"),
        long if long < 172_800.0 => (long / 3_600.0, "h"),
        long => (long / 86_400.0, "days"),
    };
    format!("{}\u{a0}{unit}", number(size))
}

/// Sources, by requests.
fn table(picture: &Picture, title: &str, source: &str) -> Table {
    let mut table = Table::new(title, &[source, "requests", "share"]);
    for family in &picture.families {
        let share = percent(100.0 * family.requests as f64 / picture.requests.max(1) as f64);
        table.row([shown(family), whole(family.requests), share]);
    }
    table
}
