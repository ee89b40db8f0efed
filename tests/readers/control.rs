//! Any line at the control socket: it is a question, which is written as it was read, or an error that says what was
//! expected; nothing panics.

use seekless_volume::live::Question;

pub fn run(input: &[u8]) {
    let line = String::from_utf8_lossy(input);
    match Question::parse(&line) {
        Ok(question) => {
            let again = serde_json::to_string(&question).map(|line| Question::parse(&line));
            assert_eq!(again.ok(), Some(Ok(question)), "a question that is written differently");
        }
        Err(error) => {
            assert!(error.contains("expected \"status\""), "{error}");
            assert!(error.len() < 2_000, "an error as long as its cause");
        }
    }
}
