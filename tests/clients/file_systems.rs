//! Real file systems on a live volume, by nbdfuse and a loop device: their files are there after a remount, and synced
//! files are there after the server was killed. Needs root, FUSE, loop devices and the file systems' programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fsx::{Expected, Load};
use crate::noise;
use crate::server::{KINDS, Server, client, skipped, succeeds, volume};

/// A file system: how it is made, and how it is checked without being changed.
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const FILE_SYSTEMS: [Kind; 3] = [
    Kind { name: "ext4", make: &["mkfs.ext4", "-q", "-F"], check: &["e2fsck", "-f", "-n"] },
    Kind { name: "xfs", make: &["mkfs.xfs", "-q", "-f"], check: &["xfs_repair", "-n"] },
    Kind { name: "btrfs", make: &["mkfs.btrfs", "-q", "-f"], check: &["btrfs", "check"] },
];

/// An export as a block device of the kernel; removed when dropped.
struct Attached {
    folder: PathBuf,
    fuse: Child,
    device: String,
}

impl Attached {
    /// `None`, with a message, where that is impossible.
    fn new(server: &Server, export: &str) -> Option<Attached> {
        let file = server.folder.join("volume.raw");
        std::fs::write(&file, []).unwrap();
        let mut command = Command::new("nbdfuse");
        let fuse =
            command.arg(&file).arg(server.uri(export)).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(fuse) = fuse else {
            skipped("nbdfuse", "it is not installed");
            return None;
        };
        let mut attached = Attached { folder: server.folder.clone(), fuse, device: String::new() };
        // It is ready once its size is known.
        let there = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            std::fs::metadata(&file).is_ok_and(|file| file.len() > 0)
        });
        if !there {
            skipped("nbdfuse", "it mounts nothing here");
            return None;
        }
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        if !output.status.success() {
            skipped("losetup", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut attached.device);
        Some(attached)
    }

    /// A new file system on it.
    fn make(&self, kind: &Kind) {
        let make: Vec<&str> = kind.make[1..].iter().copied().chain([&*self.device]).collect();
        // mkfs.btrfs asks for the files below all mounted loop devices; it fails where a file's server is gone.
        let gone = |made: &Output| {
            String::from_utf8_lossy(&made.stderr).contains("Transport endpoint is not connected")
        };
        let mut made = client(kind.make[0], &make).expect("it was there before");
        let mut tries = 0;
        while gone(&made) && tries < 100 {
            std::thread::sleep(Duration::from_millis(100));
            unmount_what_is_dead();
            made = client(kind.make[0], &make).expect("it was there before");
            tries += 1;
        }
        assert!(made.status.success(), "{make:?}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn mount(&self) -> Mounted {
        let at = self.folder.join("mounted");
        std::fs::create_dir_all(&at).unwrap();
        succeeds("mount", &[&self.device, &at.display().to_string()]).expect("mount is everywhere");
        Mounted { at }
    }

    /// The file system's own check finds nothing.
    fn check(&self, kind: &Kind) {
        let arguments: Vec<&str> = kind.check[1..].iter().copied().chain([&*self.device]).collect();
        succeeds(kind.check[0], &arguments).expect("it was there before");
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let quiet = |program: &str, arguments: &[&str]| {
            let _ = Command::new(program).args(arguments).stderr(Stdio::null()).status();
        };
        if !self.device.is_empty() {
            quiet("losetup", &["-d", &self.device]);
        }
        quiet("fusermount", &["-u", "-z", &self.folder.join("volume.raw").display().to_string()]);
        quiet("umount", &["-l", &self.folder.join("volume.raw").display().to_string()]);
        let _ = self.fuse.kill();
        let _ = self.fuse.wait();
    }
}

