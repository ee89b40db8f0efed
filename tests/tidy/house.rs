//! The house rules that no compiler checks, over every file that git tracks. Each rule is a function
//! from the files to its violations; a unit test beside each gives it a bad example, since a check
//! that cannot fail is useless.

mod documents;
mod left_behind;
mod mutants;
mod rust_files;
mod source;
mod tree;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tracked file. Files that are not text have no text.
pub struct File {
    /// From the root of the checkout, with `/`.
    pub path: String,
    /// Empty for files that are not UTF-8.
    pub text: String,
    /// Size on disk.
    pub bytes: u64,
}

impl File {
    /// An example file.
    #[cfg(test)]
    pub fn of(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned(), bytes: text.len() as u64 }
    }

    /// Whether the name ends in `.extension`.
    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// A violation in this file.
    pub fn finding(&self, line: usize, found: impl Into<String>, expected: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, found: found.into(), expected: expected.into() }
    }
}

/// A violation of a rule, with its place.
#[derive(Debug, PartialEq)]
pub struct Finding {
    /// From the root of the checkout.
    pub path: String,
    /// From 1; 0 is the file as a whole.
    pub line: usize,
    /// Found text.
    pub found: String,
    /// Expected text.
    pub expected: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: found {}; expected {}", self.path, self.line, self.found, self.expected)
    }
}

/// A rule.
type Rule = fn(&[File]) -> Vec<Finding>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/tidy has a grandparent").to_owned()
}

/// All files that git tracks and that exist.
fn tracked() -> Vec<File> {
    let root = root();
    let listing = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(&root)
        .output()
        .expect("the house rules are checked on what git tracks: git must be installed");
    assert!(listing.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listing.stderr));
    let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let mut files = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // Removed, but not yet committed.
        let Ok(bytes) = std::fs::read(root.join(name)) else { continue };
        let size = bytes.len() as u64;
        files.push(File {
            path: name.to_owned(),
            text: String::from_utf8(bytes).unwrap_or_default(),
            bytes: size,
        });
    }
    assert!(files.len() > 20, "only {} tracked files found: is this a checkout?", files.len());
    files
}

fn hold(rules: &[Rule]) {
    let files = tracked();
    let findings: Vec<String> =
        rules.iter().flat_map(|rule| rule(&files)).map(|each| each.to_string()).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn rust_files_are_short_and_finished() {
    hold(&[
        rust_files::short_files,
        rust_files::short_functions,
        rust_files::start_with_a_purpose,
        rust_files::finished,
        rust_files::no_ignored_tests,
        rust_files::zeroes_are_writes,
    ]);
}

#[test]
fn text_is_clean() {
    hold(&[documents::no_stray_whitespace, documents::no_unshippable_words, documents::comments_are_narrow]);
}

#[test]
fn words_are_those_of_the_field() {
    hold(&[words::names_of_the_field, words::phrases_of_the_field]);
}

#[test]
fn documents_lead_somewhere() {
    hold(&[documents::links_resolve, documents::named_paths_exist, documents::decisions_are_numbered]);
}

#[test]
fn the_list_of_mutants_is_that_of_the_code() {
    hold(&[mutants::listed_and_used]);
}

#[test]
fn the_tree_is_complete() {
    hold(&[
        tree::dependencies_are_decided,
        tree::drives_name_their_sources,
        tree::layers_have_a_readme,
        tree::data_is_small,
        tree::nothing_stray_in_the_root,
        tree::the_fuzzer_knows_our_crates,
    ]);
}
