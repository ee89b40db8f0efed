//! Any text as a volume file: it is a volume, or an error with its place and the expected value; nothing panics.

use seekless_volume::file::parse;

pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match parse("fuzzed.toml", text) {
        Ok(volume) => assert!(volume.check().is_ok_and(|sectors| sectors > 0), "a volume that is none"),
        Err(error) => assert!(error.to_string().starts_with("fuzzed.toml"), "{error}"),
    }
}
