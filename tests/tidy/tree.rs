//! Rules for the tree: what must lie beside what, and how large it may be.

use std::collections::BTreeSet;

use crate::{File, Finding};

/// All of `data/` together, in bytes: a clone stays quick.
const DATA_BYTES: u64 = 4 << 20;

/// A drive's figures come from somewhere: a `source` that is not empty.
pub fn drives_name_their_sources(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("drives/") && file.is("toml")) {
        let mut sources = 0;
        for (number, line) in file.text.lines().enumerate() {
            let Some(value) = line.trim_start().strip_prefix("source") else { continue };
            let Some(value) = value.trim_start().strip_prefix('=') else { continue };
            sources += 1;
            if matches!(value.trim(), "\"\"" | "''" | "[]") {
                findings.push(file.finding(number + 1, "an empty source", "where the figures come from"));
            }
        }
        if sources == 0 {
            findings.push(file.finding(0, "no `source`", "`source = \"where the figures come from\"`"));
        }
    }
    findings
}

/// A layer's folder says what the layer does.
pub fn layers_have_a_readme(files: &[File]) -> Vec<Finding> {
    let inside = files.iter().filter_map(|file| file.path.strip_prefix("crates/layers/src/"));
    let folders: BTreeSet<&str> =
        inside.filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
    let mut findings = Vec::new();
    for folder in folders {
        let path = format!("crates/layers/src/{folder}/README.md");
        if !files.iter().any(|file| file.path == path) {
            let expected =
                "what the layer does, its paper, its options and a volume file that works".to_owned();
            findings.push(Finding { path, line: 0, found: "nothing".to_owned(), expected });
        }
    }
    findings
}

/// Under 4 MB of traces.
pub fn data_is_small(files: &[File]) -> Vec<Finding> {
    let data: Vec<&File> = files.iter().filter(|file| file.path.starts_with("data/")).collect();
    let bytes: u64 = data.iter().map(|file| file.bytes).sum();
    let largest = data.iter().max_by_key(|file| file.bytes);
    let large = largest.filter(|_| bytes > DATA_BYTES);
    let found = format!("{bytes} bytes in data/ together, of which this is the largest");
    large.map(|file| file.finding(0, found, format!("at most {DATA_BYTES}"))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_without_a_source_is_found() {
        let rule = |text: &str| drives_name_their_sources(&[File::of("drives/a.toml", text)]).len();
        assert_eq!(rule("rpm = 7200\nsource_of_power = \"a plug\"\n"), 1);
        assert_eq!(rule("source = \"\"\n"), 1);
        assert_eq!(rule("[seek]\nsource = \"the data sheet, page 3\"\n"), 0);
    }

    #[test]
    fn a_layer_without_a_readme_is_found() {
        let mut files =
            vec![File::of("crates/layers/src/lib.rs", ""), File::of("crates/layers/src/borg/map.rs", "")];
        assert_eq!(layers_have_a_readme(&files).len(), 1);
        files.push(File::of("crates/layers/src/borg/README.md", ""));
        assert!(layers_have_a_readme(&files).is_empty());
    }

    #[test]
    fn too_much_data_is_found() {
        let mut file = File::of("data/a.gz", "");
        file.bytes = DATA_BYTES;
        let mut files = vec![file, File::of("data/b", "")];
        assert!(data_is_small(&files).is_empty());
        files[1].bytes = 1;
        assert_eq!(data_is_small(&files)[0].path, "data/a.gz");
    }
}
