//! What a running volume reports about itself: response times, metrics, `top`, messages to a service manager, and logs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::raw::Raw;
use crate::server::{KINDS, Server, serve, volume};

/// Disk and BOPT as files.
const COMPONENTS: &str = "[component.disk]\nfile = \"disk.img\"\n[component.fast]\nfile = \"bopt.img\"\n\
    [layer.borg]\nover = \"disk\"\nbopt = \"fast\"\n";

fn folder(keys: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    crate::sparse(&folder.path().join("disk.img"), 64 << 20);
    crate::sparse(&folder.path().join("bopt.img"), 32 << 20);
    volume(folder.path(), &format!("{keys}{COMPONENTS}"), &[("borg", "")]);
    folder
}

/// Standard output of a command that succeeds.
fn printed(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let output =
        command.args(words).current_dir(folder).env("STATE_DIRECTORY", folder.join("state")).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn status(folder: &Path) -> serde_json::Value {
    crate::schemas::parsed(&printed(folder, &["volume", "status", "volume.toml", "--json"]))
}

/// The entry of this name in a list of the status.
pub fn entry<'a>(status: &'a serde_json::Value, list: &str, name: &str) -> &'a serde_json::Value {
    let found = status[list].as_array().unwrap().iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {list} in {status}"))
}

/// Requests of a kind that a status counts.
fn requests(status: &serde_json::Value, list: &str, name: &str, op: &str) -> u64 {
    entry(status, list, name)["stats"][op]["requests"].as_u64().unwrap()
}

#[test]
fn requests_are_counted_and_timed_where_they_pass_also_when_layers_come_and_go() {
    for kind in KINDS {
        let folder = folder("");
        let folder = folder.path();
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "borg");
        for page in 0..10 {
            assert_eq!(raw.write(0, page << 20, &[7; 4096]).unwrap(), 0);
        }
        assert_eq!(raw.flush().unwrap(), 0);
        raw.read(32 << 20, 8192).unwrap();
        let first = status(folder);
        for (list, name) in [("exports", "borg"), ("layers", "borg")] {
            let counted = ["write", "read", "flush"].map(|op| requests(&first, list, name, op));
            assert_eq!(counted, [10, 1, 1], "{list}");
        }
        let writes = &entry(&first, "exports", "borg")["stats"]["write"];
        assert_eq!((&writes["bytes"], &writes["failed"]), (&40_960.into(), &0.into()));
        let all: u64 =
            writes["histogram"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        assert_eq!(all, 10);
        assert!(
            writes["longest_ms"].as_f64().unwrap() > 0.0 && writes["p50_ms"].as_f64().unwrap() > 0.0,
            "{writes}"
        );
        assert!(requests(&first, "devices", "fast", "write") > 0, "writes are absorbed");
        assert!(requests(&first, "devices", "disk", "read") > 0);
        let hits = &entry(&first, "layers", "borg")["hits"];
        assert!(hits["lookups"].as_u64().unwrap() >= 12 && hits["hit"].is_u64(), "{hits}");

        printed(folder, &["volume", "attach", "volume.toml", "scrub"]);
        let attached = status(folder);
        assert_eq!(requests(&attached, "layers", "scrub", "write"), 0, "nothing was written since");
        assert_eq!(requests(&attached, "layers", "borg", "write"), 10, "its own figures stay its own");
        assert_eq!(raw.write(0, 0, &[8; 4096]).unwrap(), 0);
        let more = status(folder);
        assert_eq!(["scrub", "borg"].map(|layer| requests(&more, "layers", layer, "write")), [1, 11]);
        printed(folder, &["volume", "detach", "volume.toml", "scrub"]);
        assert_eq!(raw.write(0, 0, &[9; 4096]).unwrap(), 0);
        let detached = status(folder);
        let counted =
            (requests(&detached, "layers", "borg", "write"), requests(&detached, "exports", "borg", "write"));
        assert_eq!(counted, (12, 12));
        server.stop();
    }
}

