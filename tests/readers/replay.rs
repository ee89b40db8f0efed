//! The seeds of fuzzing, and the inputs found before where they are kept, through every reader.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use seekless_readers::{read, seeds};

#[test]
fn every_reader_takes_what_fuzzing_begins_with() {
    let seeds = seeds::all().unwrap();
    assert!(seeds.len() > 60, "{} seeds", seeds.len());
    for (name, input) in &seeds {
        read(name, input);
    }
}

#[test]
fn every_reader_takes_what_fuzzing_has_learnt() {
    let folder = env::var_os("CARGO_TARGET_DIR").map(|folder| Path::new(&folder).join("fuzz/corpus"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        return println!("skipped: nothing was learnt on this machine (make fuzz)");
    };
    let mut names = BTreeMap::new();
    seeds::all().unwrap().into_iter().for_each(|(name, _)| *names.entry(name).or_insert(0) += 1);
    for name in names.keys() {
        let Ok(entries) = fs::read_dir(folder.join(name)) else { continue };
        for entry in entries {
            read(name, &fs::read(entry.unwrap().path()).unwrap());
        }
    }
}
