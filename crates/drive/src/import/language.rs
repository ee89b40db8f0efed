//! The language of DiskSim's files: `TYPE NAME { KEY = VALUE, ... }`, nested, with `source FILE` for parts in other
//! files, and `instantiate` and `topology` to connect parts.
//!
//! Keys are words with blanks, brackets and dots; values are numbers, words, lists in brackets and blocks. `#` begins a
//! comment. Faults: any text; anything else is an error with file, line, found and expected. Files may include each
//! other eight deep, and be 16 MiB long.

use std::fs;
use std::path::{Path, PathBuf};

use super::ImportError;

const DEEPEST: usize = 8;
const LONGEST: u64 = 16 << 20;

/// A place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    pub line: usize,
}

impl Place {
    /// As errors name it.
    pub fn shown(&self) -> String {
        format!("{}, line {}", self.file.display(), self.line)
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

impl Value {
    /// Its word, if it is one.
    pub fn word(&self) -> Option<&str> {
        match self {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// Keys and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    pub kind: String,
    pub name: String,
    pub place: Place,
    pub entries: Vec<Entry>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub value: Value,
    pub place: Place,
}

/// A part of a topology, and the parts attached to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub kind: String,
    pub name: String,
    pub below: Vec<Node>,
}

/// The content of a file and those that it includes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub blocks: Vec<Block>,
    /// (Instance, block).
    pub instances: Vec<(String, String)>,
    pub topology: Vec<Node>,
}

impl Document {
    /// A block of the kind of an earlier one has that one's entries before its own.
    fn derived(&self, block: Block) -> Block {
        let Some(parent) = self.blocks.iter().find(|parent| parent.name == block.kind) else { return block };
        let entries = parent.entries.iter().cloned().chain(block.entries).collect();
        Block { kind: parent.kind.clone(), entries, ..block }
    }
}

/// Reads a file and those that it includes.
pub fn read(path: &Path) -> Result<Document, ImportError> {
    let mut document = Document::default();
    let parser = Parser { text: "", at: 0, line: 1, path, root: folder(path), depth: 0 };
    parser.read_into(path, None, &mut document)?;
    Ok(document)
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A file that `from` names: relative to that, or else to `root`.
pub fn relative_path(from: &Path, root: &Path, name: &str) -> PathBuf {
    let near = folder(from).join(name);
    let far = root.join(name);
    if !near.exists() && far.exists() { far } else { near }
}

/// The text of a file, and where it was named.
pub fn load(path: &Path, named: Option<&Place>) -> Result<String, ImportError> {
    let named_at = named.map(|named| format!(" (named in {})", named.shown())).unwrap_or_default();
    let io = |source| ImportError::Io { file: path.to_owned(), source, named: named_at.clone() };
    if fs::metadata(path).map_err(io)?.len() > LONGEST {
        let place = Place { file: path.to_owned(), line: 1 };
        return Err(ImportError::new(&place, "a longer file", "at most 16 MiB"));
    }
    let bytes = fs::read(path).map_err(io)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    path: &'a Path,
    /// The folder of the first file.
    root: &'a Path,
    depth: usize,
}

impl Parser<'_> {
    /// Reads a file that is named here.
    fn read_into(
        &self,
        path: &Path,
        named: Option<&Place>,
        document: &mut Document,
    ) -> Result<(), ImportError> {
        let text = load(path, named)?;
        let depth = self.depth + usize::from(named.is_some());
        let mut parser = Parser { text: &text, at: 0, line: 1, path, root: self.root, depth };
        parser.document(document)
    }

    /// Reads the file of this name.
    fn source(&mut self, document: &mut Document) -> Result<PathBuf, ImportError> {
        let name = self.word()?;
        self.deeper()?;
        let path = relative_path(self.path, self.root, &name);
        let named = self.place();
        self.read_into(&path, Some(&named), document)?;
        Ok(path)
    }

    fn place(&self) -> Place {
        Place { file: self.path.to_owned(), line: self.line }
    }

    fn wrong<T>(&self, expected: &str) -> Result<T, ImportError> {
        let rest: String = self.text[self.at..].chars().take(20).take_while(|&c| c != '\n').collect();
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("\"{}\"", rest.trim_end()) };
        Err(ImportError::new(&self.place(), &found, expected))
    }

    /// The next character that is neither blank nor in a comment.
    fn peek(&mut self) -> Option<char> {
        loop {
            let next = self.text[self.at..].chars().next()?;
            if next == '#' {
                let length = self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
                self.at += length;
            } else if next.is_whitespace() {
                self.step(next);
            } else {
                return Some(next);
            }
        }
    }

    fn step(&mut self, passed: char) {
        self.at += passed.len_utf8();
        self.line += usize::from(passed == '\n');
    }

    fn take(&mut self, expected: char) -> bool {
        let there = self.peek() == Some(expected);
        if there {
            self.step(expected);
        }
        there
    }

    fn expect(&mut self, expected: char) -> Result<(), ImportError> {
        if self.take(expected) { Ok(()) } else { self.wrong(&format!("'{expected}'")) }
    }

    /// Characters up to a blank or a delimiter.
    fn word(&mut self) -> Result<String, ImportError> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c.is_whitespace() || ",{}[]=#".contains(c)).unwrap_or(rest.len());
        if end == 0 {
            return self.wrong("a word");
        }
        let word = rest[..end].to_owned();
        self.at += end;
        Ok(word)
    }

    fn document(&mut self, document: &mut Document) -> Result<(), ImportError> {
        while self.peek().is_some() {
            let place = self.place();
            let word = self.word()?;
            match word.as_str() {
                "source" => drop(self.source(document)?),
                "instantiate" => {
                    let Value::List(instances) = self.value()? else {
                        return self.wrong("[ names ] as NAME");
                    };
                    if self.word()? != "as" {
                        return self.wrong("[ names ] as NAME");
                    }
                    let block = self.word()?;
                    for instance in instances {
                        let Value::Word(instance) = instance else { return self.wrong("names in brackets") };
                        document.instances.push((instance, block.clone()));
                    }
                }
                "topology" => document.topology.push(self.node()?),
                kind => {
                    let name = self.word()?;
                    let entries = self.entries()?;
                    let block = Block { kind: kind.to_owned(), name, place, entries };
                    document.blocks.push(document.derived(block));
                }
            }
        }
        Ok(())
    }

    fn deeper(&self) -> Result<(), ImportError> {
        if self.depth < DEEPEST {
            return Ok(());
        }
        Err(ImportError::new(&self.place(), "files that include each other", "at most eight deep"))
    }

    fn node(&mut self) -> Result<Node, ImportError> {
        let (kind, name) = (self.word()?, self.word()?);
        let mut below = Vec::new();
        if self.take('[') {
            self.nest()?;
            while !self.take(']') {
                below.push(self.node()?);
                self.take(',');
            }
            self.depth -= 1;
        }
        Ok(Node { kind, name, below })
    }

    /// Limits the nesting of blocks and lists.
    fn nest(&mut self) -> Result<(), ImportError> {
        self.depth += 1;
        if self.depth > 64 { self.wrong("less nesting") } else { Ok(()) }
    }

    /// `{ KEY = VALUE, ... }`
    fn entries(&mut self) -> Result<Vec<Entry>, ImportError> {
        self.expect('{')?;
        self.nest()?;
        let mut entries = Vec::new();
        while !self.take('}') {
            if self.take(',') {
                continue;
            }
            if self.peek().is_none() {
                return self.wrong("'}'");
            }
            let place = self.place();
            let key = self.key()?;
            let value = self.value()?;
            entries.push(Entry { key, value, place });
        }
        self.depth -= 1;
        Ok(entries)
    }

    /// Everything up to `=`, with single blanks.
    fn key(&mut self) -> Result<String, ImportError> {
        let rest = &self.text[self.at..];
        let end = rest.find(['=', '{', '}', '\n']).unwrap_or(rest.len());
        if !rest[end..].starts_with('=') {
            return self.wrong("KEY = VALUE");
        }
        let key = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        self.at += end + 1;
        Ok(key)
    }

    fn value(&mut self) -> Result<Value, ImportError> {
        if self.take('[') {
            self.nest()?;
            let mut values = Vec::new();
            while !self.take(']') {
                if !self.take(',') {
                    values.push(self.value()?);
                }
            }
            self.depth -= 1;
            return Ok(Value::List(values));
        }
        self.peek();
        let place = self.place();
        let word = self.word()?;
        if word == "source" {
            return self.included();
        }
        // A block may have a name.
        let name = if self.named_block() { self.word()? } else { String::new() };
        if self.peek() == Some('{') {
            let entries = self.entries()?;
            return Ok(Value::Block(Block { kind: word, name, place, entries }));
        }
        Ok(Value::Word(word))
    }

    /// Whether a name and a block follow.
    fn named_block(&mut self) -> bool {
        let (at, line) = (self.at, self.line);
        let follow = self.word().is_ok() && self.peek() == Some('{');
        (self.at, self.line) = (at, line);
        follow
    }

    /// The single block of a file.
    fn included(&mut self) -> Result<Value, ImportError> {
        let mut document = Document::default();
        let file = self.source(&mut document)?;
        match document.blocks.pop() {
            Some(block) => Ok(Value::Block(block)),
            None => Err(ImportError::new(&Place { file, line: 1 }, "no block", "one")),
        }
    }
}
