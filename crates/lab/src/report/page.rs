//! A report as one HTML file: what all reports have. Readable offline, on a phone, on paper, in light
//! and dark.
//!
//! The page holds all that it needs. A content security policy in it forbids every load, and scripts
//! are an addition: each chart is there as SVG, and each chart's numbers as a table. Names from
//! traces are escaped wherever they appear. The same figures give the same bytes.

use std::fmt::Write;

use serde_json::{Value, json};

use super::figure::Figure;
use super::table::Table;
use super::text::{escape, script_json};

/// The library of the interactive charts, unchanged (docs/decisions/0004-uplot-in-the-report.md).
pub const UPLOT_SCRIPT: &str = include_str!("../../../../third_party/uplot/uPlot.iife.min.js");
/// Its style.
pub const UPLOT_STYLE: &str = include_str!("../../../../third_party/uplot/uPlot.min.css");
/// The colours.
pub const PALETTE: &str = include_str!("assets/palette.css");
/// What is in a picture.
pub const PICTURE: &str = include_str!("assets/picture.css");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
/// The patterns that tell areas apart without colour.
pub const PATTERNS: &str = include_str!("assets/patterns.svg");

/// What one kind of report has besides.
pub struct Extra {
    /// Its style.
    pub style: &'static str,
    /// Its script.
    pub script: &'static str,
    /// What the script finds its data by.
    pub name: &'static str,
    /// For the script.
    pub data: Value,
}

/// What is written so far.
#[derive(Default)]
pub struct Page {
    out: String,
    /// For the script.
    plots: Vec<Value>,
    in_section: bool,
}

impl Page {
    /// HTML, as it is.
    pub fn html(&mut self, html: &str) {
        self.out.push_str(html);
    }

    /// Ends the section before, if any.
    pub fn section(&mut self, title: &str) {
        self.end_section();
        self.in_section = true;
        self.out.extend(["<section><h2>", &escape(title), "</h2>\n"]);
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.in_section) {
            self.out.push_str("</section>\n");
        }
    }

    /// The exact command that made it.
    pub fn command(&mut self, command: &str) {
        let command = escape(command);
        let _ = write!(
            self.out,
            "<section><h2>Made by</h2><pre tabindex=\"0\"><code>{command}</code></pre></section>"
        );
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.out.push_str(&table.html());
    }

    /// Tables beside each other, where there is room.
    pub fn tables(&mut self, tables: &[Table]) {
        self.out.push_str("<div class=\"tables\">");
        self.out.extend(tables.iter().map(Table::html));
        self.out.push_str("</div>");
    }

    /// Charts beside each other, where there is room.
    pub fn charts(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.out.push_str("<div class=\"charts\">");
        for figure in figures {
            self.out.push_str(&figure.html());
            self.plots.extend(figure.data);
        }
        self.out.push_str("</div>");
    }

    /// The whole page.
    pub fn finish(mut self, title: &str, extra: Option<&Extra>) -> String {
        self.end_section();
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
             <script>{UPLOT_SCRIPT}</script>\n<script>{SCRIPT}</script>\n{more}</body></html>\n"
        )
    }
}
