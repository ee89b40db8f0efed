//! Known bugs: their list agrees with the places in the code.

use crate::{File, Finding};

/// The list.
const LIST: &str = "crates/core/src/mutant.rs";
/// The call for a bug in code.
const ASKS: &str = "mutant::is(\"";

/// The listed bugs, with their lines.
fn listed(list: &File) -> Vec<(usize, &str)> {
    let lines = (1..).zip(list.text.lines());
    let within = lines.skip_while(|(_, line)| !line.starts_with("pub const ALL")).skip(1);
    let within = within.take_while(|(_, line)| !line.starts_with("];"));
    within
        .filter_map(|(number, line)| Some((number, line.trim().strip_prefix('"')?.strip_suffix("\",")?)))
        .collect()
}

/// The bugs that a file calls for, with their lines. A call may be broken over lines.
fn asked(file: &File) -> Vec<(usize, &str)> {
    let name = |(at, _)| {
        let rest: &str = &file.text[at..];
        let name = rest[ASKS.len()..].split('"').next()?;
        Some((file.text[..at].lines().count().max(1), name))
    };
    file.text.match_indices(ASKS).filter_map(name).collect()
}

/// Each bug is listed once, and is somewhere in the code.
pub fn listed_and_used(files: &[File]) -> Vec<Finding> {
    let Some(list) = files.iter().find(|file| file.path == LIST) else { return Vec::new() };
    let listed = listed(list);
    let code = || files.iter().filter(|file| file.is("rs") && file.path.starts_with("crates/"));
    let used: Vec<&str> = code().flat_map(asked).map(|(_, name)| name).collect();
    let unused = listed.iter().filter(|(_, name)| !used.contains(name)).map(|(line, name)| {
        list.finding(*line, format!("the bug '{name}', which no code has"), "one that some code has")
    });
    let unlisted =
        code().flat_map(|file| asked(file).into_iter().map(move |(line, name)| (file, line, name)));
    let unlisted = unlisted
        .filter(|(_, _, name)| listed.iter().filter(|(_, known)| known == name).count() != 1)
        .map(|(file, line, name)| {
            file.finding(line, format!("the bug '{name}'"), format!("one listed once in {LIST}"))
        });
    unused.chain(unlisted).collect()
}

#[test]
fn a_bug_that_is_only_listed_or_only_in_the_code_is_found() {
    let list = File::of(LIST, "pub const ALL: &[&str] = &[\n    \"one\",\n    \"two\",\n];\n");
    let code = File::of("crates/a.rs", "if mutant::is(\"one\") {}\nif mutant::is(\"three\") {}\n");
    let found = listed_and_used(&[list, code]);
    let lines: Vec<_> = found.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
    assert_eq!(lines, [(LIST, 3), ("crates/a.rs", 2)]);
}
