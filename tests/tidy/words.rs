//! Rules for words: names and phrases that `docs/words.md` replaced by terms of the field do not come back.

use crate::source::{code_only, comments_only, test_ranges};
use crate::{File, Finding};

/// Lists the former words.
const GLOSSARY: &str = "docs/words.md";

/// Made of headers that are checked where they stand, and of names of edges and bugs.
const GENERATED: &str = "PROMISES.md";

/// Former names of types, as they are declared, public or not.
const TYPES: [&str; 17] = [
    "Told", "Asked", "Said", "Wrong", "Found", "Freed", "Filled", "Limbo", "Legs", "Sight", "Station",
    "Beside", "Outside", "AnyBytes", "Facts", "Home", "Sides",
];

/// Former names of public functions, fields, constants and modules.
const NAMES: [&str; 34] = [
    "told",
    "untold",
    "asked",
    "said",
    "begun",
    "owed",
    "astray",
    "outbox",
    "patience",
    "stand_in",
    "bytewise",
    "legs",
    "sight",
    "lanes",
    "limbo",
    "tending",
    "careless",
    "mending",
    "gathering",
    "confirmed",
    "withdraw",
    "worth",
    "stretch",
    "rests",
    "aside",
    "be_told",
    "be_exact",
    "find_out",
    "untouched",
    "anchor_owed",
    "depart",
    "home_sectors",
    "stands_aside",
    "place_batch",
];

/// Former phrases, in lower case; `*` is any one word.
const PHRASES: [&str; 40] = [
    "whoever",
    "nobody",
    "somebody",
    "for who",
    "who asks",
    "who asked",
    "who waits",
    "is told",
    "are told",
    "was told",
    "were told",
    "told of",
    "so many",
    "the same of",
    "what is * is",
    "what was * is",
    "what is * are",
    "in line",
    "at home",
    "go home",
    "goes home",
    "taken home",
    "brought home",
    "written home",
    "copied home",
    "two homes",
    "of today",
    "let loose",
    "what came of",
    "for want of",
    "taken away",
    "the power goes",
    "tells of",
    "asked of",
    "told that",
    "told why",
    "told how",
    "who has",
    "who wants",
    "as if nothing had been",
];

/// The word that a declaration declares, with its line's visibility: `pub fn told(` is a public `told`.
fn declared(line: &str) -> Option<(bool, &str, &str)> {
    let line = line.trim_start();
    let after = line.strip_prefix("pub");
    let after =
        after.and_then(|rest| if rest.starts_with('(') { Some(rest.split_once(')')?.1) } else { Some(rest) });
    let public = after.is_some_and(|rest| rest.starts_with(' '));
    let mut rest = if public { after?.trim_start() } else { line };
    let word =
        |text: &str| text.find(|each: char| !(each.is_alphanumeric() || each == '_')).unwrap_or(text.len());
    loop {
        let end = word(rest);
        let (first, behind) = rest.split_at(end);
        match first {
            "const" | "async" | "unsafe"
                if behind.trim_start().starts_with("fn ") || behind.starts_with(" unsafe") =>
            {
                rest = behind.trim_start();
            }
            "struct" | "enum" | "trait" | "type" | "fn" | "const" | "static" | "mod" => {
                let name = behind.trim_start();
                return Some((public, first, &name[..word(name)]));
            }
            _ => return (public && behind.starts_with(':')).then_some((public, "field", first)),
        }
    }
}

/// No declaration in `crates/*/src` has a former name.
pub fn names_of_the_field(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ours = |file: &&File| {
        let mut parts = file.path.split('/');
        parts.next() == Some("crates") && parts.nth(1) == Some("src") && file.is("rs")
    };
    for file in files.iter().filter(ours) {
        let code = code_only(&file.text);
        let tests = test_ranges(&code);
        for (number, line) in (1..).zip(code.lines()) {
            let Some((public, kind, name)) = declared(line) else { continue };
            let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
            let former = if is_type { TYPES.contains(&name) } else { public && NAMES.contains(&name) };
            if former && !tests.iter().any(|(from, to)| (from..=to).contains(&&number)) {
                let found = format!("a {kind} called `{name}`");
                findings.push(file.finding(number, found, format!("a term of the field, see {GLOSSARY}")));
            }
        }
    }
    findings
}

