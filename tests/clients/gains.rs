//! What BORG reports of its reconfigurations: reasons, predictions, progress, and the gain measured on an emulated
//! drive.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::raw::Raw;
use crate::server::{Server, volume};

/// Pages all over the volume that are read again and again, in this order.
fn pages() -> Vec<u64> {
    (1..=300_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (448 << 8)).collect()
}

#[test]
fn a_reconfiguration_says_what_it_expects_and_what_it_gained() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disk = "[component.disk]\nram = \"512MiB\"\nemulate = \"seagate-cheetah-15k5\"\n\
                [slice.data]\nof = \"disk\"\nsize = \"448MiB\"\n\
                [slice.area]\nof = \"disk\"\nat = \"448MiB\"\nsize = \"64MiB\"\n\
                [layer.borg]\nover = \"data\"\nbopt = \"area\"\nreconfigure = \"on command\"\nmeasure_share = 50\n";
    volume(folder, disk, &[("borg", "")]);
    let Some(server) = Server::start(folder, "threads") else { return };
    let volume = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
        let output =
            command.arg("volume").arg(words[0]).arg(folder.join("volume.toml")).args(&words[1..]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let layer = || -> Value { crate::schemas::parsed(&volume(&["status", "--json"]))["layers"][0].clone() };
    let mut raw = Raw::open(folder, "borg");
    for page in pages().repeat(6) {
        raw.read(page << 12, 4096).unwrap();
    }
    assert_eq!(layer()["history"].as_array().map(Vec::len), Some(0));
    let printed = volume(&["tell", "borg", "reconfigure"]);
    assert!(printed.contains("300 pages are planned") && printed.contains("expected to save"), "{printed}");
    let past = layer()["history"][0].clone();
    assert!(past["why"].as_str().unwrap().contains("after 1800 requests"), "{past}");
    assert!(past["decided"].as_str().unwrap().contains("300 pages are planned"), "{past}");
    assert_eq!((&past["copied_pages"], &past["error"]), (&300.into(), &Value::Null), "{past}");
    let expected = past["predicted"]["saved_percent"].as_f64().unwrap();
    assert!(expected > 20.0, "{past}");
    // The clock of a busy machine adds to what is measured.
    let model = &past["model"];
    assert!(model["predicted_ms"].as_f64().unwrap() < 1.3 * model["measured_ms"].as_f64().unwrap(), "{past}");

    let began = Instant::now();
    let gain = loop {
        for page in pages() {
            raw.read(page << 12, 4096).unwrap();
        }
        let gain = layer()["recent"][0]["gain"].clone();
        if !gain["gain_percent"].is_null() {
            break gain;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "nothing is measured: {gain}");
    };
    let percent = gain["gain_percent"].as_f64().unwrap();
    assert!(percent > 20.0, "expected about {expected} %: {gain}");
    let (copies, origin) = (gain["copies_ms"].as_f64().unwrap(), gain["origin_ms"].as_f64().unwrap());
    assert!(copies < 0.8 * origin && gain["reads_from_origin"].as_u64() > Some(100), "{gain}");
    let text = volume(&["status"]);
    assert!(text.contains("borg last hour") && text.contains("reads from copies take"), "{text}");
    server.stop_saying(&["layer.borg: reconfigured, a command", "300 pages copied", "expected to save"]);
}
