//! Reads values from a block, and records which keys were read.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::ImportError;
use super::language::{Block, Entry, Place, Value, relative_path};

/// A reader of a block.
pub struct Reader<'a> {
    block: &'a Block,
    taken: RefCell<Vec<bool>>,
}

/// A flag of DiskSim's is set if it is not zero.
const FLAG: &str = "0 or 1";

impl<'a> Reader<'a> {
    pub fn new(block: &'a Block) -> Reader<'a> {
        Reader { block, taken: RefCell::new(vec![false; block.entries.len()]) }
    }

    /// The last entry of a key counts.
    fn entry(&self, key: &str) -> Option<&'a Entry> {
        let place = self.block.entries.iter().rposition(|entry| entry.key.eq_ignore_ascii_case(key))?;
        for (entry, taken) in self.block.entries.iter().zip(self.taken.borrow_mut().iter_mut()) {
            *taken |= entry.key.eq_ignore_ascii_case(key);
        }
        self.block.entries.get(place)
    }

    fn needed(&self, key: &str) -> Result<&'a Entry, ImportError> {
        let missing = || {
            let found = format!("no '{key}' in {} {}", self.block.kind, self.block.name);
            ImportError::new(&self.block.place, found.trim_end(), "one")
        };
        self.entry(key).ok_or_else(missing)
    }

    /// A number; `None` if the key is not there.
    pub fn number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        self.entry(key).map(|entry| number(entry, &entry.value)).transpose()
    }

    /// A number that has to be there.
    pub fn some_number(&self, key: &str) -> Result<f64, ImportError> {
        let entry = self.needed(key)?;
        number(entry, &entry.value)
    }

    /// A number, or zero.
    pub fn number_or_zero(&self, key: &str) -> Result<f64, ImportError> {
        Ok(self.number(key)?.unwrap_or(0.0))
    }

    /// A whole number, from zero on.
    pub fn whole(&self, key: &str) -> Result<u32, ImportError> {
        let Some(entry) = self.entry(key) else { return Ok(0) };
        let value = number(entry, &entry.value)?;
        if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
            return Ok(value as u32);
        }
        Err(ImportError::new(&entry.place, &format!("{key} = {value}"), "a whole number from 0 on"))
    }

    /// As `whole`, for a key that has to be there.
    pub fn needed_whole(&self, key: &str) -> Result<u32, ImportError> {
        self.needed(key)?;
        self.whole(key)
    }

    /// Whether a flag is set.
    pub fn flag(&self, key: &str) -> Result<bool, ImportError> {
        let Some(entry) = self.entry(key) else { return Ok(false) };
        match number(entry, &entry.value)? {
            0.0 => Ok(false),
            1.0 => Ok(true),
            other => Err(ImportError::new(&entry.place, &format!("{key} = {other}"), FLAG)),
        }
    }

    /// A word.
    pub fn word(&self, key: &str) -> Result<Option<String>, ImportError> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        match &entry.value {
            Value::Word(word) => Ok(Some(word.clone())),
            _ => Err(ImportError::new(&entry.place, &format!("{key} = a list or block"), "a word")),
        }
    }

    /// A file, relative to the one that names it, or to the folder `root`.
    pub fn file(&self, key: &str, root: &Path) -> Result<Option<PathBuf>, ImportError> {
        let word = self.word(key)?;
        Ok(word.map(|word| relative_path(&self.place(key).file, root, &word)))
    }

    /// The place of a key, or of the block that lacks it.
    pub fn place(&self, key: &str) -> Place {
        self.entry(key).map_or(&self.block.place, |entry| &entry.place).clone()
    }

    /// A list of numbers.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, ImportError> {
        let Some(entry) = self.entry(key) else { return Ok(Vec::new()) };
        match &entry.value {
            Value::List(values) => values.iter().map(|value| number(entry, value)).collect(),
            _ => Err(ImportError::new(&entry.place, &format!("{key} without brackets"), "[ numbers ]")),
        }
    }

    /// A list of lists.
    pub fn lists(&self, key: &str) -> Result<Vec<&'a Vec<Value>>, ImportError> {
        let entry = self.needed(key)?;
        let lists = match &entry.value {
            Value::List(values) => values
                .iter()
                .map(|value| match value {
                    Value::List(list) => Some(list),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        lists.ok_or_else(|| ImportError::new(&entry.place, &format!("{key} otherwise"), "[ [ ... ] ... ]"))
    }

    /// A list of whole numbers.
    pub fn wholes(&self, key: &str) -> Result<Vec<u64>, ImportError> {
        let numbers = self.numbers(key)?;
        let bad = numbers.iter().find(|value| value.fract() != 0.0 || **value < 0.0 || **value > 1e15);
        match (bad, self.entry(key)) {
            (Some(bad), Some(entry)) => {
                Err(ImportError::new(&entry.place, &format!("{bad} in {key}"), "whole numbers from 0 on"))
            }
            _ => Ok(numbers.into_iter().map(|value| value as u64).collect()),
        }
    }

    /// A block that has to be there.
    pub fn block(&self, key: &str) -> Result<&'a Block, ImportError> {
        let entry = self.needed(key)?;
        match &entry.value {
            Value::Block(block) => Ok(block),
            _ => Err(ImportError::new(&entry.place, &format!("{key} is no block"), "one")),
        }
    }

    /// A list of blocks.
    pub fn blocks(&self, key: &str) -> Result<Vec<&'a Block>, ImportError> {
        let entry = self.needed(key)?;
        let Value::List(values) = &entry.value else {
            return Err(ImportError::new(&entry.place, &format!("{key} without brackets"), "[ blocks ]"));
        };
        let block = |value: &'a Value| match value {
            Value::Block(block) => Ok(block),
            _ => Err(ImportError::new(&entry.place, &format!("{key} with something else"), "[ blocks ]")),
        };
        values.iter().map(block).collect()
    }

    /// Marks keys that have no effect here.
    pub fn ignore(&self, keys: &[&str]) {
        for key in keys {
            self.entry(key);
        }
    }

    /// An error at a key.
    pub fn wrong(&self, key: &str, found: &str, expected: &str) -> ImportError {
        let place = self.entry(key).map_or(&self.block.place, |entry| &entry.place);
        ImportError::new(place, &format!("{key} = {found}"), expected)
    }

    /// Reports a key that is set to something that is not modelled.
    pub fn report(&self, key: &str, why: &str, left_out: &mut Vec<String>) {
        if let Some(entry) = self.entry(key) {
            left_out.push(unmodelled_key(entry, why));
        }
    }

    /// Reports one value of a list.
    pub fn report_value(&self, key: &str, value: &str, why: &str, left_out: &mut Vec<String>) {
        left_out.push(format!("{}: {key} = {value}: {why}", self.place(key).shown()));
    }

    /// Reports keys that were not read.
    pub fn left_out(&self, left_out: &mut Vec<String>) {
        let taken = self.taken.borrow();
        let rest = self.block.entries.iter().zip(taken.iter()).filter(|(_, taken)| !**taken);
        left_out.extend(rest.map(|(entry, _)| unmodelled_key(entry, "not known here")));
    }
}

fn unmodelled_key(entry: &Entry, why: &str) -> String {
    let value = match &entry.value {
        Value::Word(word) => word.as_str(),
        Value::List(_) => "[...]",
        Value::Block(_) => "{...}",
    };
    format!("{}: {} = {value}: {why}", entry.place.shown(), entry.key)
}

fn number(entry: &Entry, value: &Value) -> Result<f64, ImportError> {
    let Value::Word(word) = value else {
        return Err(ImportError::new(&entry.place, &format!("{} = a list or block", entry.key), "a number"));
    };
    let hexadecimal = word.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let decimal = || word.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = hexadecimal.map(f64::from).or_else(decimal);
    number.ok_or_else(|| ImportError::new(&entry.place, &format!("{} = \"{word}\"", entry.key), "a number"))
}
