//! Rules for text: clean lines, words that must not ship, links that resolve, decisions in order.

use std::collections::BTreeSet;

use crate::{File, Finding};

/// No tabs, no spaces at a line's end, one line feed at the file's end.
pub fn no_stray_whitespace(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ours = |file: &&File| !file.path.starts_with("third_party/");
    for file in files.iter().filter(|file| file.is("rs") || file.is("md") || file.is("toml")).filter(ours) {
        for (number, line) in file.text.split('\n').enumerate() {
            if line.contains('\t') {
                findings.push(file.finding(number + 1, "a tab", "spaces"));
            }
            if line.ends_with(|last: char| last.is_whitespace()) {
                findings.push(file.finding(number + 1, "white space at the end of the line", "none"));
            }
        }
        if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
            findings.push(file.finding(0, "no line feed or several at the end", "one"));
        }
    }
    findings
}

/// Width of a comment, in characters.
const WIDTH: usize = 120;

/// Comments are no wider than that, except for tables and words that cannot be divided: rustfmt leaves them as they
/// are.
pub fn comments_are_narrow(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDTH) {
            let Some(text) = line.trim_start().strip_prefix("//") else { continue };
            let text = text.trim_start_matches(['/', '!']).trim_start();
            if text.contains(' ') && !text.starts_with('|') {
                let found = format!("a comment of {} characters", line.chars().count());
                findings.push(file.finding(number + 1, found, format!("at most {WIDTH}")));
            }
        }
    }
    findings
}

/// Spelled in halves, so that this file passes: hosts of package registries, which a mirror must be able
/// to replace, and paths of the development machine.
const UNSHIPPABLE: [&str; 12] = [
    concat!("crates", ".io"),
    concat!("docs", ".rs/"),
    concat!("lib", ".rs/"),
    concat!("npmjs", ".com"),
    concat!("npmjs", ".org"),
    concat!("pypi", ".org"),
    concat!("proxy.", "golang.org"),
    concat!("static.", "rust-lang.org"),
    concat!("deb.", "debian.org"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
];

/// None of these words. A `Cargo.lock` is cargo's own and names the registry on every line.
pub fn no_unshippable_words(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.ends_with("Cargo.lock")) {
        for (number, line) in file.text.lines().enumerate() {
            for word in UNSHIPPABLE.iter().filter(|word| line.contains(**word)) {
                findings.push(file.finding(number + 1, format!("`{word}`"), "nothing of the kind"));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` and `![text](target)`, each with its line, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every other piece between back-ticks is code.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        for after in prose.join("`").split("](").skip(1) {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            found.push((number + 1, target.to_owned()));
        }
    }
    found
}

/// `target` as seen from the file at `from`, without `.` and `..`. None if it leaves the checkout.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Every relative link in a document names a tracked file or folder.
pub fn links_resolve(files: &[File]) -> Vec<Finding> {
    let mut there: BTreeSet<&str> = BTreeSet::from([""]);
    for file in files {
        there.insert(&file.path);
        there.extend(file.path.match_indices('/').map(|(at, _)| &file.path[..at]));
    }
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        for (line, target) in links(&file.text) {
            let path = target.split('#').next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") || path.is_empty() {
                continue;
            }
            let resolved = resolve(&file.path, path);
            if !resolved.is_some_and(|path| there.contains(path.as_str())) {
                findings.push(file.finding(
                    line,
                    format!("a link to `{target}`"),
                    "a tracked file or folder",
                ));
            }
        }
    }
    findings
}

/// Paths in code on a page, `` `crates/...` `` and the like, are tracked files or folders.
pub fn named_paths_exist(files: &[File]) -> Vec<Finding> {
    const ROOTS: [&str; 5] = ["crates/", "docs/", "scripts/", "tests/", "third_party/"];
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        for (number, line) in file.text.lines().enumerate() {
            for code in line.split('`').skip(1).step_by(2) {
                let pattern = code.contains(|each: char| each.is_whitespace() || "*<".contains(each));
                if pattern || !ROOTS.iter().any(|root| code.starts_with(root)) {
                    continue;
                }
                let folder = format!("{}/", code.trim_end_matches('/'));
                if !files.iter().any(|file| file.path == code || file.path.starts_with(&folder)) {
                    findings.push(file.finding(number + 1, format!("`{code}`"), "a tracked file or folder"));
                }
            }
        }
    }
    findings
}

