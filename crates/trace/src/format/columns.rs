//! Text of any separator, given its columns: `time:s,op,offset:bytes,size:bytes`.
//!
//! The specification's own separator is that of the text: a comma, semicolon or other character, or blanks, any number
//! of them. Columns are those of [`column`](super::column). A last `*` stands for any number of further ones, which are
//! ignored; without it a line has exactly these columns. A specification with a `%` is the one given to `blkparse -f`.
//!
//! Lines that start with `#` are comments; a line `*` alone, with which some lists end, is left out. A first line
//! without a number where the columns have numbers names the columns. Faults: any specification, any text.

use std::str::FromStr;

use super::blkparse_f::Printed;
use super::column::{self, Column, Rows};
use super::fields::{Flaw, quoted};
use super::text::{EventQueue, LineFormat, Text};
use super::{Content, Decoder, Format, Naming, OpenUnits, Sample, TimeUnit};
use crate::error::TraceError;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "columns",
    summary: "text with any columns, a record a line; needs --columns",
    sample: Sample::Real,
    volumes: Naming::Named,
    open_units: OpenUnits { time: Some(TimeUnit::Second), sector: Some(512) },
    // It cannot be detected: an option has to name it.
    detect: |_| false,
    open,
};

fn open(content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    let named = match &content.options.columns {
        Some(Columns::Named(named)) => named.clone(),
        _ => Named::default(),
    };
    let rows = Rows::new(named.columns.clone(), &content).map_err(|Flaw { found, expected }| {
        TraceError::Malformed { file: content.file.clone(), offset: 0, found, expected }
    })?;
    Ok(Text::open(content, Lines { named, rows, names: None, marks: 0 }))
}

/// The columns of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// A text with these columns.
    Named(Named),
    /// The output of `blkparse -f`.
    Printed(Printed),
}

/// Columns by name, and what separates them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `None`: blanks.
    separator: Option<char>,
    columns: column::ColumnList,
    /// Whether further columns are ignored.
    open: bool,
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(spec: &str) -> Result<Columns, String> {
        if spec.contains('%') { spec.parse().map(Columns::Printed) } else { spec.parse().map(Columns::Named) }
    }
}

impl FromStr for Named {
    type Err = String;

    fn from_str(spec: &str) -> Result<Named, String> {
        let spec = spec.replace("\\t", "\t");
        let inside = |letter: char| letter.is_ascii_alphanumeric() || "-_:=*".contains(letter);
        let separator = spec.trim().chars().find(|&letter| !inside(letter));
        // Blanks around another separator do not count.
        let other = spec.chars().find(|&letter| !inside(letter) && letter != ' ');
        let separator = other.filter(|_| separator.is_some());
        let parts: Vec<&str> = match separator {
            Some(separator) => spec.split(separator).map(str::trim).collect(),
            None => spec.split_whitespace().collect(),
        };
        let open = parts.last() == Some(&"*");
        let parts = if open { &parts[..parts.len() - 1] } else { &parts[..] };
        let columns = column::parse::<Column>(parts.iter())?;
        Ok(Named { separator, columns: column::ColumnList(columns).check()?, open })
    }
}

impl Columns {
    /// The format that they are for.
    pub fn format(&self) -> &'static Format {
        match self {
            Columns::Named(_) => &FORMAT,
            Columns::Printed(_) => &super::blkparse_f::FORMAT,
        }
    }
}

struct Lines {
    named: Named,
    rows: Rows,
    /// The first line, if it names the columns.
    names: Option<String>,
    /// Lines of `*` alone.
    marks: u64,
}

impl Lines {
    fn decode(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        let Lines { named, rows, .. } = self;
        let decoded = match named.separator {
            Some(separator) => rows.record(line.split(separator), named.open, events),
            None => rows.record(line.split_whitespace(), named.open, events),
        };
        // A column too many or too few is what is wrong, whatever it made of the others.
        decoded.map_err(|flaw| {
            let parts = match named.separator {
                Some(separator) => line.split(separator).count(),
                None => line.split_whitespace().count(),
            };
            if parts == rows.len() || parts > rows.len() && named.open {
                return flaw;
            }
            Flaw { found: format!("{parts} columns in {}", quoted(line)), expected: rows.len().to_string() }
        })
    }
}

impl LineFormat for Lines {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        if line.starts_with('#') {
            return Ok(());
        }
        if line == "*" {
            self.marks += 1;
            return Ok(());
        }
        let decoded = self.decode(line, events);
        // No number at all: the names of columns have none.
        let is_heading = events.line == 1 && !line.bytes().any(|byte| byte.is_ascii_digit());
        if decoded.is_err() && is_heading {
            self.names = Some(line.to_owned());
            return Ok(());
        }
        decoded
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.rows.warnings();
        warnings.extend(
            self.names
                .as_ref()
                .map(|names| format!("line 1 was taken for the names of columns: \"{names}\"")),
        );
        if self.marks > 0 {
            warnings.push(format!("{} lines of '*' alone were left out", self.marks));
        }
        warnings
    }
}
