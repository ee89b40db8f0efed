//! Components that are full, or shrink, under a volume.

use std::path::Path;
use std::process::Command;

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, skipped, volume};

const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// A small file system in memory; unmounted when dropped.
struct Small<'a>(&'a Path);

impl Small<'_> {
    /// `None`, with a message, where nothing can be mounted.
    fn mount(at: &Path) -> Option<Small<'_>> {
        std::fs::create_dir(at).unwrap();
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "small"]).arg(at).output();
        match output {
            Ok(output) if output.status.success() => Some(Small(at)),
            Ok(output) => {
                skipped("a full disk", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                skipped("a full disk", &error.to_string());
                None
            }
        }
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_what_was_written_stays() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let full = folder.join("full");
        let Some(_small) = Small::mount(&full) else { return };
        std::fs::File::create(full.join("disk.img")).unwrap().set_len(8 << 20).unwrap();
        volume(folder, "[component.disk]\nfile = \"full/disk.img\"\n", &[("disk", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "disk");
        let mut answers = Vec::new();
        for part in 0..64_u8 {
            answers.push(raw.write(FUA, u64::from(part) << 16, &vec![part + 1; 64 << 10]).unwrap());
        }
        assert!(answers.iter().all(|error| [0, ENOSPC].contains(error)), "{kind}: {answers:?}");
        let taken = answers.iter().filter(|error| **error == 0).count();
        assert!((20..=32).contains(&taken), "{kind}: {taken} parts of 64 KiB fit into 2 MiB");
        for part in (0..64_u8).filter(|part| answers[usize::from(*part)] == 0) {
            let read = raw.read(u64::from(part) << 16, 64 << 10).unwrap();
            assert!(read.iter().all(|byte| *byte == part + 1), "{kind}: part {part}");
        }
        assert_eq!(raw.flush().unwrap(), 0);
        drop(raw);
        server.stop();
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_where_it_ends() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let file = std::fs::File::create(folder.join("disk.img")).unwrap();
        file.set_len(1 << 20).unwrap();
        volume(folder, "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "disk");
        assert_eq!(raw.write(FUA, 0, &[7; 4096]).unwrap(), 0);
        file.set_len(512 << 10).unwrap();
        raw.ask(crate::raw::READ, 0, 9, 768 << 10, 4096).unwrap();
        assert_eq!(raw.reply().unwrap(), (9, EIO));
        assert_eq!(raw.read(0, 4096).unwrap(), [7; 4096], "the rest is as it was");
        ends_with_an_error(server);
    }
}

/// The server did not stop cleanly, and reports it.
fn ends_with_an_error(mut server: Server) {
    server.signal();
    assert!(!server.wait().success(), "what was written is lost");
}

#[test]
fn a_file_that_shrinks_and_grows_again_is_an_error_too() {
    const END: u64 = 1 << 20;
    for (kind, left, page) in
        KINDS.iter().flat_map(|kind| [(*kind, 0, END - 4096), (*kind, END / 4, END / 2)])
    {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let file = std::fs::File::create(folder.join("disk.img")).unwrap();
        file.set_len(END).unwrap();
        volume(folder, "[component.disk]\nfile = \"disk.img\"\n", &[("disk", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::open(folder, "disk");
        assert_eq!((raw.write(0, END / 2, &[7; 4096]).unwrap(), raw.flush().unwrap()), (0, 0));
        file.set_len(left).unwrap();
        let written = raw.write(0, page, &[8; 4096]).unwrap();
        assert!(written == EIO || page < END - 4096, "{kind}: its last block makes it as large as it was");
        assert_eq!(raw.flush().unwrap(), EIO, "{kind}: {left} bytes were left");
        assert_eq!(raw.write(FUA, page, &[9; 4096]).unwrap(), EIO, "{kind}");
        assert!(file.metadata().unwrap().len() < END, "{kind}");
        ends_with_an_error(server);
    }
}

#[test]
fn over_a_component_that_is_only_read_nothing_is_written() {
    const EPERM: u32 = 1;
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        crate::sparse(&folder.join("disk.img"), 8 << 20);
        let disk = "[component.disk]\nfile = \"disk.img\"\nread_only = true\n";
        volume(folder, &format!("{disk}[layer.cache]\nover = \"disk\"\n"), &[("cache", "")]);
        let Some(server) = Server::start(folder, kind) else { continue };
        let mut raw = Raw::connect(folder);
        raw.send(&3_u32.to_be_bytes()).unwrap();
        raw.option(1, b"cache").unwrap();
        assert_eq!(raw.take(10).unwrap()[9] & 2, 2, "{kind}: clients are told that it is read-only");
        assert_eq!(raw.write(0, 0, &[1; 4096]).unwrap(), EPERM, "{kind}");
        assert_eq!(raw.read(0, 4096).unwrap(), [0; 4096]);
        assert_eq!(raw.flush().unwrap(), 0, "{kind}");
        server.stop();
    }
}
