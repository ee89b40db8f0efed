//! Rules for the tree: files that must be together, and their sizes.

use std::collections::BTreeSet;

use crate::{File, Finding};

/// Limit of all files in `data/` together, in bytes, so that a clone is quick.
const DATA_BYTES: u64 = 4 << 20;
/// The reasons for dependencies.
const DEPENDENCIES: &str = "docs/decisions/0003-dependencies.md";

/// A drive's figures have sources: a table `[source]` with a text for each figure, none empty.
pub fn drives_name_their_sources(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("drives/") && file.is("toml")) {
        let mut inside = false;
        let mut sources = 0;
        for (number, line) in file.text.lines().enumerate() {
            if line.starts_with('[') {
                inside = line.trim_end() == "[source]";
            }
            let Some((figure, value)) = line.split_once('=').filter(|_| inside) else { continue };
            sources += 1;
            if matches!(value.trim(), "\"\"" | "''" | "[]") {
                let found = format!("no source for `{}`", figure.trim());
                findings.push(file.finding(number + 1, found, "where the figure comes from"));
            }
        }
        if sources == 0 {
            findings.push(file.finding(0, "no `[source]`", "that table, with where each figure comes from"));
        }
    }
    findings
}

/// A layer's folder has a README. One that holds only tests is no layer's.
pub fn layers_have_a_readme(files: &[File]) -> Vec<Finding> {
    let inside = files.iter().filter_map(|file| file.path.strip_prefix("crates/layers/src/"));
    let is_a_layers = |(_, file): &(&str, &str)| *file != "tests.rs";
    let folders: BTreeSet<&str> = inside
        .filter_map(|path| path.split_once('/'))
        .filter(is_a_layers)
        .map(|(folder, _)| folder)
        .collect();
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

/// Every external crate has its line in the decision on dependencies.
pub fn dependencies_are_decided(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path);
    let Some(manifest) = text("Cargo.toml") else { return Vec::new() };
    let decided = text(DEPENDENCIES).map_or("", |file| &file.text);
    let mut findings = Vec::new();
    let mut inside = false;
    for (number, line) in manifest.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        }
        let Some((name, value)) = line.split_once('=').filter(|_| inside) else { continue };
        let name = name.trim();
        if !value.contains("path =") && !decided.contains(&format!("`{name}`")) {
            let expected = format!("a line in {DEPENDENCIES} that says why");
            findings.push(manifest.finding(number + 1, format!("the dependency `{name}`"), expected));
        }
    }
    findings
}

/// Files and folders of the root, which a visitor sees first.
const ROOT: [&str; 27] = [
    ".ci",
    ".config",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "PROMISES.md",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "crates",
    "data",
    "docs",
    "drives",
    "examples",
    "fuzz",
    "packaging",
    "rustfmt.toml",
    "scripts",
    "tests",
    "third_party",
];

/// `fuzz` is a workspace of its own, with a lock file of its own: each crate of ours there has the crates of ours that
/// it depends on, else `make fuzz` does not build.
pub fn the_fuzzer_knows_our_crates(files: &[File]) -> Vec<Finding> {
    let Some(lock) = files.iter().find(|file| file.path == "fuzz/Cargo.lock") else { return Vec::new() };
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let named = manifest.text.lines().find_map(|line| line.strip_prefix("name = "));
        let Some(name) = named else { continue };
        let locked =
            lock.text.split("[[package]]").find(|package| package.contains(&format!("\nname = {name}\n")));
        let (Some(locked), Some((_, rest))) = (locked, manifest.text.split_once("\n[dependencies]\n")) else {
            continue;
        };
        let ours = rest
            .lines()
            .take_while(|line| !line.starts_with('['))
            .filter(|line| line.starts_with("seekless-"));
        for dependency in ours.filter(|line| !line.contains("optional")) {
            let dependency = dependency.split(['.', ' ']).next().unwrap_or_default();
            if !locked.contains(&format!("\"{dependency}\"")) {
                let found = format!("{name} without {dependency}");
                findings.push(lock.finding(
                    0,
                    found,
                    "it: cargo update --workspace --manifest-path fuzz/Cargo.toml",
                ));
            }
        }
    }
    findings
}

/// No other files are in the root.
pub fn nothing_stray_in_the_root(files: &[File]) -> Vec<Finding> {
    let top = |file: &File| file.path.split('/').next().unwrap_or_default().to_owned();
    let stray = files.iter().filter(|file| !ROOT.contains(&top(file).as_str()));
    let expected = "it in a folder, or its name in the list of tests/tidy/tree.rs";
    stray.map(|file| file.finding(0, "something stray in the root", expected)).collect()
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
        assert_eq!(rule("rpm = 7200\nsource = \"hearsay\"\n"), 1);
        assert_eq!(rule("[source]\n[seek]\nkind = \"curve\"\n"), 1);
        assert_eq!(rule("[source]\nrpm = \"\"\n"), 1);
        assert_eq!(rule("[source]\nrpm = \"the data sheet, page 3\"\n[seek]\nname = \"\"\n"), 0);
    }

    #[test]
    fn a_layer_without_a_readme_is_found() {
        let paths = ["lib.rs", "borg/map.rs", "registry/tests.rs"];
        let mut files: Vec<File> =
            paths.iter().map(|path| File::of(&format!("crates/layers/src/{path}"), "")).collect();
        assert_eq!(layers_have_a_readme(&files).len(), 1);
        files.push(File::of("crates/layers/src/borg/README.md", ""));
        assert!(layers_have_a_readme(&files).is_empty());
    }

    #[test]
    fn an_undecided_dependency_is_found() {
        let manifest =
            "[package]\nname = \"a\"\n[workspace.dependencies]\nb = { path = \"b\" }\nc = \"1\"\nd = \"1\"\n";
        let files = [File::of("Cargo.toml", manifest), File::of(DEPENDENCIES, "| `c` | it counts |\n")];
        let found = dependencies_are_decided(&files);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_stray_file_in_the_root_is_found() {
        let files = ["README.md", "crates/a.txt", "NOTES.txt", "drafts/a.md"].map(|path| File::of(path, ""));
        let found: Vec<String> =
            nothing_stray_in_the_root(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["NOTES.txt", "drafts/a.md"]);
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

    #[test]
    fn a_lock_file_without_a_crate_is_found() {
        let lock = "[[package]]\nname = \"seekless-a\"\ndependencies = [\n \"seekless-b\",\n]\n";
        let manifest = |other: &str| {
            format!(
                "[package]\nname = \"seekless-a\"\n\n[dependencies]\nseekless-b.workspace = true\n{other}"
            )
        };
        let found = |other: &str| {
            let files =
                [File::of("fuzz/Cargo.lock", lock), File::of("crates/a/Cargo.toml", &manifest(other))];
            the_fuzzer_knows_our_crates(&files).len()
        };
        assert_eq!((found(""), found("seekless-c.workspace = true\n")), (0, 1));
        assert_eq!(found("[dev-dependencies]\nseekless-c.workspace = true\n"), 0);
    }
}
