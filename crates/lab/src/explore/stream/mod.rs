//! A stream: the requests of a file system to its disk, with their data, and marks of what its files contain.
//!
//! Lines, in order: `write FIRST+SECTORS`, followed by the data and a line feed, `zeroes FIRST+SECTORS`, `discard
//! FIRST+SECTORS`, `flush`; any other line is a mark, for the checker. Invariant: a mark holds once all requests before
//! it were answered.
//!
//! Fault model: a file may hold anything; an error names the invalid line.

mod cut;

use seekless_core::{Buffer, Extent, PAGE_SECTORS};

pub use cut::{Cut, Replayed, recovered, replay};

/// Beginning of the first line; the sectors of the disk follow.
const HEAD: &str = "seekless stream 1 ";
/// The largest disk: 4 GiB.
const MOST_SECTORS: u64 = 1 << 23;

/// A request, or a mark.
#[derive(Clone)]
pub enum Action {
    /// A write of this data, FUA or not.
    Write(Extent, Buffer, bool),
    /// A write of zeroes.
    Zeroes(Extent),
    /// A discard.
    Discard(Extent),
    /// A flush.
    Flush,
    /// Any other line.
    Mark(String),
}

/// See the file's header.
#[derive(Clone)]
pub struct Stream {
    /// Sectors of the disk.
    pub sectors: u64,
    /// Requests and marks in order.
    pub actions: Vec<Action>,
}

/// Why bytes are not a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, not counting bytes that are written: found '{found}', expected {expected}")]
pub struct StreamError {
    /// Line number, from 1.
    pub line: usize,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Stream {
    /// Parses a stream.
    pub fn parse(bytes: &[u8]) -> Result<Stream, StreamError> {
        let mut rest = bytes;
        let head = next_line(&mut rest).unwrap_or_default();
        let sectors = head.strip_prefix(HEAD).and_then(|sectors| sectors.parse::<u64>().ok());
        let whole = |sectors: &u64| (1..=MOST_SECTORS).contains(sectors) && sectors % PAGE_SECTORS == 0;
        let Some(sectors) = sectors.filter(whole) else {
            let expected = format!("'{HEAD}SECTORS', whole pages, at most {MOST_SECTORS}");
            return Err(StreamError { line: 1, found: head, expected });
        };
        let mut actions = Vec::new();
        for line in 2.. {
            let Some(text) = next_line(&mut rest) else { break };
            let next = one(&text, sectors, &mut rest);
            actions.push(next.map_err(|expected| StreamError { line, found: text, expected })?);
        }
        Ok(Stream { sectors, actions })
    }

    /// The stream for a disk with FUA: a single write between two flushes is what a kernel makes of a FUA write for a
    /// disk without it.
    pub fn with_fua(&self) -> Stream {
        let mut actions: Vec<Action> = Vec::new();
        for next in &self.actions {
            let alone = matches!(next, Action::Flush).then_some(&mut actions[..]);
            match alone {
                Some([.., Action::Flush, Action::Write(_, _, fua)]) => *fua = true,
                _ => actions.push(next.clone()),
            }
        }
        Stream { sectors: self.sectors, actions }
    }
}

/// The text up to the next line feed, if there is one; `rest` begins after it.
fn next_line(rest: &mut &[u8]) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(&rest[..end]).into_owned();
    *rest = &rest[end + 1..];
    Some(line)
}

/// Parses a line, with its data if it has some; the error is what was expected.
fn one(line: &str, sectors: u64, rest: &mut &[u8]) -> Result<Action, String> {
    let (word, place) = line.split_once(' ').unwrap_or((line, ""));
    if !["write", "zeroes", "discard"].contains(&word) {
        return Ok(if line == "flush" { Action::Flush } else { Action::Mark(line.to_owned()) });
    }
    let place = place.split_once('+').and_then(|(first, count)| {
        let (first, count) = (first.parse::<u64>().ok()?, count.parse::<u64>().ok()?);
        let inside = count > 0 && first.checked_add(count).is_some_and(|end| end <= sectors);
        inside.then(|| Extent::new(first, count))
    });
    let at = place.ok_or_else(|| format!("{word} FIRST+SECTORS within {sectors} sectors"))?;
    match word {
        "zeroes" => Ok(Action::Zeroes(at)),
        "discard" => Ok(Action::Discard(at)),
        _ => {
            let bytes = at.bytes() as usize;
            let behind = rest.get(bytes).filter(|feed| **feed == b'\n');
            behind.ok_or_else(|| format!("{bytes} bytes and a line feed after it"))?;
            let buffer = Buffer::from_vec(rest[..bytes].to_vec());
            *rest = &rest[bytes + 1..];
            Ok(Action::Write(at, buffer, false))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &Stream) -> Vec<String> {
        let each = of.actions.iter().map(|action| match action {
            Action::Write(at, bytes, fua) => format!("write {at} {} {fua}", bytes.to_vec()[0]),
            Action::Zeroes(at) => format!("zeroes {at}"),
            Action::Discard(at) => format!("discard {at}"),
            Action::Flush => "flush".to_owned(),
            Action::Mark(line) => line.clone(),
        });
        each.collect()
    }

    fn stream(lines: &[&[u8]]) -> Result<Stream, StreamError> {
        let head: &[u8] = b"seekless stream 1 16";
        Stream::parse(&[&[head], lines, &[&[]]].concat().join(&b'\n'))
    }

    #[test]
    fn a_stream_is_read_as_it_was_written() {
        let bytes = vec![b'\n'; 1024];
        let read = stream(&[b"write 3+2", &bytes, b"flush", b"zeroes 0+16", b"discard 8+8", b"may a absent"]);
        let write = format!("write {} 10 false", Extent::new(3, 2));
        let expected = [
            &write,
            "flush",
            &format!("zeroes {}", Extent::new(0, 16)),
            &format!("discard {}", Extent::new(8, 8)),
            "may a absent",
        ];
        assert_eq!(text(&read.unwrap()), expected);
    }

    #[test]
    fn a_write_alone_between_flushes_has_fua_where_there_is_fua() {
        let bytes = vec![1; 512];
        let write = |line: &'static [u8]| [line, &bytes];
        let lines =
            [&write(b"write 0+1")[..], &[b"flush"], &write(b"write 1+1"), &[b"flush", b"a mark"]].concat();
        let lines = [&lines[..], &write(b"write 2+1"), &write(b"write 3+1"), &[b"flush"]].concat();
        let fua: Vec<String> = text(&stream(&lines).unwrap().with_fua());
        let durable: Vec<bool> = fua.iter().map(|line| line.ends_with("true")).collect();
        assert_eq!(durable, [false, false, true, false, false, false, false], "{fua:?}");
    }

    #[test]
    fn what_is_no_stream_is_refused_with_its_line() {
        let error = |bytes: &[u8]| Stream::parse(bytes).err().unwrap().to_string();
        assert!(error(b"").contains("line 1") && error(b"seekless stream 1 7\n").contains("whole pages"));
        for (line, expected) in [
            (&b"write 15+2"[..], "within 16 sectors"),
            (b"zeroes 1", "zeroes FIRST+SECTORS"),
            (b"discard 1+0", "discard FIRST+SECTORS"),
            (b"write 18446744073709551615+2", "within 16 sectors"),
            (b"write 0+1\nshort", "512 bytes and a line feed"),
        ] {
            let found = stream(&[b"flush", line]).err().unwrap().to_string();
            assert!(found.starts_with("line 3") && found.contains(expected), "{found}");
        }
    }
}
