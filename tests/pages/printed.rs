//! Compares figures of a page with the output of their command.
//!
//! `<!-- printed by: COMMAND -->` stands before a fenced block, which is then a part of the output; before a table;
//! or before a paragraph. In a table `{HEADER}` in the command is replaced by the cell of that column, and figures are
//! compared in the columns called `ours` and in those whose header is a key of the JSON output, in back-ticks;
//! otherwise in all columns that the command does not name.
//! In a paragraph, or in a cell, a figure after a key in back-ticks is one of the values of that key, any other is a
//! number of the output. All are rounded as on the page; if the page has no sign, none is compared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::page::{Block, Page, marked};
use super::run::{Folder, Printed, missing, words};

/// The result of a page's figures.
#[derive(Default)]
pub struct Outcome {
    /// Figures that were compared.
    pub compared: usize,
    /// Commands that are too slow.
    pub skipped: Vec<String>,
    /// Figures that differ from the output.
    pub wrong: Vec<String>,
}

/// Output of commands, each run once.
pub struct Printer(Mutex<BTreeMap<String, Arc<Once>>>);

/// Output of one command, once it has run.
type Once = Mutex<Option<Arc<Printed>>>;

/// A figure of a page: its value, its decimals, and the key before it.
#[derive(Debug, PartialEq)]
struct Figure {
    value: f64,
    decimals: usize,
    signed: bool,
    key: Option<String>,
}

/// The separate numbers of a text: `svnserver2`, `8.1.2` and `1e5` have none. Thousands have commas.
fn numbers(text: &str) -> Vec<(f64, usize, bool)> {
    let mut found = Vec::new();
    let part = |each: char| each.is_ascii_alphanumeric() || "._,-+".contains(each);
    for word in text.replace('−', "-").split(|each: char| !part(each)) {
        let word = word.trim_end_matches([',', '.', '-']).trim_start_matches([',', '.']);
        let bare = word.trim_start_matches(['-', '+']).replace(',', "");
        let digits = !bare.is_empty() && bare.chars().all(|each| each.is_ascii_digit() || each == '.');
        if let (true, Ok(value)) = (digits, bare.parse::<f64>()) {
            let sign = if word.starts_with('-') { -1.0 } else { 1.0 };
            let decimals = bare.split_once('.').map_or(0, |(_, behind)| behind.len());
            found.push((sign * value, decimals, word.starts_with(['-', '+'])));
        }
    }
    found
}

/// The figures of a text; `key` is that of its column. Code that is not a key is skipped.
fn figures(text: &str, key: Option<&str>) -> Vec<Figure> {
    let mut key = key.map(str::to_owned);
    let mut found = Vec::new();
    for (number, piece) in text.split('`').enumerate() {
        if number % 2 == 1 {
            let is_key =
                piece.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '_');
            key = if is_key { Some(piece.to_owned()) } else { key };
            continue;
        }
        let figure = |(value, decimals, signed)| Figure { value, decimals, signed, key: key.clone() };
        found.extend(numbers(piece).into_iter().map(figure));
    }
    found
}

/// The numbers under a key, anywhere in a JSON value.
fn under(value: &Value, key: &str, found: &mut Vec<f64>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == key {
                    found.extend(field.as_f64());
                }
                under(field, key, found);
            }
        }
        Value::Array(all) => all.iter().for_each(|each| under(each, key, found)),
        _ => {}
    }
}

impl Figure {
    fn is(&self, printed: f64) -> bool {
        let (ours, printed) =
            if self.signed { (self.value, printed) } else { (self.value.abs(), printed.abs()) };
        (ours - printed).abs() <= 0.5 * 10_f64.powi(-(i32::try_from(self.decimals).unwrap_or(0))) + 1e-9
    }

    /// Whether it was printed.
    fn in_all(&self, printed: &str) -> bool {
        match &self.key {
            Some(key) => {
                let mut values = Vec::new();
                if let Ok(json) = serde_json::from_str(printed) {
                    under(&json, key, &mut values);
                }
                values.into_iter().any(|value| self.is(value))
            }
            None => numbers(printed).into_iter().any(|(value, ..)| self.is(value)),
        }
    }
}

