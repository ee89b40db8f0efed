//! The kernel's format files, which give the layout of its events and buffer pages: `format` of an event, and
//! `events/header_page`. They differ from kernel to kernel; nothing is assumed.
//!
//! Invariant: reading a field never reads beyond the event. Faults: any text; a missing field is an error that names
//! it.

use crate::error::RecordError;

/// The place of a field in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// First byte, from the start of the event.
    pub offset: usize,
    /// Length.
    pub size: usize,
}

impl Field {
    /// The field as a number, of 1, 2, 4 or 8 bytes; zero where an event is too short for it.
    pub fn number(self, event: &[u8]) -> u64 {
        let Some(bytes) = event.get(self.offset..self.offset + self.size) else { return 0 };
        match bytes {
            [byte] => u64::from(*byte),
            [a, b] => u64::from(u16::from_ne_bytes([*a, *b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([*a, *b, *c, *d])),
            _ => bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
        }
    }

    /// The field as text, up to its first zero.
    pub fn text(self, event: &[u8]) -> &[u8] {
        let bytes = event.get(self.offset..self.offset + self.size).unwrap_or_default();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        &bytes[..end]
    }
}

/// A parsed format file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The event's name; empty for a page.
    pub name: String,
    /// The number of its events; zero for a page.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

impl Layout {
    /// Parses the text of a format file; unknown lines are ignored.
    pub fn parse(text: &str) -> Layout {
        let mut layout = Layout::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("name:") {
                name.trim().clone_into(&mut layout.name);
            } else if let Some(id) = line.strip_prefix("ID:") {
                layout.id = id.trim().parse().unwrap_or(0);
            } else if let Some(field) = field(line) {
                layout.fields.push(field);
            }
        }
        layout
    }

    /// The field of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Result<Field, RecordError> {
        self.find(name).ok_or_else(|| {
            let known: Vec<&str> = self.fields.iter().map(|(name, _)| name.as_str()).collect();
            let of = if self.name.is_empty() { "pages" } else { &self.name };
            RecordError::Kernel {
                found: format!("the fields {} in its format of {of}", known.join(", ")),
                expected: format!("one called {name}"),
            }
        })
    }
}

/// Parses a line such as `field:sector_t sector; offset:16; size:8; signed:0;`.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let name = declared.split_whitespace().last()?.split('[').next()?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.parse().ok(),
            Some(("size", number)) => size = number.parse().ok(),
            _ => {}
        }
    }
    Some((name.to_owned(), Field { offset: offset?, size: size? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENAME: &str = "name: task_rename
ID: 204
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;

print fmt: \"pid=%d oldcomm=%s\", REC->pid, REC->oldcomm
";

    #[test]
    fn fields_are_found_by_name() {
        let layout = Layout::parse(RENAME);
        assert_eq!((layout.name.as_str(), layout.id), ("task_rename", 204));
        assert_eq!(layout.find("newcomm"), Some(Field { offset: 28, size: 16 }));
        let missing = layout.field("comm").unwrap_err().to_string();
        assert!(missing.contains("task_rename") && missing.contains("oldcomm"), "{missing}");
    }

    #[test]
    fn a_page_has_fields_too() {
        let layout = Layout::parse(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n",
        );
        assert_eq!(layout.find("commit"), Some(Field { offset: 8, size: 8 }));
        assert_eq!(layout.find("data"), Some(Field { offset: 16, size: 4080 }));
    }

    #[test]
    fn nothing_is_read_beyond_an_event() {
        let field = Field { offset: 6, size: 4 };
        assert_eq!((field.number(&[1; 8]), field.text(&[1; 8])), (0, &[][..]));
        assert_eq!(Field { offset: 0, size: 2 }.number(&7_u16.to_ne_bytes()), 7);
        assert_eq!(Field { offset: 1, size: 4 }.text(b"add\0x"), b"dd");
    }

    #[test]
    fn text_that_is_no_format_gives_no_fields() {
        for text in ["", "field:", "\tfield:int a;\toffset:x;\tsize:4;", "ID: 70000\nname:"] {
            assert_eq!(Layout::parse(text), Layout::default(), "{text}");
        }
    }
}