#[test]
fn top_prints_rates_of_the_last_interval_in_80_columns() {
    let folder = folder("");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut raw = Raw::open(folder, "borg");
    assert_eq!(raw.write(0, 0, &[7; 4096]).unwrap(), 0);
    let once = ["top", "volume.toml", "--once", "--interval", "100ms"];
    let text = printed(folder, &once);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for word in [
        "1 client",
        "export borg",
        "layer  borg",
        "device fast",
        "P99 ms",
        "KiB dirty",
        "heat   borg          |",
    ] {
        assert!(text.contains(word), "no '{word}' in {text}");
    }
    // The socket says the same as the file.
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let socket = ["top", "volume.control", "--once", "--json", "--interval", "400ms"];
    let top = command.args(socket).current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
    for page in 0..60_u64 {
        assert_eq!(raw.write(0, page << 12, &[7; 4096]).unwrap(), 0);
        std::thread::sleep(Duration::from_millis(10));
    }
    let json = top.wait_with_output().unwrap().stdout;
    let sample: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let row = |at: &str| {
        let rows = sample["rows"].as_array().unwrap();
        rows.iter()
            .find(|row| row["at"] == at && row["name"] == "borg" && row["op"] == "write")
            .unwrap()
            .clone()
    };
    for at in ["export", "layer"] {
        let row = row(at);
        let (requests, bytes) =
            (row["requests_per_s"].as_f64().unwrap(), row["bytes_per_s"].as_f64().unwrap());
        assert!(requests > 0.0 && (bytes - requests * 4096.0).abs() < 1.0, "{row}");
    }
    // As CSV one header, and rows of one sample after the other.
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let csv = ["top", "volume.toml", "--csv", "--interval", "100ms"];
    let mut top = command.args(csv).current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    let header = lines.next().unwrap();
    let column = |name: &str| header.split(',').position(|key| key == name).unwrap();
    let (up, at) = (column("up_s"), column("at"));
    let mut times = BTreeSet::new();
    while times.len() < 3 {
        let line = lines.next().unwrap();
        let cells: Vec<&str> = line.split(',').collect();
        assert!(["export", "layer", "device"].contains(&cells[at]), "{line}");
        times.insert(cells[up].to_owned());
    }
    top.kill().unwrap();
    top.wait().unwrap();
    server.stop();
}

/// An answer over HTTP to these bytes.
fn answer(mut socket: impl Read + Write, request: &[u8]) -> String {
    socket.write_all(request).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_at_the_control_socket_and_if_asked_for_over_http() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for kind in KINDS {
        let folder = folder(&format!("metrics = \"tcp:{free}\"\n"));
        let folder = folder.path();
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "borg");
        assert_eq!(raw.write(0, 0, &[7; 4096]).unwrap(), 0);
        let told = printed(folder, &["volume", "metrics", "volume.toml"]);
        let get = |request: &[u8]| answer(TcpStream::connect(free).unwrap(), request);
        let page = get(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let count = "seekless_request_duration_seconds_count{at=\"export\",name=\"borg\",op=\"write\"} 1\n";
        for text in [&told, body] {
            assert!(text.contains(count), "no {count} in {text}");
        }
        // A dashboard that ships asks for nothing else.
        let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana.json");
        let dashboard = std::fs::read_to_string(dashboard).unwrap();
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let names = dashboard.split(|letter| !is_name(letter)).filter(|name| name.starts_with("seekless_"));
        let families: Vec<&str> = names.collect();
        assert!(families.len() > 10);
        for name in families {
            let base = ["_bucket", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(body.contains(&format!("# TYPE {base} ")), "{name}");
        }
        for (request, expected) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"PUT /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x00\xff\r\n\r\n", "400"),
            (&[b'x'; 16 << 10], "431"),
        ] {
            let answer = get(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
        }
        // Silent peers use up what there is for them, and no other client waits.
        let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(free).unwrap()).collect();
        assert_eq!(raw.write(0, 4096, &[7; 4096]).unwrap(), 0);
        drop(silent);
        assert!(get(b"GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
        server.stop();
    }
    let folder = folder("metrics = \"tcp:0.0.0.0:9464\"\n");
    let refused = serve(folder.path(), "threads").output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("expected a loopback address"), "{error}");
}

