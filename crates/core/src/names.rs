//! Suggestions for misspelt names and keys: the one rule of all error messages; and names that are given at run time.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static INTERNED: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// A name that is kept for ever, once for each thread: one that comes from outside, where those of the code are
/// constants.
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

/// Beginnings shorter than this, in letters, stand for no name.
const LEAST_BEGINNING: usize = 2;
/// Most names suggested.
const MOST: usize = 6;

/// End of an error message about an unknown name: `; perhaps NAME`, or nothing if no known name is near. Where the name
/// is the beginning of known ones, these are meant.
pub fn perhaps<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let mut begun = begun(found, &known);
    match begun.len() {
        0 => nearest(found, known).map_or_else(String::new, |name| format!("; perhaps {name}")),
        1..=MOST => format!("; perhaps {}", begun.join(", ")),
        all => {
            begun.truncate(MOST);
            format!("; perhaps {} or {} more that begin so", begun.join(", "), all - MOST)
        }
    }
}

/// The known names that begin with this one and are longer, whatever the case of letters; each once.
fn begun<'a>(found: &str, known: &[&'a str]) -> Vec<&'a str> {
    let found = found.trim().to_lowercase();
    if found.chars().count() < LEAST_BEGINNING {
        return Vec::new();
    }
    let longer = |name: &str| name.len() > found.len() && name.to_lowercase().starts_with(&found);
    let all: BTreeSet<&str> = known.iter().copied().filter(|name| longer(name)).collect();
    all.into_iter().collect()
}

/// The known name that is nearest to a misspelt one, whatever the case of its letters; `None` if none is near.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.trim().to_lowercase();
    let steps = known.into_iter().map(|name| (distance(&found, &name.to_lowercase()), name));
    let (steps, name) = steps.min_by_key(|(steps, _)| *steps)?;
    // A name that shares no letter is no suggestion for a short one.
    (steps <= 1 + found.len() / 3 && steps < found.len()).then_some(name)
}

/// The key that an error of a TOML file's reader perhaps means. Its last line has the unknown key in backticks, and
/// after "expected" the known ones; the lines before quote the file.
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

/// Letters to be inserted, removed or changed, and neighbours to be exchanged, on the way from one word to the other;
/// no letter is touched twice.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    // Row `line` has the distances of the first `line` letters to the first letters of the other word.
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for line in 1..=from.len() {
        let mut row = vec![line; to.len() + 1];
        for column in 1..=to.len() {
            let changed = rows[line - 1][column - 1] + usize::from(from[line - 1] != to[column - 1]);
            row[column] = changed.min(rows[line - 1][column] + 1).min(row[column - 1] + 1);
            let crosswise = line > 1
                && column > 1
                && from[line - 1] == to[column - 2]
                && from[line - 2] == to[column - 1];
            if crosswise {
                row[column] = row[column].min(rows[line - 2][column - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
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
    fn exchanged_letters_are_one_step() {
        assert_eq!(nearest("stpf", ["fcfs", "sstf", "sptf", "look"]), Some("sptf"));
        for (from, to, steps) in
            [("ab", "ba", 1), ("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(from, to), steps, "{from} {to}");
        }
    }

    #[test]
    fn the_beginning_of_names_stands_for_them() {
        let known = ["wd2500aaks", "wd2500ks", "wd-re3-1tb", "wd2500ks"];
        assert_eq!(perhaps("WD2500", known), "; perhaps wd2500aaks, wd2500ks");
        assert_eq!(perhaps("wd-re", known), "; perhaps wd-re3-1tb");
        assert_eq!(perhaps("w", known), "");
        let many: Vec<String> = (10..20).map(|n| format!("sweep{n}")).collect();
        let text = perhaps("sweep", many.iter().map(String::as_str));
        assert_eq!(
            text,
            "; perhaps sweep10, sweep11, sweep12, sweep13, sweep14, sweep15 or 4 more that begin so"
        );
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
