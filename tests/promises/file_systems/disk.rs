//! A disk's bytes as a file, and its check by a file system's own programs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

/// Bytes that are not zeroes are written in pieces of this size.
const PIECE: usize = 4096;

/// Why a state was not accepted.
#[derive(Debug)]
pub enum Unfit {
    /// The file system is damaged.
    Wrong(String),
    /// It cannot be checked on this machine.
    Skipped(String),
}

/// The expected files of a folder.
pub type Judge<'a> = &'a dyn Fn(&Path) -> Result<(), String>;

/// A file system.
pub struct Kind {
    /// Its name, and that of its stream.
    pub name: &'static str,
    /// Repairs a file system in a file, and checks its files: in the folder that contains them.
    look: fn(&Path, &Path, Judge<'_>) -> Result<(), Unfit>,
}

/// By `e2fsck` and `debugfs`, which need no root.
pub const EXT4: Kind = Kind { name: "ext4", look: ext4 };
/// Mounts it, which replays its log, and checks it by `xfs_repair`.
pub const XFS: Kind = Kind { name: "xfs", look: xfs };

impl Kind {
    /// Whether a disk of these bytes can be repaired and its files are then correct.
    pub fn repaired(&self, bytes: &[u8], folder: &Path, judge: Judge<'_>) -> Result<(), Unfit> {
        let io = |error: std::io::Error| Unfit::Wrong(format!("{}: {error}", folder.display()));
        let (image, files) = (folder.join("image"), folder.join("files"));
        let _ = std::fs::remove_dir_all(&files);
        std::fs::create_dir(&files).map_err(io)?;
        let file = File::create(&image).map_err(io)?;
        file.set_len(bytes.len() as u64).map_err(io)?;
        for (number, piece) in (0..).zip(bytes.chunks(PIECE)) {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, number * PIECE as u64).map_err(io)?;
            }
        }
        drop(file);
        (self.look)(&image, &files, judge)
    }
}

/// Runs a program, which may be outside a user's path.
fn run(program: &str, arguments: &[&str]) -> Result<Output, Unfit> {
    let run = |program: &str| Command::new(program).args(arguments).output();
    let output = run(program).or_else(|_| run(&format!("/usr/sbin/{program}")));
    output.map_err(|error| Unfit::Skipped(format!("{program}: {error}")))
}

/// As above, for a program that ends with one of these codes.
fn ends(program: &str, arguments: &[&str], codes: &[i32]) -> Result<(), Unfit> {
    let output = run(program, arguments)?;
    if output.status.code().is_some_and(|code| codes.contains(&code)) {
        return Ok(());
    }
    let message = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    Err(Unfit::Wrong(format!("{program} ended with {}, expected {codes:?}: {message}", output.status)))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn ext4(image: &Path, files: &Path, judge: Judge<'_>) -> Result<(), Unfit> {
    // 1: errors were corrected, which includes replaying a journal.
    ends("e2fsck", &["-fy", &text(image)], &[0, 1])?;
    ends("debugfs", &["-R", &format!("rdump / {}", files.display()), &text(image)], &[0])?;
    judge(files).map_err(Unfit::Wrong)
}

/// A mounted file system; unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = run("umount", &[&text(self.0)]);
    }
}

fn xfs(image: &Path, files: &Path, judge: Judge<'_>) -> Result<(), Unfit> {
    let user = run("id", &["-u"])?;
    if user.stdout.trim_ascii() != b"0" {
        return Err(Unfit::Skipped("mounting needs root".to_owned()));
    }
    run("xfs_repair", &["-V"])?;
    let can = run("losetup", &["--find"])?;
    if !can.status.success() {
        return Err(Unfit::Skipped("there is no loop device".to_owned()));
    }
    ends("mount", &["-o", "loop,nouuid", &text(image), &text(files)], &[0])?;
    let mounted = Mounted(files);
    judge(files).map_err(Unfit::Wrong)?;
    drop(mounted);
    ends("xfs_repair", &["-n", &text(image)], &[0])
}
