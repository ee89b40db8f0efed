//! Requests that reach the disk below a component: the disk records its writes and flushes, and fails on command. So
//! the kernel itself shows the effect of FUA and flushes, for both kinds of reactors. Needs root, FUSE and loop
//! devices.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::raw::{FLUSH, FUA, Raw};
use crate::server::{KINDS, Server, skipped, volume};

/// A disk of 16 MiB as a loop device, by nbdkit and nbdfuse; removed when dropped. For a file of FUSE itself the kernel
/// leaves durability to the daemon.
struct Disk {
    folder: PathBuf,
    device: String,
    children: Vec<Child>,
}

/// nbdkit's handler of a request: it logs it, and fails while a file requests that. All reads return zeroes.
const METHODS: [&str; 7] = [
    "get_size=echo 16M",
    "can_write=exit 0",
    "can_flush=exit 0",
    "can_fua=echo emulate",
    "pread=head -c $3 /dev/zero",
    "pwrite=cat >/dev/null; echo write >>\"$notes\"; [ ! -e \"$notes.write\" ] || { echo EIO >&2; exit 1; }",
    "flush=echo flush >>\"$notes\"; [ ! -e \"$notes.flush\" ] || { echo EIO >&2; exit 1; }",
];

impl Disk {
    /// `None`, with a message, where that is impossible.
    fn new(folder: &Path) -> Option<Disk> {
        let (socket, file) = (folder.join("below"), folder.join("disk.img"));
        std::fs::write(&file, []).unwrap();
        let mut disk = Disk { folder: folder.to_owned(), device: String::new(), children: Vec::new() };
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["-f", "-U"]).arg(&socket).arg("eval").args(METHODS).env("notes", disk.notes());
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.arg(&file).arg(uri);
        for (mut command, there) in [(nbdkit, &socket), (nbdfuse, &file)] {
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            disk.children.extend(child);
            let is_there = || std::fs::metadata(there).is_ok_and(|found| there == &socket || found.len() > 0);
            let waited = (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                is_there()
            });
            if !waited {
                skipped("a disk below a component", "nbdkit or nbdfuse is not installed, or may not mount");
                return None;
            }
        }
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        if !output.status.success() {
            skipped("losetup", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut disk.device);
        Some(disk)
    }

    fn notes(&self) -> PathBuf {
        self.folder.join("notes")
    }

    /// The requests since the last call.
    fn asked(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.notes()).unwrap_or_default();
        let _ = std::fs::remove_file(self.notes());
        notes.lines().map(str::to_owned).collect()
    }

    /// Makes these requests fail from now on, or succeed again.
    fn fails(&self, what: &str, fails: bool) {
        let marker = self.notes().with_extension(what);
        if fails {
            std::fs::write(marker, []).unwrap();
        } else {
            std::fs::remove_file(marker).unwrap();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let file = self.folder.join("disk.img").display().to_string();
        if !self.device.is_empty() {
            let _ = Command::new("losetup").args(["-d", &self.device]).status();
        }
        for (program, arguments) in [("fusermount", ["-u", "-z", &file]), ("umount", ["-l", "-q", &file])] {
            let _ = Command::new(program).args(arguments).stderr(Stdio::null()).status();
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Such a disk, served past the page cache and through it, on both kinds of reactors.
fn on_each(test: impl Fn(&Disk, &mut Raw, &str)) {
    if !rustix::process::geteuid().is_root() {
        return skipped("a disk below a component", "loop devices need root");
    }
    for kind in KINDS {
        for cached in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let Some(disk) = Disk::new(folder.path()) else { return };
            let component = format!("[component.disk]\nfile = \"{}\"\ncached = {cached}\n", disk.device);
            volume(folder.path(), &component, &[("disk", "")]);
            let Some(server) = Server::start(folder.path(), kind) else { continue };
            let mut raw = Raw::open(folder.path(), "disk");
            disk.asked();
            test(&disk, &mut raw, &format!("{kind}, cached: {cached}"));
            drop(raw);
            server.kill();
        }
    }
}

#[test]
fn what_is_durable_when_answered_was_flushed_by_the_disk() {
    on_each(|disk, raw, what| {
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), 0);
        let asked = disk.asked();
        assert!(!asked.contains(&"flush".to_owned()), "{what}: {asked:?}");
        assert_eq!(raw.flush().unwrap(), 0);
        assert_eq!(disk.asked().last().unwrap(), "flush", "{what}");
        // A page, and a request large enough to be split, or to use other memory.
        for bytes in [512, 4096, 256 << 10, 1 << 20] {
            assert_eq!(raw.write(FUA, 8192, &vec![2; bytes]).unwrap(), 0);
            let asked = disk.asked();
            assert!(asked.contains(&"write".to_owned()), "{what}, {bytes} bytes: {asked:?}");
            assert_eq!(asked.last().unwrap(), "flush", "{what}, {bytes} bytes: {asked:?}");
        }
    });
}

#[test]
fn a_flush_that_failed_is_reported_to_all_and_for_ever() {
    on_each(|disk, raw, what| {
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), 0);
        disk.fails("flush", true);
        (0..4).for_each(|cookie| raw.ask(FLUSH, 0, cookie, 0, 0).unwrap());
        for _ in 0..4 {
            assert_eq!(raw.reply().unwrap().1, 5, "{what}: EIO");
        }
        disk.fails("flush", false);
        assert_eq!(raw.write(0, 4096, &[2; 4096]).unwrap(), 0);
        assert_eq!(raw.flush().unwrap(), 5, "{what}: what was dropped stays so");
    });
}

#[test]
fn a_write_that_fails_is_reported_and_so_is_fua() {
    on_each(|disk, raw, what| {
        disk.fails("write", true);
        assert_eq!(raw.write(FUA, 0, &[1; 4096]).unwrap(), 5, "{what}");
        disk.fails("write", false);
        assert_eq!(raw.write(FUA, 0, &[1; 4096]).unwrap(), 0, "{what}");
    });
}