fn exempt(path: &str) -> bool {
    path == GLOSSARY || path == GENERATED
}

/// The prose of a file, line by line: comments, or a document without code. None for other files.
fn prose(file: &File) -> Option<Vec<String>> {
    if file.is("rs") {
        return Some(comments_only(&file.text).lines().map(str::to_owned).collect());
    }
    if file.is("md") {
        let mut fenced = false;
        let lines = file.text.lines().map(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            let code = fence || fenced || line.starts_with("    ") || line.starts_with("<!--");
            // Every other piece between back-ticks is code.
            if code { String::new() } else { line.split('`').step_by(2).collect::<Vec<_>>().join(" ") }
        });
        return Some(lines.collect());
    }
    let hashes = file.is("toml") || file.path == "Makefile" || file.path.starts_with("scripts/");
    hashes.then(|| {
        let comment =
            |line: &str| line.split_once('#').map_or(String::new(), |(_, comment)| comment.to_owned());
        file.text.lines().map(comment).collect()
    })
}

/// Whether the words have the phrase in them.
fn has(words: &[&str], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|part| {
        part.iter().zip(&phrase).all(|(word, like)| word == like || (*like == "*" && *word != "."))
    })
}

/// No comment and no document has a former phrase.
pub fn phrases_of_the_field(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !exempt(&file.path) && !file.path.starts_with("third_party/")) {
        for (number, line) in (1..).zip(prose(file).unwrap_or_default()) {
            let line = line.to_lowercase().replace(['.', ',', ':', ';', '(', ')'], " . ");
            let words: Vec<&str> =
                line.split(|each: char| !(each.is_alphanumeric() || "'/.".contains(each))).collect();
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            for phrase in PHRASES.iter().filter(|phrase| has(&words, phrase)) {
                let expected = format!("plain English, see {GLOSSARY}");
                findings.push(file.finding(number, format!("\"{phrase}\""), expected));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(rule: fn(&[File]) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(&[File::of(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_former_name_is_found_where_it_is_declared() {
        let text = "struct Told;\npub fn told(&self) {}\npub(super) outbox: u8,\n    fn asked() {}\nlet told = Told;\npub const fn owed() {}\npub mod astray;\npub told_by: u8,\n";
        assert_eq!(lines_found(names_of_the_field, "crates/a/src/b.rs", text), [1, 2, 3, 6, 7]);
        assert_eq!(lines_found(names_of_the_field, "crates/a/tests/b.rs", text), [0_usize; 0]);
        let tested = "#[cfg(test)]\nmod tests {\n    struct Told;\n}\n";
        assert_eq!(lines_found(names_of_the_field, "crates/a/src/b.rs", tested), [0_usize; 0]);
    }

    #[test]
    fn a_former_phrase_is_found_in_comments_and_documents() {
        let text = "//! Whoever writes.\nlet a = \"whoever\"; // What is left is\nfn so_many() {}\n/// So many of them.\n";
        assert_eq!(lines_found(phrases_of_the_field, "crates/a/src/b.rs", text), [1, 2, 4]);
        let text =
            "Nobody.\nIt tells: of all.\n`nobody`\n```\nnobody\n```\n    nobody\nThe client is told.\n";
        assert_eq!(lines_found(phrases_of_the_field, "docs/a.md", text), [1, 8]);
        assert_eq!(lines_found(phrases_of_the_field, "Makefile", "nobody: # nobody\n"), [1]);
        assert_eq!(lines_found(phrases_of_the_field, GLOSSARY, text), [0_usize; 0]);
    }
}
