//! Programs that are built for users hold none of the known bugs that tests activate.

use std::path::PathBuf;

/// A known bug's name, as in a build with known bugs.
const NAME: &[u8] = b"flush guard: a failed flush is forgotten";

fn holds(program: &[u8], name: &[u8]) -> bool {
    program.windows(name.len()).any(|bytes| bytes == name)
}

#[test]
fn the_name_that_is_looked_for_is_one() {
    assert!(holds(include_bytes!("../../crates/core/src/mutant.rs"), NAME));
}

#[test]
fn what_people_run_has_no_known_bug() {
    let cache = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/seekless/target"));
    let folder = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).or_else(cache);
    let Some(folder) = folder else { return println!("skipped: the build folder is unknown") };
    for profile in ["release", "demo"] {
        let Ok(program) = std::fs::read(folder.join(profile).join("seekless")) else {
            println!("skipped: no program of make {}", if profile == "demo" { "demo" } else { "build" });
            continue;
        };
        assert!(!holds(&program, NAME), "{profile}/seekless has known bugs in it");
    }
}
