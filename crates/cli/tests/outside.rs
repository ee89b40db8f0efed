//! The layer in `examples/layer`, a package outside the workspace: the book shows its code, it is compared on a trace,
//! an exploration finds nothing, and it compiles where it is. `make soak` builds and runs its program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seekless_lab::explore::Options;
use seekless_lab::explore::campaign::Campaign;
use seekless_lab::{Candidate, Play, compare_volumes};
use seekless_layers::registry;
use seekless_trace::ReadOptions;
use seekless_volume::file;

#[path = "../../../examples/layer/src/main.rs"]
#[allow(dead_code, reason = "its `main` is that of another program")]
mod layer;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn the_book_shows_this_layer() {
    let page = include_str!("../../../docs/book/first-layer.md");
    let (_, page) = page.split_once("## 9. A layer outside this repository").unwrap();
    let shown: Vec<&str> =
        page.split("```rust").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(shown.len(), 2);
    let code = include_str!("../../../examples/layer/src/main.rs");
    for part in shown.iter().flat_map(|shown| shown.trim().split("\n\n")) {
        assert!(code.contains(part), "{part}");
    }
    let lines = code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    assert!(lines.count() <= 100);
}

#[path = "../../../examples/layer/examples/slow.rs"]
#[allow(dead_code, reason = "its `main` is that of another program")]
#[rustfmt::skip]
mod slow;

#[test]
fn the_readme_shows_a_layer_in_20_lines() {
    let (_, code) = include_str!("../../../examples/layer/examples/slow.rs").split_once('\n').unwrap();
    assert!(include_str!("../../../README.md").contains(code));
    assert!(code.lines().count() <= 20);
}

#[test]
fn a_layer_outside_the_tree_is_compared_and_explored() {
    registry::add(&layer::LAYERS).unwrap();
    let trace = seekless_trace::load(&[root().join("data/svnserver2")], &ReadOptions::default()).unwrap();
    let near =
        file::parse("v.toml", "[component.disk]\ndrive = \"wd2500aaks\"\n[[export]]\ntop = \"disk\"\n")
            .unwrap();
    let ahead = near.clone().with_layer(&layer::LAYERS[0], toml::Table::new());
    let candidates = [("none", near), ("readahead", ahead)]
        .map(|(name, volume)| Candidate { name: name.to_owned(), volume });
    let compared = compare_volumes(&trace, &candidates, &Play::default(), &|_| ()).unwrap();
    let hits = compared.variants[1].layers["readahead"]["reads_from_memory"];
    assert!(hits > 100, "{hits}");

    let volume = file::read(&root().join("examples/layer/readahead.toml")).unwrap();
    let campaign = Campaign {
        description: &volume,
        load: None,
        requests: 200,
        commands: None,
        clients: None,
        fault_requests: 200,
        options: Options { states: 30_000, ..Options::default() },
        reduces: false,
    };
    let explored = campaign.explore(&|_| ()).unwrap();
    assert!(explored.finding.is_none() && explored.unreached.is_empty(), "{:?}", explored.unreached);
}

/// Checks a copy of the package, with the path to this checkout and its lock file, with what is downloaded already.
#[test]
fn it_compiles_outside_the_workspace() {
    let (folder, from) = (tempfile::tempdir().unwrap(), root().join("examples/layer"));
    let manifest = fs::read_to_string(from.join("Cargo.toml")).unwrap();
    let cli = format!("path = {:?}", root().join("crates/cli"));
    let manifest = manifest.replace("path = \"../../crates/cli\"", &cli);
    // As in the workspace, whose builds of the dependencies it shares.
    let profile = "\n[profile.dev]\nopt-level = 1\ndebug = false\n";
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), manifest + profile).unwrap();
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    fs::copy(from.join("src/main.rs"), folder.path().join("src/main.rs")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["check", "--offline", "--quiet", "--target-dir"]).arg(target).current_dir(folder.path());
    let checked = cargo.output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
