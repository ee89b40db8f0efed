//! A live scrub by command: bad sectors are found, and good again when a client writes them.

use std::process::Command;

use crate::raw::Raw;
use crate::server::{KINDS, Server, succeeds, volume};

#[test]
fn a_scrub_finds_bad_sectors_and_a_client_makes_them_well() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let components = "
            [component.disk]
            file = \"disk.img\"
            [layer.aging]
            is = \"error\"
            over = \"disk\"
            until_written = true
            at = \"1MiB\"
            size = \"1KiB\"
            [layer.scrub]
            over = \"aging\"
        ";
        std::fs::File::create(folder.join("disk.img")).unwrap().set_len(16 << 20).unwrap();
        volume(folder, components, &[("scrub", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let ask = |verb: &str, more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
            let command = command.args(["volume", verb]).arg(folder.join("volume.toml")).args(more);
            let output = command.output().unwrap();
            (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
        };
        let counter = |name: &str| {
            let message = crate::schemas::parsed(&ask("status", &["--json"]).1);
            let layer =
                message["layers"].as_array().unwrap().iter().find(|layer| layer["name"] == "scrub").unwrap();
            layer["counters"][name].as_u64().unwrap()
        };
        assert_eq!(ask("tell", &["scrub", "scrub"]), (true, String::new()));
        assert_eq!((counter("passes"), counter("bytes_scrubbed"), counter("bad_sectors")), (1, 16 << 20, 2));
        if let Some(said) = succeeds("nbdinfo", &["--map=seekless:unreadable", &server.uri("scrub")]) {
            let parts: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
            let bad: Vec<_> = parts.iter().filter(|part| part[2] == "1").map(|part| &part[..2]).collect();
            assert_eq!(bad, [["1048576", "1024"]], "{said}");
        }
        let mut raw = Raw::open(folder, "scrub");
        assert_eq!(raw.write(0, 1 << 20, &[7; 512]).unwrap(), 0);
        assert_eq!(raw.read(1 << 20, 512).unwrap(), [7; 512]);
        assert_eq!(counter("bad_sectors"), 1);
        assert_eq!(ask("tell", &["scrub", "scrub"]), (true, String::new()));
        assert_eq!((counter("passes"), counter("bad_sectors")), (2, 1));
        for (message, words) in [
            (["skrub", "scrub"], ["'skrub'", "aging or scrub"]),
            (["scrub", "dance"], ["'dance'", "expected scrub"]),
            (["aging", "scrub"], ["'scrub'", "it has no commands"]),
        ] {
            let (fine, said) = ask("tell", &message);
            assert!(!fine && words.iter().all(|word| said.contains(word)), "{said}");
        }
        server.stop();
    }
}
