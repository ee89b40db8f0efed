//! Replays of runs with recorded inputs: the volume does the same.

use std::path::Path;
use std::process::Command;

use crate::raw::Raw;
use crate::server::{KINDS, Server, client, skipped, succeeds, volume};
use crate::{MIB, sparse};

/// `lab replay` of a file of inputs: whether it succeeds, and its output.
pub fn replayed(inputs: &Path) -> (bool, serde_json::Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let output = command.args(["lab", "replay", "--json"]).arg(inputs).output().unwrap();
    let outcome = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.success(), outcome, String::from_utf8_lossy(&output.stderr).into_owned())
}

const COMPONENTS: &str = "
    [component.slots]
    file = \"slots.img\"
    [layer.mapper]
    over = \"slots\"
    [component.disk]
    file = \"disk.img\"
    [slice.home]
    of = \"disk\"
    size = \"64MiB\"
    [slice.bopt]
    of = \"disk\"
    at = \"64MiB\"
    [layer.borg]
    over = \"home\"
    bopt = \"bopt\"
    reconfigure = \"every 300ms\"
    [component.slow]
    ram = \"64MiB\"
    emulate = \"samsung-870-evo-1tb\"
";

#[test]
fn a_run_with_fios_load_replays_to_the_same_actions() {
    let Some(known) = succeeds("fio", &["--enghelp"]) else { return };
    if !known.contains("nbd") {
        return skipped("fio", "it has no engine for NBD");
    }
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("slots.img"), 96 * MIB as u64);
        sparse(&folder.join("disk.img"), 96 * MIB as u64);
        volume(folder, COMPONENTS, &["mapper", "borg", "slow"].map(|top| (top, "")));
        let inputs = folder.join("inputs");
        let more = ["--log-inputs", &inputs.display().to_string()];
        let Some(server) = Server::start_with(folder, kind, &more) else { continue };
        for export in ["mapper", "borg", "slow"] {
            let uri = format!("--uri={}", server.uri(export));
            let state = format!("--aux-path={}", folder.display());
            let load = ["--name=v", "--ioengine=nbd", "--rw=randrw", "--bsrange=4k-64k", "--size=8M"];
            let checked = ["--iodepth=16", "--verify=crc32c", "--randseed=3", &uri, &state];
            succeeds("fio", &[&load[..], &checked].concat()).unwrap();
            client("nbdinfo", &["--map", &server.uri(export)]);
        }
        server.stop();
        // The components are not used: they may be gone.
        std::fs::remove_file(folder.join("disk.img")).unwrap();
        let (holds, outcome, why) = replayed(&inputs);
        assert!(holds && outcome["complete"] == true, "{kind}: {outcome} {why}");
        assert!(outcome["jobs_of_components"].as_u64().unwrap() > 500, "{kind}: {outcome}");
        let (_, again, _) = replayed(&inputs);
        assert_eq!(outcome, again, "{kind}");
    }
}

#[test]
fn what_a_killed_server_noted_is_replayed_as_far_as_it_goes() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("disk.img"), MIB as u64);
        volume(folder, "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
        let inputs = folder.join("inputs");
        let more = ["--log-inputs", &inputs.display().to_string()];
        let Some(server) = Server::start_with(folder, kind, &more) else { continue };
        let mut raw = Raw::open(folder, "disk");
        for page in 0..200_u64 {
            assert_eq!(raw.write(0, page << 12, &[page as u8; 4096]).unwrap(), 0);
        }
        server.kill();
        let (holds, outcome, why) = replayed(&inputs);
        assert!(holds && outcome["complete"] == false, "{kind}: {outcome} {why}");
        assert!(outcome["jobs_of_components"].as_u64().unwrap() >= 100, "{kind}: {outcome}");
        // Damage in the middle is detected, and reported with its place.
        let mut bytes = std::fs::read(&inputs).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&inputs, bytes).unwrap();
        let (holds, _, why) = replayed(&inputs);
        assert!(!holds && why.contains("damaged"), "{kind}: {why}");
    }
}

#[test]
fn a_run_whose_far_server_went_and_came_back_is_replayed() {
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        sparse(&far.path().join("disk.img"), MIB as u64);
        volume(far.path(), "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
        let Some(other) = Server::start(far.path(), kind) else { continue };
        let component = format!("[component.far]\nnbd = \"{}\"\nreconnect = \"9s\"\n", other.uri("disk"));
        volume(near.path(), &component, &[("far", "")]);
        let inputs = near.path().join("inputs");
        let more = ["--log-inputs", &inputs.display().to_string()];
        let server = Server::start_with(near.path(), kind, &more).unwrap();
        let mut raw = Raw::open(near.path(), "far");
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), 0);
        other.kill();
        raw.ask(crate::raw::READ, 0, 4, 0, 4096).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let other = Server::start(far.path(), kind).unwrap();
        assert_eq!(raw.reply().unwrap(), (4, 0), "{kind}");
        assert_eq!(raw.take(4096).unwrap(), [1; 4096]);
        assert_ne!(raw.flush().unwrap(), 0, "{kind}: what was written may be lost");
        drop(raw);
        server.stop();
        other.stop();
        let (holds, outcome, why) = replayed(&inputs);
        assert!(holds && outcome["complete"] == true, "{kind}: {outcome} {why}");
    }
}
