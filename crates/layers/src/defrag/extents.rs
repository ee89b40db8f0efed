//! A map of files: a line for each, with its path and its blocks in the order of the file. Any text is such a map, or
//! an error with the line, what was found and what was expected.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::Refused;

/// The most bytes of a map: a line of a few extents for each of a million files.
pub const MOST_BYTES: u64 = 256 << 20;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its blocks: numbers within the file system.
    pub blocks: Vec<RangeInclusive<u64>>,
}

/// Reads a map. Lines are `PATH: 34-37 12 90-91`; empty ones, and those that begin with `#`, are skipped. Blocks are
/// numbers below `blocks`.
///
/// # Errors
/// The first line that is none of these.
pub fn parse(text: &str, blocks: u64) -> Result<Vec<File>, Refused> {
    let mut files = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = |found: &str, expected: &str| {
            let found: String = found.chars().take(80).collect();
            Refused::new("extents", format!("line {number}: '{found}'"), expected)
        };
        let Some((path, list)) = line.rsplit_once(':') else {
            return Err(refused(line, "a path, a colon, and blocks as in 34-37 12"));
        };
        let block = |word: &str| {
            let block = word.parse().map_err(|_| refused(word, "a number of a block, or two as in 34-37"))?;
            if block < blocks { Ok(block) } else { Err(refused(word, &format!("a block below {blocks}"))) }
        };
        let mut file = File { path: path.to_owned(), blocks: Vec::new() };
        for word in list.split_whitespace() {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last): (u64, u64) = (block(first)?, block(last)?);
            if first > last {
                return Err(refused(word, "the lower block first"));
            }
            match file.blocks.last_mut().filter(|run| *run.end() + 1 == first) {
                Some(run) => *run = *run.start()..=last,
                None => file.blocks.push(first..=last),
            }
        }
        files.push(file);
    }
    Ok(files)
}

/// The units of fragmented files, file by file, in the order of each; as many files as have room in `most` units. A
/// unit has `unit` sectors, a block `block`, and the first block is at sector `start`.
pub fn arranged(files: &[File], (block, start, unit): (u64, u64, u64), most: u32) -> Vec<u32> {
    let (mut all, mut taken) = (Vec::new(), BTreeSet::new());
    for file in files {
        let of = |run: &RangeInclusive<u64>| {
            let [first, end] = [*run.start(), run.end() + 1].map(|block_number| start + block_number * block);
            first / unit..end.div_ceil(unit)
        };
        let runs: Vec<_> = file.blocks.iter().map(of).collect();
        let room = u64::from(most) - all.len() as u64;
        let is_fragmented =
            runs.windows(2).any(|two| two[0].end != two[1].start && two[0].end != two[1].start + 1);
        let mut units = 0_u64;
        let fits = runs.iter().all(|run| {
            units = units.saturating_add(run.end - run.start);
            units <= room
        });
        if is_fragmented && fits {
            // A unit is in one place: that of the first file with a block in it.
            all.extend(runs.into_iter().flatten().map(|unit| unit as u32).filter(|unit| taken.insert(*unit)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_lines_with_a_path_and_blocks() {
        let text = "# a file system\n/a: 34-37 38 12\n\n/b c:d: 7\n/empty:\n";
        let files = parse(text, 100).unwrap();
        let blocks: Vec<_> = files.iter().map(|file| (&file.path[..], file.blocks.clone())).collect();
        assert_eq!(blocks, [("/a", vec![34..=38, 12..=12]), ("/b c:d", vec![7..=7]), ("/empty", vec![])]);
        for (text, found) in [
            ("a: 1\nb", "line 2: 'b', expected a path, a colon"),
            ("a: x", "line 1: 'x', expected a number of a block"),
            ("a: 3-", "line 1: '', expected a number of a block"),
            ("a: 100", "line 1: '100', expected a block below 100"),
            ("a: 4-3", "line 1: '4-3', expected the lower block first"),
        ] {
            let error = parse(text, 100).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
    }

    #[test]
    fn files_in_pieces_are_put_in_order_and_others_stay() {
        let files = parse("/whole: 0-9\n/large: 50-90 10\n/two: 30 20-21\n/also: 21 40", 100).unwrap();
        assert_eq!(arranged(&files, (8, 0, 8), 5), [30, 20, 21, 40], "a large one has no room");
        assert_eq!(arranged(&files[2..3], (8, 16, 8), 5), [32, 22, 23], "of a partition");
        assert_eq!(arranged(&files[2..3], (8, 0, 16), 5), [15, 10], "in larger units");
        assert!(arranged(&files[2..], (8, 0, 8), 0).is_empty());
    }
}
