//! Aligned text tables: numbers to the right, words to the left. On a terminal they fit its width: texts are folded,
//! and a table that is still too wide is printed in blocks of columns, each with the first column again. In a file or a
//! pipe, only a long text in the last column is folded, so that rows stay lines.
//!
//! Columns stay aligned whatever a cell contains: control characters are replaced, and characters of two terminal
//! cells, or none, count as such.

use std::io::stdout;

use rustix::termios::{isatty, tcgetwinsize};

use crate::output::plain;

/// Width at which the last column is folded where there is no terminal.
const LINE: usize = 100;
/// Least width of a folded column there.
const FOLD: usize = 30;
/// Least width of a folded column on a terminal.
const NARROW: usize = 20;
/// Least width of a terminal that is believed.
const LEAST_SCREEN: usize = 40;
/// Spaces before a line, and between columns.
const GAP: usize = 2;

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

    /// The table as text for standard output, each line ended and indented by two spaces.
    pub fn text(&self) -> String {
        self.within(screen())
    }

    /// As [`text`](Table::text), for a terminal of this width; `None` for none.
    fn within(&self, screen: Option<usize>) -> String {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let Some(screen) = screen else { return self.block(&all, &self.unlimited(&all)) };
        if let Some(widths) = self.fitted(&all, screen) {
            return self.block(&all, &widths);
        }
        let (keys, mut rest) = all.split_at(self.keys());
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let with_keys = |count: usize| [keys, &rest[..count]].concat();
            let fits = |count: &usize| self.fitted(&with_keys(*count), screen).is_some();
            let count = (1..=rest.len()).take_while(fits).last().unwrap_or(1);
            let columns = with_keys(count);
            let widths = self.fitted(&columns, screen).unwrap_or_else(|| self.natural(&columns));
            blocks.push(self.block(&columns, &widths));
            rest = &rest[count..];
        }
        if blocks.is_empty() { self.block(&all, &self.natural(&all)) } else { blocks.join("\n") }
    }

    /// The lines, of which the first is that of the titles, if there are any.
    fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        let titles: Vec<&str> = self.columns.iter().map(|(title, _)| title.as_str()).collect();
        let titled = titles.iter().any(|title| !title.is_empty());
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect());
        titled.then_some(titles).into_iter().chain(rows)
    }

    /// Number of columns that name a row: the first, and words after it where it is empty because a row before has it.
    fn keys(&self) -> usize {
        let continues = |column: usize| {
            !self.columns[column].1
                && self.rows.iter().any(|row| row.get(column - 1).is_none_or(String::is_empty))
        };
        let last = self.columns.len().saturating_sub(1);
        self.columns.len().min(1 + (1..last).take_while(|&column| continues(column)).count())
    }

    /// What a column needs of each cell.
    fn most(&self, column: usize, of: impl Fn(&str) -> usize) -> usize {
        self.lines().map(|line| line.get(column).map_or(0, |cell| of(cell))).max().unwrap_or(0)
    }

    /// Widths of columns that are not folded.
    fn natural(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().map(|&column| self.most(column, width)).collect()
    }

    /// Widths without a terminal.
    fn unlimited(&self, columns: &[usize]) -> Vec<usize> {
        let mut widths = self.natural(columns);
        if let Some(last) = widths.pop() {
            let room = LINE.saturating_sub(GAP + widths.iter().map(|width| width + GAP).sum::<usize>());
            let folds = columns.last().is_some_and(|&column| !self.columns[column].1);
            widths.push(if folds { last.min(room.max(FOLD)) } else { last });
        }
        widths
    }

    /// Widths with which columns fit a terminal of this width: the widest words are folded first. The first column and
    /// numbers are not.
    fn fitted(&self, columns: &[usize], screen: usize) -> Option<Vec<usize>> {
        let mut widths = self.natural(columns);
        let longest_word = |cell: &str| cell.split(' ').map(width).max().unwrap_or(0);
        let least = |(&column, &natural): (&usize, &usize)| match column {
            0 => natural,
            _ if self.columns[column].1 => natural,
            _ => natural.min(self.most(column, longest_word).max(NARROW)),
        };
        let least: Vec<usize> = columns.iter().zip(&widths).map(least).collect();
        let whole = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        while whole(&widths) > screen {
            let folds = (0..widths.len()).filter(|&at| widths[at] > least[at]);
            let widest = folds.max_by_key(|&at| widths[at])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    /// Some columns as lines, with texts folded at these widths.
    fn block(&self, columns: &[usize], widths: &[usize]) -> String {
        let mut out = String::new();
        for line in self.lines() {
            let cell = |(&column, &width): (&usize, &usize)| {
                let text = line.get(column).copied().unwrap_or_default();
                // Numbers are not texts.
                if self.columns[column].1 { vec![text.to_owned()] } else { pieces(text, width) }
            };
            let cells: Vec<Vec<String>> = columns.iter().zip(widths).map(cell).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut text = String::new();
                for ((cell, &column), &room) in cells.iter().zip(columns).zip(widths) {
                    let cell = cell.get(at).map_or("", String::as_str);
                    let space = " ".repeat(room.saturating_sub(width(cell)));
                    let (before, after) =
                        if self.columns[column].1 { (space, String::new()) } else { (String::new(), space) };
                    text.extend([&" ".repeat(GAP), &before, cell, &after]);
                }
                out.extend([text.trim_end(), "\n"]);
            }
        }
        out
    }
}