/// `docs/decisions/NNNN-name.md`, counted from 0001, each number once.
pub fn decisions_are_numbered(files: &[File]) -> Vec<Finding> {
    let decisions = files.iter().filter_map(|file| Some((file, file.path.strip_prefix("docs/decisions/")?)));
    let mut named: Vec<(&File, &str)> = decisions.collect();
    named.sort_by_key(|(_, name)| *name);
    let mut findings = Vec::new();
    for (at, (file, name)) in named.into_iter().enumerate() {
        let expected = format!("{:04}-", at + 1);
        if !name.starts_with(&expected) || !file.is("md") {
            findings.push(file.finding(0, format!("`{name}`"), format!("`{expected}...md`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_whitespace_is_found() {
        let found = no_stray_whitespace(&[File::of("a.md", "a \n\tb\nc")]);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(no_stray_whitespace(&[File::of("a.toml", "a\n\n")]).len(), 1);
        assert!(no_stray_whitespace(&[File::of("a.rs", "a\n\nb\n"), File::of("Makefile", "\ta")]).is_empty());
    }

    #[test]
    fn a_wide_comment_is_found() {
        let wide = "long words ".repeat(11);
        let of = |text: &str| comments_are_narrow(&[File::of("a.rs", text)]).len();
        assert_eq!(of(&format!("//! {wide}\n    // {wide}\n")), 2);
        assert_eq!(of(&format!("let a = \"{wide}\";\n//! | {wide} |\n/// {}\n", wide.replace(' ', "-"))), 0);
    }

    #[test]
    fn unshippable_words_are_found() {
        for word in UNSHIPPABLE {
            let text = format!("a\nb {word} c\n");
            let found = no_unshippable_words(&[File::of("a/b.html", &text), File::of("Cargo.lock", &text)]);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].line, 2);
        }
    }

    #[test]
    fn dead_links_are_found_and_live_ones_are_not() {
        let text = "[a](../b.md#c) [b](nowhere.md) [c](/docs)\n```\n[d](e)\n```\n`[f](g)` [h](mailto:i) [j](#k) ![l](x/m.svg)\n[n](../../out)\n";
        let files = [File::of("docs/a.md", text), File::of("b.md", ""), File::of("docs/x/m.svg", "")];
        let found: Vec<(usize, String)> =
            links_resolve(&files).into_iter().map(|finding| (finding.line, finding.found)).collect();
        let expected = [(1, "nowhere.md"), (1, "/docs"), (6, "../../out")];
        assert_eq!(found, expected.map(|(line, target)| (line, format!("a link to `{target}`"))));
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        let text = "`crates/a.rs` `crates/b/` `crates/*/c` `data/d`\n`crates/gone.rs`\n";
        let files = [File::of("a.md", text), File::of("crates/a.rs", ""), File::of("crates/b/c.rs", "")];
        let found = named_paths_exist(&files);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_gap_and_a_double_in_the_decisions_are_found() {
        let named = |names: &[&str]| {
            let files: Vec<File> =
                names.iter().map(|name| File::of(&format!("docs/decisions/{name}"), "")).collect();
            decisions_are_numbered(&files).into_iter().map(|finding| finding.found).collect::<Vec<_>>()
        };
        assert_eq!(named(&["0002-b.md", "0001-a.md"]), [""; 0]);
        assert_eq!(named(&["0001-a.md", "0003-c.md"]), ["`0003-c.md`"]);
        assert_eq!(named(&["0001-a.md", "0001-b.md"]), ["`0001-b.md`"]);
        assert_eq!(named(&["0001-a.txt"]), ["`0001-a.txt`"]);
    }
}
