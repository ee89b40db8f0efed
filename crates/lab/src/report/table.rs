//! Tables: the first column names the row, the others hold its values.

use super::text::escape;

/// Tables with more columns than this are printed small.
const WIDE: usize = 10;

/// A table, in plain text; it is escaped when it is written.
#[derive(Default)]
pub struct Table {
    /// Caption for screen readers.
    pub caption: String,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Each as long as the head.
    pub rows: Vec<Vec<String>>,
    /// Whether values are words, not numbers: aligned to the left.
    pub wordy: bool,
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, head: &[&str]) -> Table {
        let head = head.iter().map(|&title| title.to_owned()).collect();
        Table { caption: caption.to_owned(), head, ..Table::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a row of a name and one value.
    pub fn pair(&mut self, name: &str, value: impl Into<String>) {
        self.row([name.to_owned(), value.into()]);
    }

    /// The table in a box that scrolls sideways on a narrow screen.
    pub fn html(&self) -> String {
        let caption = escape(&self.caption);
        let mut out =
            format!("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table");
        if self.wordy {
            out.push_str(" class=\"wordy\"");
        } else if self.head.len() > WIDE {
            out.push_str(" class=\"wide\"");
        }
        out.push_str("><caption>");
        out.push_str(&caption);
        out.push_str("</caption><thead><tr>");
        for title in &self.head {
            out.extend(["<th scope=\"col\">", &escape(title), "</th>"]);
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let (open, close) = if column == 0 { ("<th scope=row>", "</th>") } else { ("<td>", "</td>") };
                out.extend([open, &escape(cell), close]);
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }
}
