//! Allowed contents of files at a moment, by the marks of a stream; `tests/promises/streams/record` has their syntax.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

/// Bytes of a sector: it is written whole or not at all.
const SECTOR: usize = 512;

/// Allowed contents under a name.
#[derive(Clone, Debug, PartialEq)]
enum What {
    Absent,
    /// The beginning of a content, with its least and largest length in bytes; after the least, sectors may be zeroes.
    Content {
        number: u64,
        from: usize,
        to: usize,
    },
    /// A length in bytes, each sector of the one content or of the other.
    Either {
        one: u64,
        other: u64,
        bytes: usize,
    },
}

/// Allowed contents under each name in the marks.
#[derive(Default)]
pub struct Files(BTreeMap<String, Vec<What>>);

/// The first bytes of the content of this number.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    let mut text = String::new();
    for line in 1.. {
        if text.len() >= bytes {
            break;
        }
        let _ = writeln!(text, "content {number}, line {line}");
    }
    text.truncate(bytes);
    text.into_bytes()
}

impl What {
    fn parse(words: &[&str]) -> Option<What> {
        let number = |text: &str| text.parse().ok();
        match words {
            ["absent"] => Some(What::Absent),
            [numbers, bytes] => match (numbers.split_once('|'), bytes.split_once('-')) {
                (Some((one, other)), None) => Some(What::Either {
                    one: number(one)?,
                    other: number(other)?,
                    bytes: bytes.parse().ok()?,
                }),
                (None, Some((from, to))) => Some(What::Content {
                    number: number(numbers)?,
                    from: from.parse().ok()?,
                    to: to.parse().ok()?,
                }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether these are the contents.
    fn is(&self, found: Option<&[u8]>) -> bool {
        match (self, found) {
            (What::Absent, None) => true,
            (What::Content { number, from, to }, Some(found)) => {
                (*from..=*to).contains(&found.len()) && is_content(found, *number, *from)
            }
            (What::Either { one, other, bytes }, Some(found)) => {
                let [one, other] = [one, other].map(|number| content(*number, *bytes));
                let each = found.chunks(SECTOR).zip(one.chunks(SECTOR).zip(other.chunks(SECTOR)));
                found.len() == *bytes && { each }.all(|(found, (one, other))| found == one || found == other)
            }
            _ => false,
        }
    }
}

/// Whether this is the content of this number, but for sectors of zeroes after its first bytes.
fn is_content(found: &[u8], number: u64, whole: usize) -> bool {
    let expected = content(number, found.len());
    let sectors = (0..).step_by(SECTOR).zip(found.chunks(SECTOR).zip(expected.chunks(SECTOR)));
    { sectors }.all(|(at, (found, expected))| {
        let (first, rest) = found.split_at(whole.saturating_sub(at).min(found.len()));
        let zeroes = rest.iter().all(|byte| *byte == 0);
        expected.starts_with(first) && (zeroes || rest == &expected[first.len()..])
    })
}

impl Files {
    /// From the marks that were passed, in order.
    pub fn of(marks: &[&str]) -> Result<Files, String> {
        let mut files = Files::default();
        for mark in marks {
            let words: Vec<&str> = mark.split(' ').collect();
            let (kind, name, what) = match words.as_slice() {
                ["mounted"] => continue,
                [kind @ ("may" | "is"), name, what @ ..] => (*kind, *name, What::parse(what)),
                _ => ("", "", None),
            };
            let expected = "mounted, or may or is NAME absent, NUMBER FROM-TO, or NUMBER|NUMBER BYTES";
            let what = what.ok_or_else(|| format!("found the mark '{mark}', expected {expected}"))?;
            let allowed = files.0.entry(name.to_owned()).or_default();
            if kind == "is" {
                allowed.clear();
            }
            allowed.push(what);
        }
        Ok(files)
    }

    /// Whether a folder holds allowed contents.
    pub fn judge(&self, root: &Path) -> Result<(), String> {
        for (name, allowed) in &self.0 {
            let found = match std::fs::read(root.join(name)) {
                Ok(found) => Some(found),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
                Err(error) => return Err(format!("{name}: {error}")),
            };
            if !allowed.iter().any(|what| what.is(found.as_deref())) {
                let found = found.map_or("nothing".to_owned(), |found| {
                    let begin = String::from_utf8_lossy(&found[..found.len().min(30)]).into_owned();
                    format!("{} bytes that begin with {begin:?}", found.len())
                });
                return Err(format!("{name}: found {found}, expected one of {allowed:?}"));
            }
        }
        Ok(())
    }
}

#[test]
fn files_are_judged_by_the_marks_that_were_passed() {
    let folder = tempfile::tempdir().unwrap();
    let holds = |marks: &[&str], found: Option<Vec<u8>>| {
        let file = folder.path().join("a");
        let _ = std::fs::remove_file(&file);
        if let Some(found) = found {
            std::fs::write(&file, found).unwrap();
        }
        Files::of(marks).unwrap().judge(folder.path()).is_ok()
    };
    let growing = ["mounted", "is a 1 600-600", "may a 1 600-2000"];
    assert!(holds(&growing, Some(content(1, 600))) && holds(&growing, Some(content(1, 1999))));
    assert!(!holds(&growing, Some(content(1, 599))) && !holds(&growing, Some(content(2, 600))));
    assert!(!holds(&growing, None) && !holds(&growing, Some(vec![0; 600])));
    let unwritten = [content(1, 600), vec![0; 900]].concat();
    assert!(
        holds(&growing, Some(unwritten.clone()))
            && !holds(&growing, Some([&unwritten[..599], &[0]].concat()))
    );
    assert!(!holds(&["may a 1 600-2000", "is a 1 1500-1500"], Some(unwritten)));
    let removed = ["is a 1 600-600", "may a absent"];
    assert!(holds(&removed, None) && holds(&removed, Some(content(1, 600))));
    assert!(!holds(&["is a 1 600-600", "may a absent", "is a absent"], Some(content(1, 600))));
    let over = ["is a 1 2000-2000", "may a 1|2 2000"];
    let mixed = [&content(1, 512)[..], &content(2, 2000)[512..]].concat();
    assert!(
        holds(&over, Some(mixed.clone())) && !holds(&over, Some([&mixed[..700], &vec![0; 1300]].concat()))
    );
    assert!(Files::of(&["may a 1"]).is_err() && Files::of(&["flash"]).is_err());
}
