//! Suggestions for misspelt keys.

/// The word among those in backticks in `expected` that is the nearest to the first in backticks in `found`; `None` if
/// none is near.
pub fn nearest<'a>(found: &str, expected: &'a str) -> Option<&'a str> {
    let wrong = words(found).next()?;
    let steps = |word: &&str| distance(wrong, word);
    words(expected).min_by_key(steps).filter(|word| steps(word) <= 1 + wrong.len() / 3)
}

/// Text between backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Letters to be put in, left out or changed on the way from one word to the other.
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
    fn the_nearest_word_is_meant_if_it_is_near() {
        let known = "one of `file`, `ram`, `cached`, `read_only`";
        for (wrong, meant) in
            [("flie", Some("file")), ("files", Some("file")), ("readonly", Some("read_only")), ("disk", None)]
        {
            assert_eq!(nearest(&format!("unknown field `{wrong}`"), known), meant, "{wrong}");
        }
    }
}