/// Unmounts the file systems on loop devices whose file has no server: what a run that was killed has left.
fn unmount_what_is_dead() {
    for line in std::fs::read_to_string("/proc/self/mounts").unwrap().lines() {
        let mut fields = line.split(' ');
        let (device, at) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let Some(number) = device.strip_prefix("/dev/loop") else { continue };
        let below = std::fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file"));
        let Err(error) = std::fs::metadata(below.unwrap_or_default().trim_end()) else { continue };
        if error.kind() == std::io::ErrorKind::NotConnected {
            let _ = Command::new("umount").args(["-l", at]).status();
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

/// A mounted file system; unmounted when dropped.
struct Mounted {
    at: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.at).stderr(Stdio::null()).status();
        if !done.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

/// Files of `kib` KiB each, whose contents follow from their numbers.
fn write(at: &Path, numbers: std::ops::Range<u64>) {
    for number in numbers {
        std::fs::write(at.join(number.to_string()), content(number)).unwrap();
    }
}

fn content(number: u64) -> Vec<u8> {
    noise((1 + number as usize * 37 % 300) << 10, number)
}

fn expect(at: &Path, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let found = std::fs::read(at.join(number.to_string()))
            .unwrap_or_else(|error| panic!("file {number}: {error}"));
        assert!(found == content(number), "file {number} is not what was written");
    }
}

/// The layers under the file system, and the export's name.
fn volumes() -> BTreeMap<&'static str, &'static str> {
    let disk = "[component.disk]\nfile = \"disk.img\"\n";
    let mapper = "[component.disk]\nfile = \"disk.img\"\n[layer.mapper]\nover = \"disk\"\n";
    let borg = "[component.disk]\nfile = \"disk.img\"\n[slice.home]\nof = \"disk\"\nsize = \"384MiB\"\n\
                [slice.bopt]\nof = \"disk\"\nat = \"384MiB\"\n[layer.borg]\nover = \"home\"\nbopt = \"bopt\"\n\
                reconfigure = \"every 1s\"\n";
    let lld = "[component.disk]\nfile = \"disk.img\"\n[layer.lld]\nover = \"disk\"\n";
    let cache = "[component.disk]\nfile = \"disk.img\"\n[layer.cache]\nover = \"disk\"\nsize = \"4MiB\"\n\
                 prewrite = true\nprefetch = \"128KiB\"\n";
    BTreeMap::from([("disk", disk), ("cache", cache), ("lld", lld), ("mapper", mapper), ("borg", borg)])
}

/// Runs a test on each volume with each available file system, alternating the kind of reactor.
fn on_each(file_systems: &[&Kind], test: impl Fn(&Path, &str, &str, &Kind)) {
    if !rustix::process::geteuid().is_root() {
        return skipped("file systems", "mounting needs root");
    }
    for (number, kind) in file_systems.iter().enumerate() {
        if Command::new(kind.make[0]).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
        {
            skipped(kind.name, &format!("{} is not installed", kind.make[0]));
            continue;
        }
        for (turn, (export, components)) in volumes().into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            std::fs::File::create(folder.path().join("disk.img")).unwrap().set_len(448 << 20).unwrap();
            volume(folder.path(), components, &[(export, "")]);
            test(folder.path(), export, KINDS[(number + turn) % 2], kind);
        }
    }
}

/// Files that `fill` writes to a new file system are there, by `is_there`, when it is mounted again, and after the
/// server was started again.
fn outlasts<T>(
    (folder, export, how, kind): (&Path, &str, &str, &Kind),
    fill: impl Fn(&Path) -> T,
    is_there: impl Fn(&Path, &T),
) {
    let Some(server) = Server::start(folder, how) else { return };
    let Some(attached) = Attached::new(&server, export) else { return };
    attached.make(kind);
    let mounted = attached.mount();
    let filled = fill(&mounted.at);
    is_there(&mounted.at, &filled);
    succeeds("fstrim", &[&mounted.at.display().to_string()]);
    drop(mounted);
    let again = |server: Server, attached: Attached| {
        attached.check(kind);
        let mounted = attached.mount();
        is_there(&mounted.at, &filled);
        drop((mounted, attached));
        let last = server.stop();
        assert!(last.contains(", 0 of them with an error"), "{last}");
    };
    again(server, attached);
    let server = Server::start(folder, how).unwrap();
    let attached = Attached::new(&server, export).unwrap();
    again(server, attached);
}

#[test]
fn file_systems_find_after_a_remount_what_they_wrote() {
    let all: Vec<&Kind> = FILE_SYSTEMS.iter().collect();
    on_each(&all, |folder, export, how, kind| {
        let fill = |at: &Path| {
            write(at, 0..150);
            let third = (0..150).step_by(3).map(|number: u64| at.join(number.to_string()));
            third.for_each(|path| std::fs::remove_file(path).unwrap());
            write(at, 150..200);
        };
        let is_there = |at: &Path, (): &()| {
            expect(at, (0..200).filter(|number| *number >= 150 || number % 3 != 0));
        };
        outlasts((folder, export, how, kind), fill, is_there);
    });
}

/// Files under load at once.
const LOADS: u64 = 4;

#[test]
fn file_systems_read_what_they_wrote_under_a_random_load() {
    let all: Vec<&Kind> = FILE_SYSTEMS.iter().collect();
    on_each(&all, |folder, export, how, kind| {
        let fill = |at: &Path| -> Vec<Expected> {
            std::thread::scope(|scope| {
                let each = |number: u64| {
                    let path = at.join(format!("load{number}"));
                    scope.spawn(move || {
                        let mut load = Load::new(&path, number).unwrap();
                        (0..number_from("SEEKLESS_STEPS", 250)).for_each(|_| load.step().unwrap());
                        load.end()
                    })
                };
                let running: Vec<_> = (0..LOADS).map(each).collect();
                running.into_iter().map(|load| load.join().unwrap()).collect()
            })
        };
        let is_there = |_: &Path, files: &Vec<Expected>| files.iter().for_each(Expected::is_there);
        outlasts((folder, export, how, kind), fill, is_there);
    });
}

#[test]
fn file_systems_have_what_they_synced_after_the_server_was_killed() {
    on_each(&[&FILE_SYSTEMS[0], &FILE_SYSTEMS[1]], |folder, export, how, kind| {
        let (mut synced, mut files): (Vec<u64>, Vec<Expected>) = (Vec::new(), Vec::new());
        for round in 0..number_from("SEEKLESS_KILLS", 3) {
            let Some(server) = Server::start(folder, how) else { return };
            let Some(attached) = Attached::new(&server, export) else { return };
            if round == 0 {
                attached.make(kind);
            }
            let mounted = attached.mount();
            expect(&mounted.at, synced.drain(..));
            files.drain(..).for_each(|file| file.is_there());
            // Room for the next: files that were checked are removed.
            for entry in std::fs::read_dir(&mounted.at).unwrap() {
                let _ = std::fs::remove_file(entry.unwrap().path());
            }
            let first = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let (at, first) = (mounted.at.clone(), &first);
                let load = scope.spawn(move || synced_until_it_fails(&at, (round + 1) * 1000, first));
                let at = mounted.at.clone();
                let random = scope.spawn(move || loaded_until_it_fails(&at, (round + 1) * 1000));
                let some = (0..3_000).any(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    first.load(Ordering::Relaxed)
                });
                std::thread::sleep(Duration::from_millis(200 + 200 * (round % 5)));
                server.kill();
                synced.extend(load.join().unwrap());
                files.extend(random.join().unwrap());
                assert!(some, "nothing was synced in time");
            });
            drop(mounted);
            drop(attached);
        }
        let Some(server) = Server::start(folder, how) else { return };
        let attached = Attached::new(&server, export).unwrap();
        // Mounting replays the journal.
        let mounted = attached.mount();
        expect(&mounted.at, synced.iter().copied());
        files.iter().for_each(Expected::is_there);
        drop(mounted);
        attached.check(kind);
        drop(attached);
        server.stop();
    });
}

