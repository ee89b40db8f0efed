//! The bytes of a disk as a file, and what a file system's own programs find in it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

/// What is not zeroes is written in pieces of this many bytes.
const PIECE: usize = 4096;

/// Why a state was not found good.
#[derive(Debug)]
pub enum Unfit {
    /// It is not.
    Wrong(String),
    /// It cannot be looked at here.
    Skipped(String),
}

/// What is expected of the files in a folder.
pub type Judge<'a> = &'a dyn Fn(&Path) -> Result<(), String>;

/// A file system.
pub struct Kind {
    /// Its name, and that of its stream.
    pub name: &'static str,
    /// Repairs what is in a file, and has its files looked at: in a folder of which they are below.
    look: fn(&Path, &Path, Judge<'_>) -> Result<(), Unfit>,
}

/// By `e2fsck` and `debugfs`, which need no root.
pub const EXT4: Kind = Kind { name: "ext4", look: ext4 };
/// Mounted, which takes its log in, and then checked by `xfs_repair`.
pub const XFS: Kind = Kind { name: "xfs", look: xfs };

impl Kind {
    /// Whether a disk of these bytes can be repaired and its files are then judged good.
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

/// Runs a program, which may be where only root looks.
fn run(program: &str, arguments: &[&str]) -> Result<Output, Unfit> {
    let run = |program: &str| Command::new(program).args(arguments).output();
    let output = run(program).or_else(|_| run(&format!("/usr/sbin/{program}")));
    output.map_err(|error| Unfit::Skipped(format!("{program}: {error}")))
}

/// The same, which ends with one of these codes.
fn ends(program: &str, arguments: &[&str], codes: &[i32]) -> Result<(), Unfit> {
    let output = run(program, arguments)?;
    if output.status.code().is_some_and(|code| codes.contains(&code)) {
        return Ok(());
    }
    let told = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    Err(Unfit::Wrong(format!("{program} ended with {}, expected {codes:?}: {told}", output.status)))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn ext4(image: &Path, files: &Path, judge: Judge<'_>) -> Result<(), Unfit> {
    // 1: errors were corrected, which those of a journal that was not replayed are.
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
