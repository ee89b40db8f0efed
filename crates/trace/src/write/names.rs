//! Names that a format can represent: without field or line separators, of limited length, and unique.

use std::collections::{BTreeMap, BTreeSet};

/// A name without control characters and of at most `most` bytes; `None` if it is already so.
pub fn printable(name: &str, most: usize) -> Option<String> {
    let control = name.contains(char::is_control);
    if !control && name.len() <= most {
        return None;
    }
    let shown: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(cut(&shown, most).to_owned())
}

/// The longest prefix of `name` that fits `most` bytes.
fn cut(name: &str, most: usize) -> &str {
    let end = (0..=most.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// Words that stand for volumes: no white space, at most `most` bytes, each for one volume only.
pub struct Words {
    most: usize,
    of: BTreeMap<u32, String>,
    taken: BTreeSet<String>,
    /// Words that differ from the name: the name, the word.
    changed: Vec<(String, String)>,
}

impl Words {
    /// No words yet.
    pub fn new(most: usize) -> Words {
        Words { most, of: BTreeMap::new(), taken: BTreeSet::new(), changed: Vec::new() }
    }

    /// The word of `device`, if it has one.
    pub fn of(&self, device: u32) -> Option<&str> {
        self.of.get(&device).map(String::as_str)
    }

    /// Assigns a word to `device`, of this `name`.
    pub fn add(&mut self, device: u32, name: &str) {
        let blank = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
        let mut base: String = name.chars().map(blank).collect();
        if base.is_empty() {
            base.push('_');
        }
        let mut word = cut(&base, self.most).to_owned();
        let mut number = 1;
        while !self.taken.insert(word.clone()) {
            number += 1;
            let suffix = format!("~{number}");
            word = format!("{}{suffix}", cut(&base, self.most - suffix.len()));
        }
        if word != name {
            self.changed.push((name.to_owned(), word.clone()));
        }
        self.of.insert(device, word);
    }

    /// Notes about changed names.
    pub fn notes(&self) -> Vec<String> {
        let shown = |name: &str| printable(name, 60).unwrap_or_else(|| name.to_owned());
        let row = |(name, word): &(String, String)| {
            format!("volume \"{}\" is called {} in the file", shown(name), shown(word))
        };
        self.changed.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_words_and_differ() {
        let mut words = Words::new(6);
        for (device, name) in
            ["a b", "a_b", "", "a\nb", "longer name", "longer_too", "/dev"].iter().enumerate()
        {
            words.add(device as u32, name);
        }
        let all: Vec<&str> = (0..7).filter_map(|device| words.of(device)).collect();
        assert_eq!(all, ["a_b", "a_b~2", "_", "a_b~3", "longer", "long~2", "/dev"]);
        assert_eq!(words.notes().len(), 6);
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(printable("git", 3), None);
        assert_eq!(printable("a\tb", 9).as_deref(), Some("a?b"));
        assert_eq!(printable("\u{e9}\u{e9}", 3).as_deref(), Some("\u{e9}"));
    }
}