/// How often a server is killed, each time a file system is tried (`SEEKLESS_KILLS`), or how many operations each file
/// of a random load has (`SEEKLESS_STEPS`); a few by default.
fn number_from(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Writes and syncs files, from this number on, and reports each; those that were synced, folder and all.
fn synced_until_it_fails(at: &Path, first: u64, some: &AtomicBool) -> Vec<u64> {
    let sync = |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all());
    let one = |number: u64| {
        let path = at.join(number.to_string());
        std::fs::write(&path, content(number))?;
        sync(&path)?;
        sync(at)?;
        some.store(true, Ordering::Relaxed);
        Ok::<(), std::io::Error>(())
    };
    (first..first + 1000).take_while(|number| one(*number).is_ok()).collect()
}

/// As above, with files that are left alone when they were synced after some random operations.
fn loaded_until_it_fails(at: &Path, first: u64) -> Vec<Expected> {
    let one = |number: u64| {
        let mut load = Load::new(&at.join(format!("load{number}")), number)?;
        (0..40).try_for_each(|_| load.step())?;
        load.sync()?;
        std::fs::File::open(at)?.sync_all()?;
        Ok::<Expected, std::io::Error>(load.end())
    };
    (first..first + 1000).map_while(|number| one(number).ok()).collect()
}
