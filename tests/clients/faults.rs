//! Faults live: below the volume, by the lab's own layers, and above it, by nbdkit's filters.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::raw::{READ, Raw};
use crate::server::{KINDS, Server, client, skipped, succeeds, volume};
use crate::sparse;

#[test]
fn the_layers_of_the_lab_fail_and_delay_live() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let components = "
            [component.disk]
            ram = \"16MiB\"
            [layer.error]
            over = \"disk\"
            ops = [\"write\"]
            kind = \"no space\"
            nth = 2
            [layer.delay]
            over = \"error\"
            time = \"30ms\"
        ";
        volume(folder.path(), components, &[("delay", "")]);
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        let mut raw = Raw::open(folder.path(), "delay");
        let began = Instant::now();
        let errors: Vec<u32> = (0..4).map(|page| raw.write(0, page << 12, &[1; 4096]).unwrap()).collect();
        assert_eq!(errors, [0, 28, 0, 0], "{kind}");
        let took = began.elapsed();
        // Time is read once per turn, so each may end early by as long as a turn takes, which depends on the machine.
        assert!(took >= Duration::from_millis(60), "{kind}: {took:?}");
        assert_eq!(raw.read(0, 4096).unwrap(), [1; 4096]);
        server.stop();
    }
}

#[test]
fn a_second_signal_ends_a_server_whose_component_stalls() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let far = folder.join("far").display().to_string();
        let mut command = Command::new("nbdkit");
        command.args([
            "-f",
            "-U",
            &far,
            "--filter=delay",
            "memory",
            "16M",
            "delay-read=60",
            "delay-write=60",
        ]);
        let Ok(mut other) = command.stderr(Stdio::null()).spawn() else {
            return skipped("nbdkit", "it is not installed");
        };
        while !Path::new(&far).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        volume(folder, &format!("[component.far]\nnbd = \"nbd+unix:///?socket={far}\"\n"), &[("far", "")]);
        if let Some(mut server) = Server::start(folder, kind) {
            let mut raw = Raw::open(folder, "far");
            raw.ask(READ, 0, 1, 0, 4096).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            server.signal();
            assert!(server.line().starts_with("stopping; a second signal"));
            std::thread::sleep(Duration::from_millis(500));
            assert!(server.is_running(), "{kind}: it waits for the request that it took");
            let began = Instant::now();
            server.signal();
            assert!(server.line().starts_with("stopped at once"));
            assert_eq!(server.wait().code(), Some(1));
            assert!(began.elapsed() < Duration::from_secs(5), "{kind}: {:?}", began.elapsed());
            assert!(raw.reply().is_err(), "no server answers any more");
        }
        // And its leftovers do not get in the way.
        if let Some(server) = Server::start(folder, kind) {
            server.stop();
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

/// A volume file of the mapper over memory.
fn mapper_in_memory(folder: &Path) {
    volume(folder, "[component.m]\nram = \"16MiB\"\n[layer.mapper]\nover = \"m\"\n", &[("mapper", "")]);
}

#[test]
fn nbdkit_goes_between_with_its_faults() {
    if client("qemu-io", &["--version"]).is_none() {
        return;
    }
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        mapper_in_memory(folder.path());
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        let uri = format!("uri={}", server.uri("mapper"));
        let load = "qemu-io -f raw -c 'write -P 3 0 4M' -c 'read -P 3 0 4M' -c flush \"$uri\"";
        let all = ["-U", "-", "nbd", &uri, "--filter=delay", "rdelay=2ms", "wdelay=2ms", "--run", load];
        let Some(said) = succeeds("nbdkit", &all) else { return server.kill() };
        assert!(said.contains("read 4194304/4194304"), "{said}");
        // A client that loses every third request on the way leaves nothing behind that is in the way.
        let failing =
            ["-U", "-", "nbd", &uri, "--filter=error", "error=EIO", "error-rate=30%", "--run", load];
        let _ = Command::new("nbdkit").args(failing).output().unwrap();
        let said = succeeds("nbdkit", &all).unwrap();
        assert!(said.contains("read 4194304/4194304"), "{said}");
        server.stop();
    }
}

