//! The common parts of reports as one HTML file. Readable offline, on a phone, on paper, in light and dark.
//!
//! The page is self-contained. Its content security policy forbids every load, and scripts are optional: each chart is
//! there as SVG, and each chart's numbers as a table. Names from traces are escaped wherever they appear. The same
//! figures give the same bytes.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figure::Figure;
use super::table::Table;
use super::text::{escape, script_json};

/// The library of the interactive charts, unchanged (docs/decisions/0004-uplot-in-the-report.md).
pub const UPLOT_SCRIPT: &str = include_str!("../../../../third_party/uplot/uPlot.iife.min.js");
/// Style of that library.
pub const UPLOT_STYLE: &str = include_str!("../../../../third_party/uplot/uPlot.min.css");
/// Colours.
pub const PALETTE: &str = include_str!("assets/palette.css");
/// Style of pictures.
pub const PICTURE: &str = include_str!("assets/picture.css");
/// Style of the page around pictures.
pub const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
/// Links that save the numbers of charts and tables.
const DATA_SCRIPT: &str = include_str!("assets/data.js");
/// Patterns that distinguish areas without colour.
pub const PATTERNS: &str = include_str!("assets/patterns.svg");

/// Additional parts of one kind of report.
pub struct Extra {
    /// Style.
    pub style: &'static str,
    /// Script.
    pub script: &'static str,
    /// Name by which the script finds its data.
    pub name: &'static str,
    /// Data of the script.
    pub data: Value,
}

/// A page in progress.
#[derive(Default)]
pub struct Page {
    out: String,
    /// Data of the script.
    plots: Vec<Value>,
    in_section: bool,
    /// Sections and, within them, charts.
    headings: Vec<Heading>,
    /// Where the list of them goes.
    contents_at: Option<usize>,
}

/// An entry of the contents.
struct Heading {
    id: String,
    /// Plain text.
    title: String,
    is_chart: bool,
}

impl Page {
    /// Appends HTML unescaped.
    pub fn html(&mut self, html: &str) {
        self.out.push_str(html);
    }

    /// Starts a section, ending the one before.
    pub fn section(&mut self, title: &str) {
        self.end_section();
        self.in_section = true;
        self.heading(title);
    }

    /// The list of all sections and charts, with links to them.
    pub fn contents(&mut self) {
        self.contents_at = Some(self.out.len());
    }

    fn heading(&mut self, title: &str) {
        let letter = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_lowercase() } else { '-' };
        // Identifiers of charts begin with other letters; the number tells sections with the same title apart.
        let id = format!("part-{}-{}", self.headings.len(), title.chars().map(letter).collect::<String>());
        self.out.extend(["<section><h2 id=\"", &id, "\">", &escape(title), "</h2>\n"]);
        self.headings.push(Heading { id, title: title.to_owned(), is_chart: false });
    }

    fn listed(&self) -> String {
        let mut out = String::from("<nav class=\"contents\" aria-label=\"Contents\"><ul>");
        let mut charts = false;
        for Heading { id, title, is_chart } in &self.headings {
            match (charts, *is_chart) {
                (false, true) => out.push_str("<ul>"),
                (true, false) => out.push_str("</ul></li>"),
                (false, false) if !out.ends_with("<ul>") => out.push_str("</li>"),
                _ => (),
            }
            charts = *is_chart;
            let _ = write!(out, "<li><a href=\"#{id}\">{}</a>", escape(title));
            if charts {
                out.push_str("</li>");
            }
        }
        if charts {
            out.push_str("</ul>");
        }
        out.push_str(if self.headings.is_empty() { "</ul></nav>\n" } else { "</li></ul></nav>\n" });
        out
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.out.push_str("</section>\n");
        }
    }

    /// Adds the exact command line that made the page.
    pub fn command(&mut self, command: &str) {
        let command = escape(command);
        self.end_section();
        self.heading("Made by");
        let _ = writeln!(self.out, "<pre tabindex=\"0\"><code>{command}</code></pre></section>");
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        self.out.push_str(&table.html());
    }

    /// Adds tables side by side, where there is room.
    pub fn tables(&mut self, tables: &[Table]) {
        self.out.push_str("<div class=\"tables\">");
        self.out.extend(tables.iter().map(Table::html));
        self.out.push_str("</div>");
    }

    /// Adds charts side by side, where there is room.
    pub fn charts(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.out.push_str("<div class=\"charts\">");
        for figure in figures {
            self.out.push_str(&figure.html());
            self.headings.push(Heading { id: figure.anchor(), title: figure.title.clone(), is_chart: true });
            self.plots.extend(figure.data);
        }
        self.out.push_str("</div>");
    }

    /// The whole page.
    pub fn finish(mut self, title: &str, extra: Option<&Extra>) -> String {
        self.end_section();
        if let Some(at) = self.contents_at {
            self.out.insert_str(at, &self.listed());
        }
        let data = script_json(&json!(self.plots));
        let (body, title) = (self.out, escape(title));
        let (style, more) = extra.map_or_else(Default::default, |extra| {
            let Extra { style, script, name, data } = extra;
            let data = script_json(data);
            let more = format!(
                "<script type=\"application/json\" id=\"{name}\">{data}</script>\n<script>{script}</script>\n"
            );
            (*style, more)
        });
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title}</title>\n\
             <style>{UPLOT_STYLE}</style>\n<style>{PALETTE}{PICTURE}{STYLE}{style}</style></head>\n<body>{PATTERNS}<main>\n{body}</main>\n\
             <script type=\"application/json\" id=\"plots\">{data}</script>\n\
             <script>{UPLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n<script>{DATA_SCRIPT}</script>\n{more}</body></html>\n"
        )
    }
}