/// Width of the terminal that standard output is, if it is one and knows its width.
fn screen() -> Option<usize> {
    let screen = stdout();
    let size = isatty(&screen).then(|| tcgetwinsize(&screen).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0).map(|width| width.max(LEAST_SCREEN))
}

/// `text` with lines that are wider than the terminal folded between words; unchanged where there is none.
pub fn folded(text: &str) -> String {
    screen().map_or_else(|| text.to_owned(), |screen| folded_to(text, screen))
}

/// As [`folded`], for this width. What continues a line is indented by two more than the line.
fn folded_to(text: &str, screen: usize) -> String {
    let each = |line: &str| {
        let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
        if width(words) <= screen {
            return line.to_owned();
        }
        let plain = words.trim_start();
        let indent = " ".repeat(words.len() - plain.len());
        let first = pieces(plain, screen.saturating_sub(indent.len()));
        let (begin, rest) = (&first[0], first[1..].join(" "));
        let room = screen.saturating_sub(indent.len() + GAP);
        let rest = if rest.is_empty() { Vec::new() } else { pieces(&rest, room) }.into_iter();
        let rest = rest.map(|piece| format!("\n{indent}{}{piece}", " ".repeat(GAP)));
        format!("{indent}{begin}{}{end}", rest.collect::<String>())
    };
    text.split_inclusive('\n').map(each).collect()
}

/// The lines of a text that is folded between words; at least one. A longer word is a line of its own.
fn pieces(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split(' ') {
        let takes = width(word);
        if used > 0 && used + 1 + takes > room {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        } else if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += takes;
    }
    lines.push(line);
    lines
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

    #[test]
    fn a_table_that_is_too_wide_is_blocks_of_columns() {
        let mut table = Table::new(&["name", ">first", ">second", ">third", "note"]);
        for name in ["one", "another"] {
            table.row([name, "1,000,000,000", "2,000,000,000", "3,000,000,000", "some words about it"]);
        }
        let expected = "  \
  name             first         second
  one      1,000,000,000  2,000,000,000
  another  1,000,000,000  2,000,000,000

  name             third  note
  one      3,000,000,000  some words about it
  another  3,000,000,000  some words about it
";
        assert_eq!(table.within(Some(45)), expected);
        assert_eq!(table.within(Some(90)).lines().count(), 3);
        assert_eq!(table.within(None), table.within(Some(90)));
        for screen in 40..120 {
            let text = table.within(Some(screen));
            assert!(text.lines().all(|line| width(line) <= screen), "{screen}: {text}");
        }
        // Rows of a group repeat what tells them apart.
        let mut table = Table::new(&["who", "", ">first", ">second"]);
        table.row(["one", "reads", "1,000,000,000", "2,000,000,000"]);
        table.row(["", "writes", "1,000,000,000", "2,000,000,000"]);
        assert_eq!(table.within(Some(40)).matches("writes").count(), 2);
    }

    #[test]
    fn lines_that_are_too_long_go_on_below() {
        let text = "short\n  a line of words that goes on and on\n\nlast";
        assert_eq!(folded_to(text, 20), "short\n  a line of words\n    that goes on and\n    on\n\nlast");
        assert_eq!(folded_to(text, 60), text);
        assert_eq!(folded_to(&"#".repeat(30), 20), "#".repeat(30));
    }

    #[test]
    fn the_widest_texts_are_folded_to_fit() {
        let mut table = Table::new(&["name", "options", "what"]);
        table.row(["a", &"option ".repeat(8), &"word ".repeat(30)]);
        for screen in [60, 80, 100] {
            let text = table.within(Some(screen));
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.iter().all(|line| width(line) <= screen && *line == line.trim_end()), "{text}");
            assert_eq!((text.matches("option").count(), text.matches("word").count()), (1 + 8, 30), "{text}");
            assert!(lines[0].contains("options") && lines[0].contains("what"), "{text}");
        }
        // A word that is longer than the terminal stays whole.
        let mut table = Table::new(&["name", "word"]);
        table.row(["a", &"x".repeat(70)]);
        assert!(table.within(Some(50)).contains(&"x".repeat(70)));
    }
}
