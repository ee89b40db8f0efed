//! The disk's heat map: Figure 1 of the BORG paper, middle row. Each cell is a region of the disk.

use std::fmt::Write;
use std::ops::Range;

use seekless_core::PAGE_BYTES;
use seekless_trace::stats::HeatMap;

use super::figure::{Figure, Panel};
use super::legend::Legend;
use super::table::Table;
use super::text::{bytes, escape, whole};

/// Names of the levels, for the legend.
const LEVELS: [&str; 6] = ["untouched", "1: cold", "2", "3", "4", "5: hot"];

/// A heat map of the disk, as a drawing and a table.
pub struct Heat<'a>(pub &'a HeatMap);

impl Heat<'_> {
    /// Whether every region has a level and a count.
    pub fn is_whole(&self) -> bool {
        let regions = self.0.columns as usize * self.0.rows as usize;
        regions > 0 && self.0.levels.len() == regions && self.0.accesses.len() == regions
    }

    /// Start of a region on the device.
    fn starts_at(&self, region: usize) -> u64 {
        let regions = u128::from(self.0.columns) * u128::from(self.0.rows);
        let page = u128::from(self.0.device_pages) * region as u128 / regions;
        page as u64 * PAGE_BYTES
    }

    /// The rows of each row of the picture: an untouched stretch of several is drawn as one.
    fn shown_rows(&self) -> Vec<Range<usize>> {
        let columns = self.0.columns as usize;
        let used = |row: usize| self.0.levels[row * columns..][..columns].iter().any(|level| *level > 0);
        let mut shown: Vec<Range<usize>> = Vec::new();
        for row in 0..self.0.rows as usize {
            match shown.last_mut() {
                Some(rows) if !used(row) && !used(rows.start) => rows.end = row + 1,
                _ => shown.push(row..row + 1),
            }
        }
        shown
    }

    /// The picture: a group per level, a square per region, with its place and its accesses as the tooltip.
    pub fn svg(&self, title: &str) -> String {
        let (columns, shown) = (self.0.columns as usize, self.shown_rows());
        let rows = shown.len();
        let mut out = format!(
            "<svg class=\"heat\" role=\"img\" viewBox=\"0 0 {columns} {rows}\" aria-label=\"{}\"><rect class=\"h0\" width=\"{columns}\" height=\"{rows}\"/>",
            escape(title)
        );
        let mut lines = vec![0; self.0.rows as usize];
        for (y, rows) in shown.iter().enumerate() {
            lines[rows.clone()].fill(y);
            if rows.len() > 1 {
                let ends = [rows.start, rows.end]
                    .map(|row| bytes(self.starts_at(row * columns)).replace('\u{a0}', " "));
                let [from, to] = ends;
                let _ = write!(
                    out,
                    "<path class=\"gap\" d=\"M0 {y}.5h{columns}\"><title>{from} to {to}: untouched</title></path>"
                );
            }
        }
        for level in 1..=5 {
            // A cell is a stroke as wide as it is long: the shortest form, of which there may be thousands.
            let _ = write!(out, "<g class=\"cells t{level}\" transform=\"translate(0 .5)\">");
            for region in (0..self.0.levels.len()).filter(|&region| self.0.levels[region] == level) {
                let (x, y) = (region % columns, lines[region / columns]);
                let says = format!(
                    "{}: {}",
                    bytes(self.starts_at(region)).replace('\u{a0}', " "),
                    self.0.accesses[region]
                );
                let _ = write!(out, "<path d=\"M{x} {y}h1\"><title>{says}</title></path>");
            }
            out.push_str("</g>");
        }
        out.push_str("</svg>");
        out
    }

    /// The accesses of every region, row by row of the map; empty cells and missing rows are untouched.
    pub fn table(&self, title: &str) -> Table {
        let columns = self.0.columns as usize;
        let mut table = Table::new(title, &["from"]);
        table.head.extend((1..=columns).map(|column| column.to_string()));
        let rows = self.0.accesses.chunks(columns).enumerate();
        for (row, accesses) in rows.filter(|(_, accesses)| accesses.iter().any(|count| *count > 0)) {
            let cells = accesses.iter().map(|&count| if count == 0 { String::new() } else { whole(count) });
            table.row(std::iter::once(bytes(self.starts_at(row * columns))).chain(cells));
        }
        table
    }

    /// Legend of the six levels.
    fn legend() -> Legend {
        let mut legend = Legend::default();
        for (level, name) in LEVELS.iter().enumerate() {
            legend.add(format!("<rect class=\"h{level} edge\" width=\"32\" height=\"14\"/>"), name);
        }
        legend
    }
}

/// The figure of one map, or of several, each with its name; `None` for maps without regions.
pub fn figure(maps: &[(String, Heat)]) -> Option<Figure> {
    let title = "Where on the disk the accesses go";
    let mut figure = Figure {
        id: "heat-map",
        title: title.to_owned(),
        caption: "Each cell is a region of the disk: the first at the top left, then row by row. Each level of heat \
                  is several times the accesses of the one below. A broken line stands for an untouched part of several \
                  rows."
            .to_owned(),
        legend: Heat::legend(),
        ..Figure::default()
    };
    for (name, map) in maps.iter().filter(|(_, map)| map.is_whole()) {
        let titled = if maps.len() > 1 { format!("{title}: {name}") } else { title.to_owned() };
        figure.panels.push(Panel { name: name.clone(), svg: map.svg(&titled), ..Panel::default() });
        figure.tables.push(map.table(&titled));
    }
    (!figure.panels.is_empty()).then_some(figure)
}