/// The cells of a line of a table.
fn cells(line: &str) -> Vec<String> {
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{1}");
    inside.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// The value of `{HEADER}` in a row, without back-ticks. An empty cell repeats the one above.
fn filled(command: &str, headers: &[String], row: &[String]) -> String {
    let cell = |(header, cell): (&String, &String)| {
        (format!("{{{}}}", header.trim_matches('`')), cell.replace('`', ""))
    };
    let cells = headers.iter().zip(row).map(cell);
    cells.fold(command.to_owned(), |command, (name, cell)| command.replace(&name, &cell))
}

/// The key of a header, in back-ticks.
fn key_of(header: &str) -> Option<&str> {
    header.strip_prefix('`').and_then(|header| header.strip_suffix('`'))
}

/// Columns to compare: `ours` and keys; if there are none, all that the command does not name.
fn compared(headers: &[String], command: &str) -> Vec<String> {
    let named = |header: &&String| *header == "ours" || key_of(header).is_some();
    let free = |header: &&String| !command.contains(&format!("{{{header}}}"));
    let ours: Vec<String> = headers.iter().filter(named).cloned().collect();
    if ours.is_empty() { headers.iter().filter(free).cloned().collect() } else { ours }
}

/// Compares the figures of a text.
fn compare(place: &str, command: &str, text: &str, key: Option<&str>, printed: &str, outcome: &mut Outcome) {
    for figure in figures(text, key) {
        outcome.compared += 1;
        if !figure.in_all(printed) {
            let of = figure.key.as_ref().map_or(String::new(), |key| format!(" as `{key}`"));
            let decimals = figure.decimals;
            let value = figure.value;
            outcome.wrong.push(format!(
                "{place}: found {value:.decimals$}{of} in \"{text}\", expected a number that `{command}` prints"
            ));
        }
    }
}

/// The commands whose output is compared with a block, and which are not slow.
pub fn commands(page: &Page) -> impl Iterator<Item = &str> {
    page.blocks.iter().filter_map(|block| {
        let (Block::Output { marks, .. } | Block::Marked { marks, .. }) = block else { return None };
        marked(marks, "printed by").filter(|_| marked(marks, "slow").is_none())
    })
}

impl Printer {
    /// A printer without output.
    pub fn new() -> Printer {
        Printer(Mutex::default())
    }

    /// Output of a command.
    fn print(&self, command: &str) -> Arc<Printed> {
        let slot = self.0.lock().unwrap().entry(command.to_owned()).or_default().clone();
        let mut printed = slot.lock().unwrap();
        printed.get_or_insert_with(|| Arc::new(Folder::new().run(command))).clone()
    }

    /// Output of a command, unless it is slow or fails.
    fn wanted(
        &self,
        place: &str,
        command: &str,
        slow: Option<&str>,
        outcome: &mut Outcome,
    ) -> Option<Arc<Printed>> {
        let words = slow.map(words);
        let is_slow =
            words.is_some_and(|words| words.is_empty() || words.iter().any(|word| command.contains(word)));
        if is_slow && std::env::var_os("SEEKLESS_FIGURES").is_none() {
            let line = format!("{place}: `{command}`: slow, see `make figures`");
            if outcome.skipped.last() != Some(&line) {
                outcome.skipped.push(line);
            }
            return None;
        }
        let printed = self.print(command);
        if !printed.good {
            outcome.wrong.push(format!("{place}: `{command}`: expected success, found:\n{}", printed.all));
            return None;
        }
        Some(printed)
    }

    fn table(
        &self,
        place: (&str, usize),
        text: &str,
        command: &str,
        slow: Option<&str>,
        outcome: &mut Outcome,
    ) {
        let mut lines = text.lines();
        let headers = cells(lines.next().unwrap_or_default());
        let compared = compared(&headers, command);
        let mut above: Vec<String> = Vec::new();
        for (number, line) in lines.enumerate().skip(1) {
            let mut row = cells(line);
            for (cell, above) in row.iter_mut().zip(&above) {
                if cell.is_empty() {
                    above.clone_into(cell);
                }
            }
            let (place, command) =
                (format!("{}:{}", place.0, place.1 + number + 1), filled(command, &headers, &row));
            above.clone_from(&row);
            let Some(printed) = self.wanted(&place, &command, slow, outcome) else { continue };
            for (header, cell) in headers.iter().zip(&row).filter(|(header, _)| compared.contains(header)) {
                compare(&place, &command, cell, key_of(header), &printed.out, outcome);
            }
        }
    }

    /// Compares all figures of a page that have a command.
    pub fn page(&self, page: &Page) -> Outcome {
        let mut outcome = Outcome::default();
        for block in &page.blocks {
            let (Block::Output { line, text, marks } | Block::Marked { line, text, marks }) = block else {
                continue;
            };
            let Some(command) = marked(marks, "printed by") else { continue };
            let slow = marked(marks, "slow");
            if text.starts_with('|') {
                self.table((&page.name, *line), text, command, slow, &mut outcome);
                continue;
            }
            let place = format!("{}:{line}", page.name);
            let Some(printed) = self.wanted(&place, command, slow, &mut outcome) else { continue };
            if let Block::Marked { .. } = block {
                compare(&place, command, text.trim_end(), None, &printed.out, &mut outcome);
            } else {
                outcome.compared += numbers(text).len();
                if let Some(part) = missing(text, &printed.all, &[]) {
                    outcome
                        .wrong
                        .push(format!("{place}: expected of `{command}`\n{part}\nfound\n{}", printed.all));
                }
            }
        }
        outcome
    }
}

#[test]
fn figures_are_found_in_text() {
    let of = |value, decimals, signed, key: Option<&str>| Figure {
        value,
        decimals,
        signed,
        key: key.map(str::to_owned),
    };
    assert_eq!(
        figures("svnserver2: 40.7 %, 1,953 to 640.", None),
        [of(40.7, 1, false, None), of(1953.0, 0, false, None), of(640.0, 0, false, None)]
    );
    assert_eq!(
        figures("mail: `net_pct` -27.1 (`lab compare --json` 3)", None),
        [of(-27.1, 1, true, Some("net_pct")), of(3.0, 0, false, Some("net_pct"))]
    );
    assert_eq!(figures("−24.4", Some("a")), [of(-24.4, 1, true, Some("a"))]);
}

#[test]
fn a_figure_that_is_not_printed_is_found() {
    let json = r#"{"a": 40.693, "more": [{"a": -2.0}], "b": 21.4}"#;
    let printed = |text: &str, key| figures(text, key).iter().all(|figure| figure.in_all(json));
    assert!(printed("40.7 2 `b` 21", Some("a")));
    assert!(!printed("40.6", Some("a")) && !printed("+2", Some("a")) && !printed("21.4", Some("a")));
    assert!(
        figures("12.5", None)[0].in_all("it takes 12.46 ms") && !figures("12.4", None)[0].in_all("12.46")
    );
}
