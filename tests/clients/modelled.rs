//! Models of served components: which one there is, is said at the start and in the status, and a replay has the same.

use std::path::Path;
use std::process::Command;

use crate::adapted::{COMPONENTS, counter, rounds};
use crate::measured::{entry, status};
use crate::raw::Raw;
use crate::server::{KINDS, Server, volume};

/// The same components with other keys for the disk.
fn with(keys: &str) -> String {
    COMPONENTS.replace("model = \"wd2500aaks\"\n    model_at = 0\n", keys)
}

fn served(keys: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    crate::sparse(&folder.path().join("disk.img"), (2 << 30) + (256 << 20));
    volume(folder.path(), &with(keys), &[("borg", "")]);
    let server = Server::start(folder.path(), "threads").unwrap();
    (folder, server)
}

/// The model of the disk, as the status has it.
fn model(folder: &Path) -> serde_json::Value {
    entry(&status(folder), "devices", "disk")["model"].clone()
}

#[test]
fn the_model_of_a_component_is_said_at_the_start_and_in_the_status() {
    let (folder, server) = served("model = \"wd2500aaks\"\nmodel_at = \"1MiB\"\n");
    let line = "component.disk: modelled as wd2500aaks, which model names; from sector 2048 on";
    assert!(server.began_with(line), "no '{line}'");
    let model = model(folder.path());
    assert_eq!(model["drive"], "wd2500aaks", "{model}");
    assert_eq!(
        (&model["by"], &model["first_sector"], &model["pieces"]),
        (&"named".into(), &2_048.into(), &1.into())
    );
    let output = Command::new(env!("CARGO_BIN_EXE_seekless"))
        .args(["volume", "status"])
        .arg(folder.path().join("volume.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("model disk") && text.contains("from sector 2048 on"), "{text}");
    server.stop();
}

#[test]
fn without_a_model_the_reason_is_said() {
    let (folder, server) = served("model = \"none\"\n");
    assert!(server.began_with("component.disk: no model: model = \"none\"; layers do without"));
    assert_eq!(model(folder.path())["none"], "model = \"none\"");
    server.stop();
    // An empty file has no place on any disk, and where files have none there is another reason.
    let (folder, server) = served("model = \"wd2500aaks\"\n");
    assert!(server.began_with("component.disk: no model: "));
    let why = model(folder.path())["none"].clone();
    assert!(why.as_str().unwrap().contains("expected model_at, the sector of wd2500aaks"), "{why}");
    server.stop();
}

#[test]
fn where_no_layer_tries_its_plans_nothing_is_said_of_models() {
    let folder = tempfile::tempdir().unwrap();
    crate::sparse(&folder.path().join("disk.img"), 64 << 20);
    volume(folder.path(), "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
    let server = Server::start(folder.path(), "threads").unwrap();
    assert!(!server.began_with("model"));
    assert!(model(folder.path())["none"].is_string(), "it is in the status nevertheless");
    server.stop();
}

/// Rehearsals are part of what a run did.
#[test]
fn a_run_with_rehearsals_replays_to_the_same_actions() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        crate::sparse(&folder.join("disk.img"), (2 << 30) + (256 << 20));
        volume(folder, COMPONENTS, &[("borg", "")]);
        let inputs = folder.join("inputs");
        let more = ["--log-inputs", &inputs.display().to_string()];
        let Some(server) = Server::start_with(folder, kind, &more) else { continue };
        let mut raw = Raw::open(folder, "borg");
        rounds(&mut raw, 8);
        let told = Command::new(env!("CARGO_BIN_EXE_seekless"))
            .args(["volume", "tell"])
            .arg(folder.join("volume.toml"))
            .args(["borg", "reconfigure"])
            .output()
            .unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        assert!(counter(folder, "rehearsed_requests") > 0);
        rounds(&mut raw, 1);
        server.stop();
        std::fs::remove_file(folder.join("disk.img")).unwrap();
        let (holds, outcome, why) = crate::replayed::replayed(&inputs);
        assert!(holds && outcome["complete"] == true, "{kind}: {outcome} {why}");
    }
}
