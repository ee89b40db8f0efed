//! The control socket, queried by the program and by malformed requests.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::raw::Raw;
use crate::server::{KINDS, Server, volume};

#[test]
fn a_server_says_how_it_is() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        volume(folder, "[component.m]\nram = \"16MiB\"\n[layer.mapper]\nover = \"m\"\n", &[("mapper", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "mapper");
        raw.write(0, 0, &[1; 4096]).unwrap();
        let status = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
            let output = command
                .args(["volume", "status"])
                .arg(folder.join("volume.toml"))
                .args(more)
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
        };
        let (_, status_text) = status(&[]);
        assert!(status_text.contains("1 now, 1 so far") && status_text.contains("4 KiB"), "{status_text}");
        assert!(status_text.contains("component 0"), "{status_text}");
        let (_, status_text) = status(&["--json"]);
        let status_text = crate::schemas::parsed(&status_text);
        assert_eq!(
            (&status_text["requests"], &status_text["io"], &status_text["process"]),
            (&1.into(), &kind.into(), &server.id().into())
        );
        assert!(
            status_text["layers"][0]["counters"].as_object().is_some_and(|counters| !counters.is_empty()),
            "{status_text}"
        );

        let place = folder.join("volume.control");
        for socket in [&place, &folder.join("socket")] {
            assert_eq!(
                std::fs::metadata(socket).unwrap().permissions().mode() & 0o077,
                0,
                "its owner's alone"
            );
        }
        let mut other = UnixStream::connect(&place).unwrap();
        other.write_all(b"{\"dance\": 1}\n\xff\xff\n").unwrap();
        let answers: Vec<String> = BufReader::new(other).lines().take(2).map_while(Result::ok).collect();
        assert!(answers.len() == 2 && answers.iter().all(|line| line.contains("expected")), "{answers:?}");
        let mut endless = UnixStream::connect(&place).unwrap();
        let refused = (0..1000).any(|_| endless.write_all(&[b'x'; 1024]).is_err());
        assert!(refused, "a line without an end is not read for ever");
        let mut long = UnixStream::connect(&place).unwrap();
        long.write_all(&vec![b'x'; 64 << 10]).unwrap();
        let mut refusal = String::new();
        BufReader::new(long).read_line(&mut refusal).unwrap();
        assert!(refusal.contains("error") && refusal.contains("without an end"), "{refusal}");
        let mut events = BufReader::new(UnixStream::connect(&place).unwrap());
        events.get_mut().write_all(b"\"subscribe\"\n").unwrap();
        let mut event = || {
            let mut line = String::new();
            events.read_line(&mut line).unwrap();
            line
        };
        assert!(event().contains("subscribed"));
        let file = folder.join("volume.toml").display().to_string();
        let tell = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
            command
                .arg("volume")
                .arg(words[0])
                .arg(&file)
                .args(&words[1..])
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(tell(&["attach", "scrub"]) && tell(&["tell", "scrub", "scrub"]));
        assert!(!tell(&["attach", "borg", "--device", "bopt=none"]));
        for expected in ["began", r#""error":null"#, "began", "ended", "began", "none"] {
            let line = event();
            assert!(line.contains(expected), "{line}, expected {expected}");
        }
        server.stop();
        assert!(event().contains("stopping") && event().is_empty());
        let (fine, status_text) = status(&[]);
        assert!(!fine && status_text.contains("is the volume served?"), "{status_text}");
    }
}
