//! Rules for Rust files: short, with a purpose on top, finished.

use crate::source::{code_only, functions, test_ranges};
use crate::{File, Finding};

/// A file has fewer lines, tests not counted.
const FILE_LINES: usize = 500;
/// A function has fewer lines.
const FUNCTION_LINES: usize = 70;

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.is("rs"))
}

/// Tests, benchmarks and fuzz targets may be as long as they need.
fn may_be_long(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "fuzz"))
}

/// Fewer than 500 lines in a file.
pub fn short_files(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !may_be_long(&file.path)) {
        let tests = test_ranges(&code_only(&file.text));
        let all = 1..=file.text.lines().count();
        let lines = all.filter(|line| !tests.iter().any(|(from, to)| (from..=to).contains(&line))).count();
        if lines >= FILE_LINES {
            let expected = format!("fewer than {FILE_LINES}: split it where its subject changes");
            findings.push(file.finding(0, format!("{lines} lines"), expected));
        }
    }
    findings
}

/// Fewer than 70 lines in a function.
pub fn short_functions(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !may_be_long(&file.path)) {
        let code = code_only(&file.text);
        let tests = test_ranges(&code);
        for function in functions(&code) {
            let tested = tests.iter().any(|(from, to)| (from..=to).contains(&&function.line));
            if !tested && function.lines >= FUNCTION_LINES {
                let found = format!("a function `{}` of {} lines", function.name, function.lines);
                findings.push(file.finding(function.line, found, format!("fewer than {FUNCTION_LINES}")));
            }
        }
    }
    findings
}

/// Each file starts with `//!`.
pub fn start_with_a_purpose(files: &[File]) -> Vec<Finding> {
    let bad = rust(files).filter(|file| !file.text.starts_with("//!"));
    bad.map(|file| {
        let first = file.text.lines().next().unwrap_or("nothing");
        file.finding(1, format!("`{first}`"), "`//!` and what the file is for")
    })
    .collect()
}

/// No unfinished code, no traces of debugging. Spelled in halves, so that this file passes.
pub fn finished(files: &[File]) -> Vec<Finding> {
    let in_code = [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("db", "g!")];
    let anywhere = [concat!("FIX", "ME"), concat!("XX", "X")];
    let mut findings = Vec::new();
    for file in rust(files) {
        let code = code_only(&file.text);
        for (number, (line, code)) in file.text.lines().zip(code.lines()).enumerate() {
            let marks = in_code.iter().filter(|mark| code.contains(**mark));
            for mark in marks.chain(anywhere.iter().filter(|mark| line.contains(**mark))) {
                findings.push(file.finding(number + 1, format!("`{mark}`"), "finished code"));
            }
        }
    }
    findings
}

/// No test is ignored.
pub fn no_ignored_tests(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        for (number, line) in code_only(&file.text).lines().enumerate() {
            let attribute = line.trim_start();
            if attribute.starts_with("#[ignore")
                || attribute.contains(", ignore") && attribute.starts_with("#[cfg_attr")
            {
                let expected = "a test that runs, or none";
                findings.push(file.finding(number + 1, format!("`{}`", attribute.trim_end()), expected));
            }
        }
    }
    findings
}

/// A block device that implements writes itself and delegates the rest to the device below also implements writes of
/// zeroes: they would bypass it.
pub fn zeroes_are_writes(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let code = code_only(&file.text);
        let lines: Vec<&str> = code.lines().collect();
        for (start, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" BlockDevice for ")) {
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indent}}}");
            let body: Vec<&&str> = lines[start..].iter().take_while(|line| **line != end).collect();
            let has =
                |name: &str| body.iter().any(|line| line.trim_start().starts_with(&format!("fn {name}(")));
            if has("below") && has("write") && !has("write_zeroes") {
                let found = format!("`{}` with `below` and `write`", line.trim());
                findings.push(file.finding(start + 1, found, "`write_zeroes` too"));
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
    fn a_long_file_is_found_but_its_tests_are_not_counted() {
        let long = "const A: u8 = 0;\n".repeat(FILE_LINES);
        assert_eq!(lines_found(short_files, "crates/a/src/b.rs", &long), [0]);
        assert_eq!(lines_found(short_files, "crates/a/tests/b.rs", &long), [0_usize; 0]);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(lines_found(short_files, "crates/a/src/b.rs", &tested), [0_usize; 0]);
    }

    #[test]
    fn a_long_function_is_found_where_it_starts() {
        let long = format!("\nfn a() {{\n{}}}\n", "    b();\n".repeat(FUNCTION_LINES - 2));
        assert_eq!(lines_found(short_functions, "a.rs", &long), [2]);
        let shorter = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(FUNCTION_LINES - 3));
        assert_eq!(lines_found(short_functions, "a.rs", &shorter), [0_usize; 0]);
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        assert_eq!(lines_found(start_with_a_purpose, "a.rs", "use b;\n"), [1]);
        assert_eq!(lines_found(start_with_a_purpose, "a.rs", ""), [1]);
        assert_eq!(lines_found(start_with_a_purpose, "a.rs", "//! B.\n"), [0_usize; 0]);
    }

    #[test]
    fn unfinished_code_is_found_and_strings_are_not() {
        let text = concat!("a();\n", "to", "do!();\n// FIX", "ME\ndb", "g!(b);\nlet a = \"db", "g!\";\n");
        assert_eq!(lines_found(finished, "a.rs", text), [2, 3, 4]);
    }

    #[test]
    fn an_ignored_test_is_found() {
        assert_eq!(lines_found(no_ignored_tests, "a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"), [2]);
    }

    #[test]
    fn a_filter_that_zeroes_pass_by_is_found() {
        let filter = |more: &str| {
            format!(
                "mod a {{\n    impl BlockDevice for A {{\n        fn below(&self) {{}}\n        fn write(&self) {{}}\n{more}    }}\n}}\n"
            )
        };
        assert_eq!(lines_found(zeroes_are_writes, "a.rs", &filter("")), [2]);
        let whole = filter("        fn write_zeroes(&self) {}\n");
        assert_eq!(lines_found(zeroes_are_writes, "a.rs", &whole), [0_usize; 0]);
        let leaf = "impl BlockDevice for A {\n    fn write(&self) {}\n}\n";
        assert_eq!(lines_found(zeroes_are_writes, "a.rs", leaf), [0_usize; 0]);
    }
}
