//! What the drives did in each run of a comparison: addresses over time, data and seeks a second, and a piece of the
//! head's path.

use seekless_core::{Names, Record, SECTOR_BYTES};
use seekless_trace::{Survey, Volumes};

use super::along::{Along, align};
use super::figure::Figure;
use super::page::Extra;
use super::plot::{Form, Plot, Series};
use super::sections::display_name;
use super::trace::accesses_figure::{self, Words};
use super::trace::{self, Accesses as Gathering, Picture, TEXT_BYTES, charts};
use crate::accesses::Accesses;
use crate::outcome::{Comparison, Variant};

/// What addresses over time show here.
const WORDS: Words = Words {
    mark: "Each request to the drive at the time of its answer and its address there",
    colour: "in the colour of its source: what clients wait for, or the layer's own work",
    meaning: "The clearer the lines, the less the head moves. A drive is shown from its first sector to the last one \
              that was accessed.",
    source: "source",
};
/// Requests of the head's path.
const PATH: usize = 150;

/// What the drives of each variant did, for drawing.
pub struct Drives<'a> {
    variants: &'a [Variant],
    /// By the variant's name.
    pictures: Vec<(String, Picture)>,
}

impl Drives<'_> {
    /// Of a comparison; `None` if that was not kept.
    pub fn of(comparison: &Comparison) -> Option<Drives<'_>> {
        let variants = &comparison.variants;
        if variants.iter().all(|variant| variant.accesses.is_empty()) {
            return None;
        }
        let text_bytes = TEXT_BYTES / variants.len();
        let picture = |accesses: &Accesses| {
            let mut names = Names::default();
            let records = accesses.records(&mut names);
            let mut survey = Survey::default();
            records.clone().for_each(|record| survey.note(&record));
            let mut gathering = Gathering::new(&survey);
            records.for_each(|record| gathering.follow(&record, &names));
            gathering.finish(&Volumes::named(&accesses.drives), text_bytes)
        };
        let pictures = variants.iter().map(|each| (display_name(&each.name), picture(&each.accesses)));
        Some(Drives { variants, pictures: pictures.collect() })
    }

    fn named(&self) -> Vec<(&str, &Picture)> {
        self.pictures.iter().map(|(name, picture)| (name.as_str(), picture)).collect()
    }

    /// The figures of the page.
    pub fn figures(&self) -> impl Iterator<Item = Figure> {
        let longest = self.pictures.iter().map(|(_, picture)| picture.seconds).fold(0.0, f64::max);
        let timelines = |chart: fn(&trace::Timeline, f64) -> Option<Plot>| {
            let plots =
                self.pictures.iter().map(|(name, each)| (name.clone(), chart(&each.timeline, longest)));
            panels(plots.collect())
        };
        let paths = self.variants.iter().map(|each| (display_name(&each.name), path(&each.accesses)));
        let figures = [
            accesses_figure::figure(&self.named(), &WORDS),
            timelines(charts::throughput),
            timelines(charts::jumps),
            panels(paths.collect()),
        ];
        figures.into_iter().flatten()
    }

    /// What the page needs to zoom into addresses over time.
    pub fn interactive(&self) -> Extra {
        trace::interactive(&self.named(), &WORDS)
    }
}

/// The same chart of every variant, with the same axes.
fn panels(mut plots: Vec<(String, Option<Plot>)>) -> Option<Figure> {
    align(&mut plots.iter_mut().filter_map(|(_, plot)| plot.as_mut()).collect::<Vec<_>>());
    Figure::of_plots(plots)
}

/// Where the head of the first drive went for a while, from three quarters of its requests on.
fn path(accesses: &Accesses) -> Option<Plot> {
    let mut names = Names::default();
    let from = accesses.len() / 4 * 3;
    let later: Vec<Record> =
        accesses.records(&mut names).skip(from).filter(|record| record.device == 0).take(PATH).collect();
    let first = later.first()?.time;
    let name = accesses.drives.first().map_or("", String::as_str);
    let (mut along, mut values) = (Vec::new(), Vec::new());
    for record in &later {
        along.push(record.time.since(first).seconds() * 1e3);
        values.push(Some(record.extent.start.0 as f64 * SECTOR_BYTES as f64 / f64::from(1 << 30)));
    }
    Some(Plot {
        id: "head-path",
        title: "The head\u{2019}s path",
        caption: "Where the head is when it answers: a few requests in a row, from three quarters of the run on. A line up \
                  or down is a seek; the same number of requests in less time is a faster disk."
            .to_owned(),
        along: Along::Linear(along),
        along_label: "time, ms",
        value_label: "address, GiB",
        form: Form::Lines,
        series: vec![Series { name: name.to_owned(), values }],
        note: format!("{} requests of {name}.", later.len()),
        ..Plot::default()
    })
}
