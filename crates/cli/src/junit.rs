//! The XML of `JUnit`, which continuous integration reads: a suite of cases that passed, failed or were skipped.

use std::fmt::Write;

use seekless_lab::report::escape;

/// A test case.
pub struct TestCase<'a> {
    /// Name.
    pub name: &'a str,
    /// What happened.
    pub result: Result<(), Problem<'a>>,
}

/// Why a case did not pass.
pub enum Problem<'a> {
    /// It failed: what was found, and all that is known of it.
    Failed(&'a str, &'a str),
    /// It was not examined.
    Skipped(&'a str),
}

/// The XML of a suite that took `seconds`.
pub fn xml(suite: &str, seconds: f64, cases: &[TestCase]) -> String {
    let count =
        |of: fn(&Problem) -> bool| cases.iter().filter(|case| case.result.as_ref().is_err_and(of)).count();
    let failures = count(|problem| matches!(problem, Problem::Failed(..)));
    let skipped = count(|problem| matches!(problem, Problem::Skipped(_)));
    let (suite, tests) = (escape(suite), cases.len());
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{suite}\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\">\n"
    );
    for TestCase { name, result } in cases {
        let _ = write!(out, "  <testcase classname=\"{suite}\" name=\"{}\"", escape(name));
        let _ = match result {
            Ok(()) => writeln!(out, "/>"),
            Err(Problem::Failed(found, details)) => writeln!(
                out,
                "><failure message=\"{}\">{}</failure></testcase>",
                escape(found),
                escape(details)
            ),
            Err(Problem::Skipped(why)) => writeln!(out, "><skipped message=\"{}\"/></testcase>", escape(why)),
        };
    }
    out + "</testsuite>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_findings_are_escaped_and_counted() {
        let cases = [
            TestCase { name: "a < b", result: Ok(()) },
            TestCase { name: "b", result: Err(Problem::Failed("found \"x\" & <y>", "script")) },
            TestCase { name: "c", result: Err(Problem::Skipped("not reached")) },
        ];
        let text = xml("volume.toml", 1.5, &cases);
        assert!(
            text.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500\""),
            "{text}"
        );
        assert!(
            text.contains("name=\"a &lt; b\"/>") && text.contains("&quot;x&quot; &amp; &lt;y&gt;"),
            "{text}"
        );
    }
}
