//! Block devices as components: a loop device, where available. And the kernel's limit of pinned memory.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, client, serve, skipped, volume};
use crate::{noise, sparse};

const BYTES: u64 = 16 << 20;

/// A loop device; detached when dropped.
pub struct Loop(pub String);

impl Loop {
    /// `None`, with a message, where there are none.
    pub fn over(file: &Path) -> Option<Loop> {
        sparse(file, BYTES);
        let output = client("losetup", &["--find", "--show", &file.display().to_string()])?;
        if output.status.success() {
            return Some(Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()));
        }
        skipped("a block device", String::from_utf8_lossy(&output.stderr).trim());
        None
    }

    /// An attribute of its queue in sysfs.
    fn queue(&self, what: &str) -> Option<u64> {
        let name = PathBuf::from(&self.0);
        let folder = Path::new("/sys/block").join(name.file_name()?).join("queue").join(what);
        std::fs::read_to_string(folder).ok()?.trim().parse().ok()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// While a device is served, its file system cannot be checked or mounted beside it; afterwards it can.
#[test]
fn the_file_system_of_a_served_device_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let Some(device) = Loop::over(&folder.join("disk.img")) else { return };
    let Some(made) = client("mkfs.ext4", &["-q", "-F", &device.0]) else { return };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let cached = format!("[component.disk]\nfile = \"{}\"\n[layer.cache]\nover = \"disk\"\n", device.0);
    volume(folder, &cached, &[("cache", "")]);
    let check = || {
        let checked = client("e2fsck", &["-f", "-p", &device.0]).unwrap();
        let said = [checked.stdout, checked.stderr].concat();
        (checked.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    for kind in KINDS {
        let Some(server) = Server::start(folder, kind) else { continue };
        let (code, said) = check();
        assert!(code == Some(8) && said.contains("in use"), "{kind}: {code:?} {said}");
        let mounted = client("mount", &[&device.0, &folder.display().to_string()]).unwrap();
        assert!(!mounted.status.success(), "{kind}");
        server.stop();
        let (code, said) = check();
        assert_eq!(code, Some(0), "{kind}: {said}");
    }
}

#[test]
fn a_block_device_is_served_alone_and_keeps_what_was_flushed() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let file = folder.join("disk.img");
        let Some(device) = Loop::over(&file) else { return };
        let components = format!("[component.disk]\nfile = \"{}\"\n", device.0);
        volume(folder, &components, &[("disk", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        // Another server, by another file, and an exclusive open: both are refused.
        let other = tempfile::tempdir().unwrap();
        volume(other.path(), &components, &[("disk", "")]);
        let output = serve(other.path(), kind).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("in use"), "{kind}: {said}");

        if let Some(report) = client("nbdinfo", &["--json", &server.uri("disk")]) {
            let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
            let export = &report["exports"][0];
            assert_eq!(export["export-size"], BYTES, "{kind}: {export}");
            assert_eq!(export["block_size_minimum"], 1, "{export}");
            let turns = device.queue("rotational") == Some(1);
            assert_eq!(export["is_rotational"], turns, "{kind}: {export}");
        }
        let mut raw = Raw::open(folder, "disk");
        let bytes = noise(1 << 20, 5);
        assert_eq!(raw.write(0, 0, &bytes).unwrap(), 0);
        assert_eq!(raw.write(FUA, BYTES - 4096, &[9; 4096]).unwrap(), 0);
        assert_eq!(raw.flush().unwrap(), 0);
        let there = std::fs::read(&file).unwrap();
        assert!(there[..1 << 20] == bytes && there[there.len() - 4096..] == [9; 4096], "{kind}");
        // Trimmed, it reads as zeroes or as before; the file below got holes, where the system knows how.
        raw.ask(4, 0, 5, 0, 1 << 20).unwrap();
        assert_eq!(raw.reply().unwrap(), (5, 0), "{kind}");
        let read = raw.read(0, 4096).unwrap();
        assert!(read == [0; 4096] || read == bytes[..4096], "{kind}");
        raw.ask(6, 0, 6, 4096, 8192).unwrap();
        assert_eq!(raw.reply().unwrap(), (6, 0), "{kind}");
        assert_eq!(raw.read(4096, 8192).unwrap(), [0; 8192]);
        assert_eq!(raw.read(BYTES - 4096, 4096).unwrap(), [9; 4096]);
        drop(raw);
        server.stop();
    }
}

/// A limit of locked memory that is enough for a ring, but not for the memory of requests besides.
const HELD: &str = "--memlock=2097152:2097152";

#[test]
fn without_registered_memory_a_file_is_served_as_well_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("disk.img")).unwrap().set_len(16 << 20).unwrap();
    volume(folder.path(), "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", HELD]);
    command
        .arg(env!("CARGO_BIN_EXE_seekless"))
        .args(["volume", "serve", "--log", "plain", "--io", "io_uring"]);
    command.arg(folder.path().join("volume.toml")).stderr(Stdio::piped());
    let Ok(mut server) = command.spawn() else { return skipped("setpriv", "it is not installed") };
    let mut said = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let before: Vec<String> = said.by_ref().take_while(|line| !line.starts_with("try: ")).collect();
    let reported = before.iter().any(|line| line.starts_with("io: without registered buffers"));
    if before.last().is_none_or(|last| !last.starts_with("serving")) {
        skipped("a server that may hold little memory", &before.join("; "));
    } else {
        assert!(reported, "{before:?}");
        let mut raw = Raw::open(folder.path(), "disk");
        assert_eq!(raw.write(FUA, 4096, &[9; 8192]).unwrap(), 0);
        assert_eq!(raw.read(0, 16384).unwrap(), [[0; 4096], [9; 4096], [9; 4096], [0; 4096]].concat());
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
