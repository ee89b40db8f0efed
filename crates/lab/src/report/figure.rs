//! A chart in the page: title, legend, pictures, and their numbers in tables. As a file of its own it is written by
//! [`super::standalone`].

use serde_json::Value;

use super::legend::Legend;
use super::plot::Plot;
use super::stack::Stack;
use super::table::Table;
use super::text::escape;

/// A chart with everything that belongs to it. All text is plain, and escaped when it is written.
#[derive(Default)]
pub struct Figure {
    /// Identifier in the page.
    pub id: &'static str,
    /// Its index among the figures of this identifier.
    pub index: usize,
    /// Title.
    pub title: String,
    /// Caption: what to see in it.
    pub caption: String,
    /// Meaning of its marks.
    pub legend: Legend,
    /// At least one picture; several share their axes.
    pub panels: Vec<Panel>,
    /// Its numbers; at least one table.
    pub tables: Vec<Table>,
    /// Whether it takes the page's whole width.
    pub wide: bool,
    /// Data for the script to draw the pictures again; for charts of lines and bars.
    pub data: Vec<Value>,
}

/// One picture of a figure.
#[derive(Default)]
pub struct Panel {
    /// Name, where a figure has several.
    pub name: String,
    /// The picture.
    pub svg: String,
    /// A note about this picture alone.
    pub note: String,
}

impl Figure {
    /// Its identifier in the page, which no other chart has.
    pub fn anchor(&self) -> String {
        if self.index == 0 { self.id.to_owned() } else { format!("{}-{}", self.id, self.index + 1) }
    }

    /// The chart, with its tables collapsed.
    pub fn html(&self) -> String {
        let (title, caption) = (escape(&self.title), escape(&self.caption));
        let id = self.anchor();
        let class = if self.wide || self.panels.len() > 1 { " class=\"whole\"" } else { "" };
        let mut out = format!(
            "<figure id=\"{id}\"{class}><figcaption><h3>{title}</h3><p>{caption}</p></figcaption>{}",
            self.legend.html()
        );
        let several = self.panels.len() > 1;
        if several {
            out.push_str("<div class=\"panels\">");
        }
        for panel in &self.panels {
            if several {
                out.extend(["<div><h4>", &escape(&panel.name), "</h4>"]);
            }
            out.extend(["<div class=\"plot\">", &panel.svg, "</div>"]);
            if !panel.note.is_empty() {
                out.extend(["<p class=\"note\">", &escape(&panel.note), "</p>"]);
            }
            if several {
                out.push_str("</div>");
            }
        }
        if several {
            out.push_str("</div>");
        }
        out.push_str("<details><summary>The numbers</summary>");
        out.extend(self.tables.iter().map(Table::html));
        out.push_str("</details></figure>\n");
        out
    }

    /// A chart of lines or bars, or several with the same axes, each with its name; `None` if there is nothing to draw.
    pub fn of_plots(plots: Vec<(String, Option<Plot>)>) -> Option<Figure> {
        let legend = plots.iter().filter_map(|(_, plot)| Some(plot.as_ref()?.legend()));
        let legend = legend.max_by_key(Legend::len)?;
        let first = plots.iter().find_map(|(_, plot)| plot.as_ref())?;
        let (id, title, caption) = (first.id, first.title.to_owned(), first.caption.clone());
        let mut figure = Figure { id, title, caption, legend, ..Figure::default() };
        let several = plots.len() > 1;
        for (place, (name, plot)) in plots.into_iter().enumerate() {
            let Some(plot) = plot else {
                let note = "Nothing to draw: the trace lacks this information.".to_owned();
                figure.panels.push(Panel { name, note, ..Panel::default() });
                continue;
            };
            figure.data.extend(plot.data(place));
            let mut table = plot.table();
            if several {
                table.caption = format!("{}: {name}", table.caption);
            }
            figure.tables.push(table);
            figure.panels.push(Panel { name, svg: plot.svg(), note: plot.note });
        }
        Some(figure)
    }

    /// A chart of stacked bars.
    pub fn of_stack(stack: &Stack) -> Figure {
        Figure {
            id: stack.id,
            title: stack.title.to_owned(),
            caption: stack.caption.clone(),
            legend: stack.legend(),
            panels: vec![Panel { svg: stack.svg(), ..Panel::default() }],
            tables: vec![stack.table()],
            ..Figure::default()
        }
    }

    /// The chart of the `index`-th of several variants, from 0; `name` is empty if there is only one.
    pub fn of_variant(mut self, index: usize, name: &str) -> Figure {
        self.index = index;
        if !name.is_empty() {
            self.title = format!("{}: {name}", self.title);
        }
        self
    }

    /// Adds a table, if there is one.
    pub fn with(mut self, table: Option<Table>) -> Figure {
        self.tables.extend(table);
        self
    }
}
