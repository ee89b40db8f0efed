//! `PROMISES.md` is what these tests and the kept figures make.

use std::process::Command;

#[test]
fn the_page_of_promises_is_of_these_tests() {
    let made = Command::new(env!("CARGO_BIN_EXE_promises")).arg("--check").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