#[test]
fn an_idle_server_takes_no_time() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        mapper_in_memory(folder.path());
        let Some(server) = Server::start(folder.path(), kind) else { continue };
        let mut raw = Raw::open(folder.path(), "mapper");
        raw.write(0, 0, &[1; 4096]).unwrap();
        let turns = |server: &Server| {
            let file = server.folder.join("volume.toml");
            let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
            let output = command.args(["volume", "status", "--json"]).arg(file).output().unwrap();
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            status["turns"].as_u64().unwrap()
        };
        let before = turns(&server);
        std::thread::sleep(Duration::from_millis(700));
        let idle = turns(&server) - before;
        assert!(idle < 30, "{kind}: {idle} turns, and nobody asked for anything");
        raw.ask(READ, 0, 1, 0, 512).unwrap();
        assert_eq!(raw.reply().unwrap(), (1, 0));
        server.stop();
    }
}

/// A volume that is served here and explored in the lab: the layers know no difference.
#[test]
fn power_is_lost_live_and_what_was_flushed_is_there() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        sparse(&folder.join("disk.img"), 32 << 20);
        let disk = "[component.disk]\nfile = \"disk.img\"\n";
        let cut = "[layer.split]\nover = \"disk\"\nlargest = \"8KiB\"\n\
                   [layer.powercut]\nover = \"split\"\nnth = 150\nkeep = \"none\"\n";
        let mapper = |over: &str| format!("[layer.mapper]\nover = \"{over}\"\nsize = \"24MiB\"\n");
        volume(folder, &format!("{disk}{cut}{}", mapper("powercut")), &[("mapper", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "mapper");
        let mut flushed = Vec::new();
        for round in 1..=u8::MAX {
            let pages = (0..8_u64).map(|page| (u64::from(round) * 8 + page) << 12);
            let written = pages.clone().all(|at| raw.write(0, at, &[round; 4096]).unwrap() == 0);
            if !written || raw.flush().unwrap() != 0 {
                break;
            }
            flushed.extend(pages.map(|at| (at, round)));
        }
        assert!((24..1200).contains(&flushed.len()), "{kind}: {} pages before the cut", flushed.len());
        raw.ask(READ, 0, 1, 0, 4096).unwrap();
        server.kill();
        volume(folder, &format!("{disk}{}", mapper("disk")), &[("mapper", "")]);
        let server = Server::start(folder, kind).unwrap();
        let mut raw = Raw::open(folder, "mapper");
        for (at, round) in flushed {
            assert_eq!(raw.read(at, 4096).unwrap(), [round; 4096], "{kind}: {at}");
        }
        server.stop();
    }
}

#[test]
fn a_write_that_is_lost_or_torn_live_is_missed_by_clients_that_read_it() {
    for kind in KINDS {
        // Which sectors of a torn write are there is drawn anew by each server: of one write also none.
        for (what, which) in [("lost", "nth = 2"), ("torn", "for_ever = true")] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let disk = "[component.disk]\nram = \"1MiB\"\n[layer.lose]\nover = \"disk\"\n";
            volume(folder, &format!("{disk}what = \"{what}\"\n{which}\n"), &[("lose", "")]);
            let Some(server) = Server::start(folder, kind) else { continue };
            let mut raw = Raw::open(folder, "lose");
            let pages = 0..32_u64;
            for page in pages.clone() {
                let answer = raw.write(0, page << 12, &[7; 4096]).unwrap();
                assert_eq!(answer, 0, "it is acknowledged all the same");
            }
            let found = pages.map(|page| {
                let found = raw.read(page << 12, 4096).unwrap();
                found.chunks(512).filter(|sector| **sector == [7; 512]).count()
            });
            let found: Vec<usize> = found.collect();
            if what == "lost" {
                let expected = (0..32).map(|page| if page == 1 { 0 } else { 8 });
                assert!(found.iter().copied().eq(expected), "{kind}: sectors of each page: {found:?}");
            } else {
                let is_torn =
                    found.iter().all(|sectors| *sectors < 8) && found.iter().any(|sectors| *sectors > 0);
                assert!(is_torn, "{kind}: sectors of each page: {found:?}");
            }
            server.stop();
        }
    }
}
