//! A block device of an export: a file by nbdfuse, over a relay, and a loop device over it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use seekless_serve::server::Address;
use seekless_volume::live::{ServedExport, is_root};
use serde::{Deserialize, Serialize};

use super::{APPEARS, now, pause, process_with, relay, server_of, stop, succeed};

/// Time for other programs to close the device.
const CLOSED: Duration = Duration::from_secs(10);

/// A block device, and what it is made of.
#[derive(Serialize, Deserialize)]
pub struct Device {
    /// The loop device.
    pub node: PathBuf,
    /// Folder that nbdfuse is mounted on, in that of the mount.
    fuse: PathBuf,
}

/// Checks that everything is there that a block device is made of.
///
/// # Errors
/// All that is missing.
pub fn check() -> anyhow::Result<()> {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push("root");
    }
    for (path, name) in [
        ("/dev/fuse", "FUSE (/dev/fuse: modprobe fuse)"),
        ("/dev/loop-control", "loop devices (/dev/loop-control: modprobe loop)"),
    ] {
        if !Path::new(path).exists() {
            missing.push(name);
        }
    }
    for (program, name) in [
        ("nbdfuse", "nbdfuse (a package of libnbd, such as libnbd-bin or nbdfuse)"),
        ("losetup", "losetup (util-linux)"),
        ("mount", "mount (util-linux)"),
    ] {
        let runs =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if runs.is_err() {
            missing.push(name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("mount: missing here: {}", missing.join(", "))
}

/// Whether something is mounted on this folder.
pub fn is_mounted(folder: &Path) -> anyhow::Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    // Spaces and the like are written as octal numbers.
    let name: String = folder.display().to_string().chars().map(escaped).collect();
    Ok(mounts.lines().any(|line| line.split(' ').nth(4) == Some(&*name)))
}

fn escaped(letter: char) -> String {
    match letter {
        ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", letter as u32),
        _ => letter.to_string(),
    }
}

impl Device {
    /// A device in this folder of a mount, of which nothing is there yet.
    pub fn new(place: &Path) -> Device {
        Device { node: PathBuf::new(), fuse: place.join("fuse") }
    }

    /// Makes it of an export of this volume.
    pub fn attach(&mut self, volume: &Path, export: &ServedExport) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.fuse).with_context(|| self.fuse.display().to_string())?;
        let address: Address = export.nbd.parse().with_context(|| format!("export {}", export.name))?;
        // A relative path is beside the volume file.
        let address = match address {
            Address::Unix(path) => Address::Unix(volume.with_file_name("").join(path)),
            tcp @ Address::Tcp(_) => tcp,
        };
        let uri = relay::start(self.place(), &address.uri(&export.name, false))?;
        self.make(&uri, export.read_only)
    }

    /// Starts nbdfuse on the relay, and makes a loop device of its file.
    fn make(&mut self, uri: &str, read_only: bool) -> anyhow::Result<()> {
        let (file, log) = (self.file(), self.place().join("nbdfuse.log"));
        let output = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new("nbdfuse");
        if read_only {
            command.arg("--readonly");
        }
        command.arg(&file).arg(uri);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut child = command.spawn().context("nbdfuse")?;
        let begun = now();
        while std::fs::metadata(&file).is_err() {
            if let Some(ended) = child.try_wait()? {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("nbdfuse ended with {ended}: {}", said.trim());
            }
            if now() - begun > APPEARS {
                let _ = child.kill();
                bail!("nbdfuse: {} does not appear", file.display());
            }
            pause();
        }
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]);
        if read_only {
            losetup.arg("--read-only");
        }
        self.node = succeed(losetup.arg(&file))?.into();
        Ok(())
    }

    /// Detaches the loop device, unmounts nbdfuse and stops the relay, as far as they are still there, and waits for
    /// their ends. The volume's server has to answer: they write to it what it has not got yet.
    pub fn detach(&self) -> anyhow::Result<()> {
        for node in self.nodes() {
            succeed(Command::new("losetup").arg("--detach").arg(node))?;
        }
        if let Some(process) = self.nbdfuse().filter(|_| !self.file().exists()) {
            // It was not mounted yet, and has nothing.
            succeed(Command::new("kill").arg(process.to_string()))?;
        }
        // A program that looks at new devices, such as udev, may still have the loop device open: it goes when that
        // closes it.
        let begun = now();
        while is_mounted(&self.fuse)? {
            let unmounted = succeed(Command::new("umount").arg(&self.fuse));
            if unmounted.is_err() && now() - begun < CLOSED {
                pause();
                continue;
            }
            unmounted?;
        }
        // It flushes, and disconnects from the server.
        let begun = now();
        while let Some(process) = self.nbdfuse() {
            if now() - begun > APPEARS {
                bail!("nbdfuse (process {process}) does not end");
            }
            pause();
        }
        stop(&relay::volume(self.place()))
    }

    /// Ends the relay, with the writes that it keeps: requests fail from then on.
    pub fn give_up(&self) -> anyhow::Result<()> {
        match server_of(&relay::volume(self.place())) {
            Some(relay) => succeed(Command::new("kill").args(["-9", &relay.to_string()])).map(drop),
            None => Ok(()),
        }
    }

    /// Whether something of it is there that may have writes for the volume's server.
    pub fn is_there(&self) -> anyhow::Result<bool> {
        Ok(!self.nodes().is_empty() || is_mounted(&self.fuse)?)
    }

    /// Loop devices that show the file of nbdfuse.
    fn nodes(&self) -> Vec<PathBuf> {
        let ours = self.file();
        let shows = |entry: &Path| {
            let file = std::fs::read_to_string(entry.join("loop/backing_file")).unwrap_or_default();
            Path::new(file.trim_end()) == ours
        };
        let entries = std::fs::read_dir("/sys/block").into_iter().flatten();
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|entry| shows(entry));
        entries.filter_map(|entry| Some(Path::new("/dev").join(entry.file_name()?))).collect()
    }

    /// Folder of the mount.
    fn place(&self) -> &Path {
        self.fuse.parent().unwrap_or(&self.fuse)
    }

    /// The file that nbdfuse shows.
    fn file(&self) -> PathBuf {
        self.fuse.join("disk.raw")
    }

    /// Process number of nbdfuse, if it runs.
    fn nbdfuse(&self) -> Option<u32> {
        let file = self.file().display().to_string();
        process_with(|words| words.first() == Some(&"nbdfuse") && words.contains(&&*file))
    }
}
