//! Components that are full, or shrink, under a volume.

use std::path::Path;
use std::process::Command;

use crate::raw::{FUA, Raw};
use crate::server::{KINDS, Server, skipped, volume};

const EIO: u32 = 5;
const ENOSPC: u32 = 28;

/// A small file system in memory; taken away when dropped.
struct Small<'a>(&'a Path);

impl Small<'_> {
    /// `None`, with a word, where nothing can be mounted.
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
fn a_full_disk_is_told_and_what_was_written_stays() {
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
        server.stop();
    }
}
