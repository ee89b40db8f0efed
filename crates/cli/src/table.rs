//! Aligned text tables: numbers to the right, words to the left, long texts in the last column folded.
//!
//! Columns stay aligned whatever a cell contains: control characters are replaced, and characters of two terminal
//! cells, or none, count as such.

use crate::output::plain;

/// Width at which the last column is folded.
const LINE: usize = 100;
/// Least width of a folded column.
const FOLD: usize = 30;

/// A table that grows row by row.
pub struct Table {
    /// Per column: its title, and whether it is numeric.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; a title that starts with `>` marks a numeric one. If no title has more than that,
    /// there is no title line.
    pub fn new(columns: &[&str]) -> Table {
        let columns = columns.iter().map(|title| match title.strip_prefix('>') {
            Some(title) => (title.to_owned(), true),
            None => ((*title).to_owned(), false),
        });
        Table { columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell.into())).collect());
    }

    /// The table as text, each line ended and indented by two spaces.
    pub fn text(&self) -> String {
        let titles: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let titled = titles.iter().any(|title| !title.is_empty());
        let lines: Vec<&Vec<String>> = titled.then_some(&titles).into_iter().chain(&self.rows).collect();
        let cell = |line: &[String], column: usize| line.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines.iter().map(|line| width(&cell(line, column))).max().unwrap_or(0))
            .collect();
        let mut out = String::new();
        for line in lines {
            let mut start = String::from("  ");
            for (column, (_, numbers)) in self.columns.iter().enumerate() {
                let text = cell(line, column);
                if column + 1 == self.columns.len() && !numbers {
                    fold(&mut start, &text);
                    break;
                }
                let space = " ".repeat(widths[column] - width(&text));
                let (before, after) = if *numbers { (space, String::new()) } else { (String::new(), space) };
                start.extend([&before, &text, &after, "  "]);
            }
            out.extend([start.trim_end(), "\n"]);
        }
        out
    }
}

/// Appends `text` to the line, continuing below where it would get too long.
fn fold(line: &mut String, text: &str) {
    let indent = width(line);
    let room = LINE.saturating_sub(indent).max(FOLD);
    let mut used = 0;
    for word in text.split(' ') {
        let takes = width(word);
        if used > 0 && used + 1 + takes > room {
            line.truncate(line.trim_end().len());
            line.extend(["\n", &" ".repeat(indent)]);
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += takes;
    }
}

/// Width of `text` in terminal cells.
pub fn width(text: &str) -> usize {
    let cells = |each: char| match u32::from(each) {
        0x0300..=0x036f | 0x200b..=0x200f | 0xfe00..=0xfe0f | 0x20d0..=0x20ff => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    };
    text.chars().map(cells).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_right_and_words_left() {
        let mut table = Table::new(&["who", ">how much", "why"]);
        table.row(["a", "1.5", "first"]);
        table.row(["bcde", "1,000.5", ""]);
        table.row(["bc"]);
        let expected = "  \
  who   how much  why
  a          1.5  first
  bcde   1,000.5
  bc
";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn wide_and_combining_and_control_characters_keep_the_columns() {
        let mut table = Table::new(&["", ">"]);
        for name in ["\u{4e16}\u{754c}", "e\u{301}tat", "a\tb\n", "abcd"] {
            table.row([name, "7"]);
        }
        let text = table.text();
        assert!(text.lines().all(|line| width(line) == 2 + 4 + 2 + 1), "{text}");
    }

    #[test]
    fn a_long_last_column_goes_on_below() {
        let mut table = Table::new(&["", ""]);
        table.row(["key", &"word ".repeat(40)]);
        let text = table.text();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.len() <= LINE && line == line.trim_end()), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("       word")), "{text}");
    }
}
