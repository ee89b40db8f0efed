//! Suggestions for misspelt names and keys: the one rule of all error messages; and names that are given at run time.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static INTERNED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// A name that is kept for ever, once for each thread: one that comes from outside, where those of the code are constants.
pub fn interned(name: &str) -> &'static str {
    INTERNED.with_borrow_mut(|known| {
        if let Some(name) = known.get(name) {
            return *name;
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        known.insert(name);
        name
    })
}

/// End of an error message about an unknown name: `; perhaps NAME`, or nothing if no known name is near.
pub fn perhaps<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(found, known).map_or_else(String::new, |name| format!("; perhaps {name}"))
}

/// The known name that is nearest to a misspelt one, whatever the case of its letters; `None` if none is near.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.trim().to_lowercase();
    let steps = known.into_iter().map(|name| (distance(&found, &name.to_lowercase()), name));
    let (steps, name) = steps.min_by_key(|(steps, _)| *steps)?;
    // A name that shares no letter is no suggestion for a short one.
    (steps <= 1 + found.len() / 3 && steps < found.len()).then_some(name)
}

/// The key that an error of a TOML file's reader perhaps means. Its last line has the unknown key in backticks, and after
/// "expected" the known ones; the lines before quote the file.
pub fn nearest_key(error: &str) -> Option<&str> {
    let (found, known) = error.trim_end().split_once("expected")?;
    nearest_quoted(found.lines().next_back()?, known)
}

/// The word among those in backticks in `expected` that is the nearest to the first in backticks in `found`.
pub fn nearest_quoted<'a>(found: &str, expected: &'a str) -> Option<&'a str> {
    nearest(quoted(found).next()?, quoted(expected))
}

/// Text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Letters to be inserted, removed or changed on the way from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant_if_it_is_near() {
        let known = ["file", "ram", "cached", "read_only"];
        for (wrong, meant) in [
            ("flie", "; perhaps file"),
            ("files", "; perhaps file"),
            ("readonly", "; perhaps read_only"),
            ("RAM", "; perhaps ram"),
            ("disk", ""),
            ("x", ""),
            ("", ""),
        ] {
            assert_eq!(perhaps(wrong, known), meant, "{wrong}");
        }
        assert_eq!(nearest("file", []), None);
    }

    #[test]
    fn a_name_is_kept_once() {
        let (first, again) = (interned(&"mine".repeat(2)), interned("minemine"));
        assert!(std::ptr::eq(first, again));
        assert_eq!(interned(""), "");
    }

    #[test]
    fn keys_are_those_in_backticks() {
        let error = "1 | `x` = 1\nunknown field `flie`, expected one of `file`, `ram`";
        assert_eq!(nearest_key(error), Some("file"));
        assert_eq!(nearest_key("unknown field `disk`, expected `file` or `ram`"), None);
        assert_eq!(nearest_key("expected a table"), None);
    }
}
