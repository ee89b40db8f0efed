//! Other servers' exports as components: ours over ours, directly and with nbdkit and its faults in between.

use std::process::Command;
use std::time::Duration;

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, skipped, succeeds, volume};

const EIO: u32 = 5;

#[test]
fn a_mapper_lies_over_the_export_of_another_server() {
    for kind in KINDS {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        volume(far.path(), "[component.m]\nram = \"32MiB\"\n", &[("m", "")]);
        let Some(other) = Server::start(far.path(), kind) else { continue };
        let components =
            format!("[component.far]\nnbd = \"{}\"\n[layer.mapper]\nover = \"far\"\n", other.uri("m"));
        volume(near.path(), &components, &[("mapper", "")]);
        let server = Server::start(near.path(), kind).unwrap();
        let mut raw = Raw::open(near.path(), "mapper");
        for page in 0..200_u8 {
            let flags = if page % 16 == 0 { FUA } else { 0 };
            assert_eq!(raw.write(flags, u64::from(page) << 12, &[page; 4096]).unwrap(), 0);
        }
        assert_eq!(raw.flush().unwrap(), 0);
        assert_eq!(raw.read(100 << 12, 4096).unwrap(), [100; 4096]);
        if let Some(said) = succeeds(
            "qemu-io",
            &["-f", "raw", "-c", "write -P 9 0 8M", "-c", "read -P 9 0 8M", &server.uri("mapper")],
        ) {
            assert!(said.contains("read 8388608/8388608"), "{said}");
        }
        // The other goes: that is an error, and no wrong data; and the volume stops all the same.
        other.kill();
        raw.ask(crate::raw::READ, 0, 4, 100 << 12, 4096).unwrap();
        assert_eq!(raw.reply().unwrap(), (4, EIO));
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), EIO);
        server.kill();
    }
}

#[test]
fn what_nbdkit_fails_below_fails_one_request() {
    for kind in KINDS {
        let (folder, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        volume(far.path(), "[component.m]\nram = \"16MiB\"\n", &[("m", "")]);
        let Some(below) = Server::start(far.path(), kind) else { continue };
        let socket = folder.path().join("far").display().to_string();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", &socket, "--filter=error", "--filter=delay", "nbd"]);
        command.arg(format!("uri={}", below.uri("m")));
        command.args(["error-pread=EIO", "error-pread-rate=20%", "delay-read=1ms"]);
        let Ok(mut other) = command.stderr(std::process::Stdio::null()).spawn() else {
            return skipped("nbdkit", "it is not installed");
        };
        while !std::path::Path::new(&socket).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        volume(
            folder.path(),
            &format!("[component.far]\nnbd = \"nbd+unix:///?socket={socket}\"\n"),
            &[("far", "")],
        );
        if let Some(server) = Server::start(folder.path(), kind) {
            let mut raw = Raw::open(folder.path(), "far");
            assert_eq!(raw.write(FUA, 0, &vec![6; 1 << 20]).unwrap(), 0);
            let mut failed = 0;
            for page in 0..100 {
                raw.ask(crate::raw::READ, 0, page, page << 12, 4096).unwrap();
                match raw.reply().unwrap() {
                    (_, 0) => assert_eq!(raw.take(4096).unwrap(), [6; 4096]),
                    (_, error) => failed += u32::from(error == EIO),
                }
            }
            assert!((2..60).contains(&failed), "{kind}: {failed} of 100 fail");
            server.stop();
        }
        other.kill().unwrap();
        other.wait().unwrap();
        below.stop();
    }
}

#[test]
fn a_component_that_does_not_answer_in_time_is_an_error_in_time() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("far").display().to_string();
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U", &socket, "--filter=delay", "memory", "16M", "delay-read=3"]);
        let Ok(mut other) = command.stderr(std::process::Stdio::null()).spawn() else {
            return skipped("nbdkit", "it is not installed");
        };
        while !std::path::Path::new(&socket).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let far = format!("[component.far]\nnbd = \"nbd+unix:///?socket={socket}\"\ntimeout = \"300ms\"\n");
        volume(folder.path(), &far, &[("far", "")]);
        if let Some(server) = Server::start(folder.path(), kind) {
            let mut raw = Raw::open(folder.path(), "far");
            let began = std::time::Instant::now();
            raw.ask(crate::raw::READ, 0, 7, 0, 4096).unwrap();
            assert_eq!(raw.reply().unwrap(), (7, EIO), "{kind}");
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(290) && took < Duration::from_millis(2_900),
                "{kind}: {took:?}"
            );
            // What is quick enough is answered, and the late answer is nobody else's.
            assert_eq!(raw.write(FUA, 0, &[8; 4096]).unwrap(), 0);
            std::thread::sleep(Duration::from_secs(3).saturating_sub(began.elapsed()));
            assert_eq!(raw.write(FUA, 4096, &[9; 4096]).unwrap(), 0);
            server.stop();
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
