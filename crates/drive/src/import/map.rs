//! `dm_layout_g2`: a file lists the place of each run of sectors, and zones have the skews.
//!
//! The file's first two lines are for people, the third has the numbers of cylinders and heads; then, line by line,
//! `lbn N --> cyl C, head H, sect S, seqcnt K` is K + 1 sectors (K, if the word is another one). Whatever follows is
//! known from the places that are not there.

use std::path::Path;

use super::ImportError;
use super::language::{self, Block, Place};
use super::reader::Reader;
use super::tracks::{Stretch, laid_out};
use super::zones::{Laid, in_revolutions, skew};
use crate::disk::layout::Position;
use crate::spec::Zone;

/// The layout of a `dm_layout_g2` block; `root` is the folder of the first file.
pub fn mapped(
    layout: &Block,
    heads: u32,
    root: &Path,
    left_out: &mut Vec<String>,
) -> Result<Laid, ImportError> {
    let reader = Reader::new(layout);
    let key = "Layout Map File";
    let Some(file) = reader.file(key, root)? else {
        return Err(reader.wrong(key, "none", "the name of a file"));
    };
    let mut zones: Vec<Zone> = Vec::new();
    for block in reader.blocks("Zones")? {
        let reader = Reader::new(block);
        let free = zones.last().map_or(0, |zone| zone.first_cylinder.unwrap_or(0) + zone.cylinders);
        zones.push(one_zone(&reader, free, left_out)?);
        reader.left_out(left_out);
    }
    let place = Place { file, line: 1 };
    let stretches = stretches(&place.file, &reader.place(key))?;
    let (layout, zones) = laid_out(&stretches, &zones, heads)
        .map_err(|(found, expected)| ImportError::new(&place, &found, expected))?;
    reader.left_out(left_out);
    Ok(Laid { layout, zones, places: vec![("zone".to_owned(), place)], most: None })
}

/// A zone; cylinders before `free` belong to others.
fn one_zone(reader: &Reader, free: u32, left_out: &mut Vec<String>) -> Result<Zone, ImportError> {
    let key = "First cylinder number";
    let (first, last) = (reader.needed_whole(key)?, reader.needed_whole("Last cylinder number")?);
    if first < free || last < first {
        let expected = format!("{free} or more, and no more than the last one, {last}");
        return Err(reader.wrong(key, &first.to_string(), &expected));
    }
    let sectors_per_track = reader.needed_whole("Blocks per track")?;
    if sectors_per_track == 0 {
        return Err(reader.wrong("Blocks per track", "0", "1 or more"));
    }
    let by_turn = in_revolutions(reader)?.unwrap_or(false);
    let mut skew = |key: &str| skew(reader, key, sectors_per_track, by_turn, left_out);
    let zone = Zone {
        first_cylinder: Some(first),
        cylinders: (last - first).saturating_add(1),
        sectors_per_track,
        track_skew: skew("Skew for track switch")?,
        cylinder_skew: skew("Skew for cylinder switch")?,
        offset: skew("Zone Skew")?,
        ..Zone::default()
    };
    // Known from the file of places.
    reader.ignore(&["First LBN", "Last LBN"]);
    Ok(zone)
}

/// The lines of a file of places.
fn stretches(file: &Path, named: &Place) -> Result<Vec<Stretch>, ImportError> {
    let text = language::load(file, Some(named))?;
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut next = 0;
    for (number, line) in text.lines().enumerate().skip(3) {
        if !line.trim_start().starts_with("lbn") {
            break;
        }
        let place = Place { file: file.to_owned(), line: number + 1 };
        let wrong = |expected: &str| ImportError::new(&place, &format!("\"{}\"", line.trim()), expected);
        let words: Vec<&str> = line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
        let [_, lba, _, _, cylinder, _, head, _, sector, word, count] = words[..] else {
            return Err(wrong("lbn N --> cyl C, head H, sect S, seqcnt K"));
        };
        let whole = |word: &str| word.parse::<u32>().map(u64::from).map_err(|_| wrong("whole numbers"));
        let sectors = whole(count)? + u64::from(word == "seqcnt");
        let at = Position { cylinder: whole(cylinder)?, head: whole(head)?, sector: whole(sector)? };
        if whole(lba)? != next {
            return Err(wrong(&format!("lbn {next}, behind the line before")));
        }
        if sectors > 0 {
            stretches.push(Stretch { lba: next, sectors, at });
        }
        next += sectors;
    }
    Ok(stretches)
}
