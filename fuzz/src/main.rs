//! Bytes made up for the reader that the variable `SEEKLESS_FUZZ` names: see `tests/readers`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static READER: LazyLock<String> =
    LazyLock::new(|| std::env::var("SEEKLESS_FUZZ").unwrap_or_else(|_| "any".into()));

fuzz_target!(|bytes: &[u8]| seekless_readers::read(&READER, bytes));