/// Messages to a service manager until one contains `last`.
fn messages(manager: &UnixDatagram, last: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    while all.last().is_none_or(|message| !message.contains(last)) {
        let mut message = vec![0; 4096];
        let bytes =
            manager.recv(&mut message).unwrap_or_else(|error| panic!("{error}: no {last} in {all:?}"));
        all.push(String::from_utf8_lossy(&message[..bytes]).into_owned());
    }
    all
}

#[test]
fn a_service_manager_hears_that_it_serves_lives_and_stops_and_a_replay_does_the_same() {
    for kind in KINDS {
        let folder = folder("");
        let folder = folder.path();
        let manager = UnixDatagram::bind(folder.join("notify")).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut command = serve(folder, kind);
        command.env("NOTIFY_SOCKET", folder.join("notify")).env("WATCHDOG_USEC", "300000");
        command.args(["--log-inputs", &folder.join("inputs").display().to_string()]);
        let Some(server) = Server::start_command(&mut command, folder, kind) else { continue };
        let before = messages(&manager, "READY=1");
        assert_eq!(before.len(), 1, "{before:?}");
        let mut raw = Raw::open(folder, "borg");
        assert_eq!(raw.write(0, 0, &[7; 4096]).unwrap(), 0);
        messages(&manager, "WATCHDOG=1\nSTATUS=1 clients, 4 KiB dirty");
        drop(raw);
        server.stop();
        messages(&manager, "STOPPING=1");
        let replayed = printed(folder, &["lab", "replay", "inputs"]);
        assert!(replayed.contains("same"), "{replayed}");
    }
}

#[test]
fn messages_have_times_and_levels_where_they_are_kept() {
    let folder = folder("");
    let folder = folder.path();
    let lines = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
        command.args(["volume", "serve", "--io", "threads", "volume.toml"]).args(more).current_dir(folder);
        command.env("STATE_DIRECTORY", folder.join("state"));
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut lines = Vec::new();
        for line in said {
            let last = line.contains("try: ");
            lines.push(line);
            if last {
                break;
            }
        }
        server.kill().unwrap();
        server.wait().unwrap();
        lines
    };
    printed(folder, &["volume", "create", "volume.toml"]);
    let timed = lines(&[]);
    let is_timed = |line: &String| {
        line.as_bytes().get(4) == Some(&b'-')
            && line.as_bytes()[19] == b'.'
            && line[23..].starts_with("Z info: ")
    };
    assert!(timed.len() > 2 && timed.iter().all(is_timed), "{timed:?}");
    assert!(lines(&["--log", "journal"]).iter().all(|line| line.starts_with("<6>")));
    assert!(lines(&["--log", "plain"]).iter().any(|line| line.starts_with("try: ")));
    std::fs::remove_file(folder.join("disk.img")).unwrap();
    let failed = lines(&[]);
    assert!(
        failed.last().is_some_and(|line| line.contains("Z error: ") && !line.contains("error: error")),
        "{failed:?}"
    );
}

#[test]
fn a_control_socket_answers_with_metrics() {
    let folder = folder("");
    let folder = folder.path();
    let Some(server) = Server::start(folder, "threads") else { return };
    let mut control = UnixStream::connect(folder.join("volume.control")).unwrap();
    control.write_all(b"\"metrics\"\n").unwrap();
    let mut line = String::new();
    BufReader::new(control).read_line(&mut line).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(answer["metrics"].as_str().is_some_and(|text| text.contains("# TYPE seekless_clients gauge")));
    server.stop();
}
