//! The output of `blkparse -f FORMAT`, given that format: `"%D %T.%t %p %a %d %S %n %C\n"`.
//!
//! A specifier is `%`, an optional width, and a letter as in blkparse(1): a action, c CPU, C command, d RWBS, D device
//! (major,minor), M and m its parts, N bytes, n sectors, p process, S sector, s sequence, T seconds, t nanoseconds; e,
//! P, u, U and z are ignored. Other characters match themselves; blanks match any number of blanks. Without an action
//! every line is a request; otherwise queue events (Q) are, completions (C) give latencies, and issues (D) count where
//! nothing was queued. A command ends where
//! the text after it begins.
//!
//! Units: seconds and nanoseconds, sectors of 512 bytes. Faults: any specification, any text.

use std::str::FromStr;

use seekless_core::{Extent, Nanos, ProcessId, SECTOR_BYTES};

use super::blkparse::{RequestLine, device_pair};
use super::columns::Columns;
use super::fields::{Flaw, SECOND, blocks, device_of, number};
use super::text::{EventQueue, LineFormat, Text};
use super::{Format, Naming, OpenUnits, Sample};

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "blkparse-f",
    summary: "what blkparse -f prints; needs that format",
    sample: Sample::Real,
    volumes: Naming::Linux,
    open_units: OpenUnits::NONE,
    // It cannot be detected: an option has to name it.
    detect: |_| false,
    open: |content| {
        let printed = match &content.options.columns {
            Some(Columns::Printed(printed)) => printed.clone(),
            _ => Printed::default(),
        };
        Ok(Text::open(content, printed))
    },
};

/// What `blkparse -f` prints with a format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Box<str>),
    Field(char),
}

const KNOWN: &str = "acCdDeMmNnpPsStTuUz";

impl FromStr for Printed {
    type Err = String;

    fn from_str(spec: &str) -> Result<Printed, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut letters = spec.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter == '\\' && letters.next_if(|&(_, next)| next == 'n' || next == 't').is_some() {
                literal.push(' ');
            } else if letter == '%' {
                while letters.next_if(|(_, next)| next.is_ascii_digit() || *next == '-').is_some() {}
                let Some((_, field)) = letters.next().filter(|(_, field)| KNOWN.contains(*field)) else {
                    return Err(format!("column {}: found a % without a letter of {KNOWN} after it", at + 1));
                };
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
                pieces.push(Piece::Field(field));
            } else {
                literal.push(letter);
            }
        }
        pieces.push(Piece::Literal(literal.into()));
        let columns = Printed(pieces);
        let lacking = |all: &str| !all.chars().any(|letter| columns.0.contains(&Piece::Field(letter)));
        let needed =
            [("T", "seconds (%T)"), ("d", "RWBS (%d)"), ("S", "sectors (%S)"), ("nN", "a length (%n or %N)")];
        match needed.iter().find(|(letters, _)| lacking(letters)) {
            Some((_, what)) => Err(format!("found no {what} among the columns, expected one")),
            None => Ok(columns),
        }
    }
}

/// The values of a line's columns.
#[derive(Default)]
struct Values<'a> {
    device: u32,
    major: u32,
    seconds: u64,
    nanos: u64,
    process: u32,
    action: Option<&'a str>,
    rwbs: &'a str,
    sector: u64,
    bytes: u64,
    command: &'a str,
}

impl<'a> Values<'a> {
    fn set(&mut self, field: char, text: &'a str) -> Result<(), Flaw> {
        match field {
            'D' => self.device = device_pair(text)?,
            'M' => self.major = number(text, "a major number")?,
            'm' => self.device = device_of(self.major, number(text, "a minor number")?)?,
            'T' => self.seconds = number(text, "a time in seconds")?,
            't' => self.nanos = number(text, "nanoseconds")?,
            'p' => self.process = number(text, "the number of a process")?,
            'a' => self.action = Some(text),
            'd' => self.rwbs = text,
            'S' => self.sector = number(text, "a sector")?,
            'n' => {
                let sectors: u64 = number(text, "a number of sectors")?;
                self.bytes = sectors.saturating_mul(SECTOR_BYTES);
            }
            'N' => self.bytes = number(text, "a number of bytes")?,
            'C' => self.command = text,
            _ => {}
        }
        Ok(())
    }

    fn emit(&self, events: &mut EventQueue) -> Result<(), Flaw> {
        let time = self.seconds.checked_mul(SECOND).and_then(|time| time.checked_add(self.nanos));
        let time = time.map(Nanos).ok_or_else(|| Flaw {
            found: format!("{} seconds", self.seconds),
            expected: "a time below 2^64 ns".into(),
        })?;
        let extent =
            if self.bytes == 0 { Extent::default() } else { blocks(self.sector, self.bytes, SECTOR_BYTES)? };
        let process = ProcessId(self.process);
        let request = RequestLine { time, device: self.device, process, rwbs: self.rwbs, extent };
        match self.action {
            None | Some("Q") => request.queued(self.command, events),
            Some("D") => request.issued(events),
            Some("C") => request.completed(events),
            Some(_) => {}
        }
        Ok(())
    }
}

impl Printed {
    /// The end of a field that is followed by `after`.
    fn end(rest: &str, after: &str) -> usize {
        let mark = after.trim();
        let end = if mark.is_empty() { rest.find(char::is_whitespace) } else { rest.find(mark) };
        end.unwrap_or(rest.len())
    }

    fn values<'a>(&self, line: &'a str) -> Result<Values<'a>, Flaw> {
        let mut values = Values::default();
        let mut rest = line;
        let mut pieces = self.0.iter().peekable();
        while let Some(piece) = pieces.next() {
            rest = rest.trim_start();
            match piece {
                Piece::Literal(text) => {
                    let mark = text.trim();
                    rest = rest.strip_prefix(mark).ok_or_else(|| Flaw::text(rest, &format!("\"{mark}\"")))?;
                }
                Piece::Field(field) => {
                    let Some(Piece::Literal(after)) = pieces.peek() else { continue };
                    // Text after the last column ends the line: a command may contain it too.
                    let last = pieces.clone().count() == 1;
                    let at_end = rest.strip_suffix(after.trim()).filter(|_| last);
                    let end = at_end.map_or_else(|| Self::end(rest, after), str::len);
                    values.set(*field, rest[..end].trim_end())?;
                    rest = &rest[end..];
                }
            }
        }
        Ok(values)
    }
}

impl LineFormat for Printed {
    fn line(&mut self, line: &str, events: &mut EventQueue) -> Result<(), Flaw> {
        // Process notes, messages and the summary do not match the columns.
        let values = self.values(line)?;
        if values.action.is_none_or(|action| matches!(action, "Q" | "D" | "C")) && values.rwbs != "N" {
            values.emit(events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_specification_is_an_error_that_says_why() {
        let error_at = |spec: &str| spec.parse::<Printed>().unwrap_err();
        assert!(error_at("%T.%t %d %S").contains("%n or %N"));
        assert!(error_at("%T %x").contains("column 4"));
        assert!(error_at("%").contains("column 1"));
        assert!("%5T.%9t, %p, %C, %a, %d, %S, %n\\n".parse::<Printed>().is_ok());
    }
}
