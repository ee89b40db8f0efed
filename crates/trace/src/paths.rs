//! The files of a recording: `blktrace` writes one per CPU, `NAME.blktrace.0`, `NAME.blktrace.1` and so on, which users
//! compress one by one.
//!
//! Faults: names of missing files, file names that are not UTF-8 (never part of a recording).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use seekless_core::names;

use crate::compressed;
use crate::error::TraceError;

/// Of two forms of the same file, the earlier one here is read.
const ENDINGS: [&str; 4] = ["", ".xz", ".gz", ".zst"];

/// Expands `paths` into files. A file stands for itself only. The name of a recording (`data/mail` or
/// `data/mail.blktrace` for `data/mail.blktrace.0.xz` etc.) stands for the files of all its CPUs, in order of their
/// numbers. A file named twice is read once.
pub fn expand(paths: &[impl AsRef<Path>]) -> Result<Vec<PathBuf>, TraceError> {
    if paths.is_empty() {
        let expected = "a file or the name of a recording".to_owned();
        return Err(TraceError::Missing { file: PathBuf::from("(nothing named)"), expected });
    }
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let stdin = path == Path::new(compressed::STDIN);
        let found = if stdin {
            vec![path.to_owned()]
        } else if path.is_dir() || !path.exists() {
            recording(path)?
        } else {
            vec![path.to_owned()]
        };
        for file in found {
            if !all.contains(&file) {
                all.push(file);
            }
        }
    }
    Ok(all)
}

fn recording(base: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let missing = || {
        if base.is_dir() {
            return TraceError::Folder { file: base.to_owned() };
        }
        let name = base.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".blktrace").unwrap_or(&name);
        let perhaps = names::perhaps(name, beside(base).iter().map(String::as_str));
        let expected =
            format!("a file, or the files {name}.blktrace.0, {name}.blktrace.1 ... beside it{perhaps}");
        TraceError::Missing { file: base.to_owned(), expected }
    };
    let name = base.file_name().and_then(|name| name.to_str()).ok_or_else(missing)?;
    let name = name.strip_suffix(".blktrace").unwrap_or(name);
    let folder = match base.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = fs::read_dir(folder).map_err(|_| missing())?;
    let mut by_cpu: BTreeMap<u32, (usize, PathBuf)> = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|source| TraceError::Io { file: folder.to_owned(), source })?;
        let file_name = entry.file_name();
        let Some((cpu, ending)) = file_name.to_str().and_then(|file| cpu_of(file, name)) else { continue };
        let found = (ending, base.with_file_name(&file_name));
        by_cpu.entry(cpu).and_modify(|best| *best = found.clone().min(best.clone())).or_insert(found);
    }
    if by_cpu.is_empty() {
        return Err(missing());
    }
    Ok(by_cpu.into_values().map(|(_, file)| file).collect())
}

/// Names of files and recordings in the folder of a missing one.
fn beside(base: &Path) -> BTreeSet<String> {
    let folder = base.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .map(|name| name.split_once(".blktrace.").map_or(name.clone(), |(base, _)| base.to_owned()))
        .collect()
}

/// The names of the recordings that files of single CPUs belong to.
pub(crate) fn recordings(files: &[PathBuf]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in files.iter().filter_map(|file| file.to_str()) {
        let Some((base, rest)) = name.rsplit_once(".blktrace.") else { continue };
        if rest.starts_with(|first: char| first.is_ascii_digit()) && !names.iter().any(|known| known == base)
        {
            names.push(base.to_owned());
        }
    }
    names
}

/// The CPU of `file` if it belongs to the recording `name`, and its ending.
fn cpu_of(file: &str, name: &str) -> Option<(u32, usize)> {
    let number = file.strip_prefix(name)?.strip_prefix(".blktrace.")?;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let (cpu, ending) = number.split_at(digits);
    let ending = ENDINGS.iter().position(|known| *known == ending)?;
    Some((cpu.parse().ok()?, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_recording_are_its_files() {
        assert_eq!(cpu_of("mail.blktrace.0", "mail"), Some((0, 0)));
        assert_eq!(cpu_of("mail.blktrace.12.xz", "mail"), Some((12, 1)));
        for other in
            ["mail.blktrace.x", "mail.blktrace.", "mail2.blktrace.0", "mail.blktrace.0.txt", "mail.json"]
        {
            assert_eq!(cpu_of(other, "mail"), None, "{other}");
        }
        assert_eq!(cpu_of("mail.blktrace.99999999999", "mail"), None);
    }

    #[test]
    fn files_of_single_cpus_belong_to_a_recording() {
        let files =
            ["a/x.blktrace.0", "a/x.blktrace.1.xz", "b/x.blktrace.0", "whole.trace", "-", "y.blktrace.bin"];
        assert_eq!(recordings(&files.map(PathBuf::from)), ["a/x", "b/x"]);
    }

    #[test]
    fn a_folder_is_reported_as_one() {
        let error = expand(&["/"]).unwrap_err().to_string();
        assert_eq!(error, "/: found a folder, expected a file, or the name of a recording");
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_names_expected() {
        let error = expand(&["/nonexistent/mail"]).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/mail") && error.contains("mail.blktrace.0"), "{error}");
    }
}
