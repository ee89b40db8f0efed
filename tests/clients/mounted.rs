//! The page of the book that leads a disk with data under BORG and back, line by line, on loop devices with a real file
//! system; with a crash of everything in the middle.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::server::{skipped, succeeds};

/// Devices and mounts of the test, which are gone at its end.
struct Bench {
    folder: tempfile::TempDir,
    disk: String,
    bopt: String,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let mounted = self.mounted();
        // After a failure, whatever is left of the line that failed.
        let _ = self.run("seekless volume umount /mnt/data");
        for words in [
            &["umount", "-l", &*mounted][..],
            &["losetup", "-d", &*self.disk],
            &["losetup", "-d", &*self.bopt],
        ] {
            let _ = Command::new(words[0]).args(&words[1..]).output();
        }
    }
}

impl Bench {
    /// Two loop devices; `None`, with a message, where that is not allowed.
    fn new() -> Option<Bench> {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, bytes| {
            let file = folder.path().join(name);
            crate::sparse(&file, bytes);
            let made =
                Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&file).output();
            match made {
                Ok(made) if made.status.success() => {
                    Some(String::from_utf8(made.stdout).unwrap().trim().to_owned())
                }
                Ok(made) => {
                    skipped("mounting", &format!("losetup: {}", String::from_utf8_lossy(&made.stderr)));
                    None
                }
                Err(error) => {
                    skipped("mounting", &format!("losetup: {error}"));
                    None
                }
            }
        };
        let disk = device("disk.img", 192 << 20)?;
        let bopt = device("bopt.img", 64 << 20)?;
        std::fs::create_dir(folder.path().join("mnt")).unwrap();
        Some(Bench { folder, disk, bopt })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn mounted(&self) -> String {
        self.path().join("mnt").display().to_string()
    }

    /// The same text for the devices of this test.
    fn here(&self, text: &str) -> String {
        let text = text.replace("/dev/sdb1", &self.disk).replace("/dev/sdc1", &self.bopt);
        text.replace("/mnt/data", &self.mounted())
    }

    fn run(&self, line: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_seekless")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("timeout");
        command.args(["300", "bash", "-c", &self.here(line)]).current_dir(self.path()).env("PATH", path);
        command.env("STATE_DIRECTORY", self.path().join("state"));
        command.env("RUNTIME_DIRECTORY", self.path().join("run")).output().unwrap()
    }

    /// Runs a line, which has to succeed.
    fn done(&self, line: &str) -> String {
        let done = self.run(line);
        let log = std::fs::read_to_string(self.path().join("data.log")).unwrap_or_default();
        assert!(done.status.success(), "{line}: {}\n{log}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Writes files that are different each time, and makes them durable.
    fn write(&self, round: u64) {
        let folder = self.path().join(format!("mnt/round-{round}"));
        std::fs::create_dir(&folder).unwrap();
        for number in 0..40_u64 {
            let bytes = crate::noise(4096 + 3000 * number as usize, round * 100 + number);
            std::fs::write(folder.join(format!("{number}")), bytes).unwrap();
        }
        self.done("sync -f /mnt/data");
    }

    /// The contents of each file.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path().join("mnt")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        files
    }

    fn status(&self) -> serde_json::Value {
        crate::schemas::parsed(&self.done("seekless volume status data.toml --json"))
    }

    /// Kills the server and nbdfuse, and takes away what they leave, as a crash of the machine does.
    fn crash(&self) {
        let record =
            std::fs::read_dir(self.path().join("run/mounts")).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(record.join("record.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["started"], true);
        let device = &record["device"];
        let text = |key: &str| device[key].as_str().unwrap().to_owned();
        let processes: Vec<String> = self.processes().into_iter().map(|(number, _)| number).collect();
        assert_eq!(processes.len(), 3, "server, relay and nbdfuse");
        for line in [
            format!("kill -9 {}", processes.join(" ")),
            "umount -l /mnt/data".to_owned(),
            format!("umount -l {}", text("fuse")),
            format!("losetup -d {}", text("node")),
        ] {
            self.done(&line);
        }
    }

    /// Numbers and command lines of the processes that a mount made.
    fn processes(&self) -> Vec<(String, String)> {
        let ours = self.path().display().to_string();
        let named = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let words = std::fs::read_to_string(path.join("cmdline")).unwrap_or_default().replace('\0', " ");
            let number = path.file_name().unwrap().to_str().unwrap().to_owned();
            (number.parse::<u32>().is_ok() && words.contains(&ours)).then_some((number, words))
        };
        std::fs::read_dir("/proc").unwrap().filter_map(named).collect()
    }
}

/// Commands of the page, in order.
fn lines(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("    ")).collect()
}

#[test]
fn a_disk_with_data_goes_under_borg_and_back_as_the_book_says() {
    let Some(bench) = Bench::new() else { return };
    if succeeds("mkfs.ext4", &["-q", &bench.disk]).is_none() {
        return;
    }
    let mount = Command::new("mount").args([&bench.disk, &bench.mounted()]).output().unwrap();
    if !mount.status.success() {
        return skipped("mounting", &String::from_utf8_lossy(&mount.stderr));
    }
    bench.write(1);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/living.md");
    let page = std::fs::read_to_string(page).unwrap();
    let volume = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(bench.path().join("data.toml"), bench.here(volume)).unwrap();
    let original = bench.files();

    let (mut killed, mut crashed, mut seen) = (false, false, 0);
    for line in lines(&page) {
        if line.starts_with("seekless volume mount") {
            if bench.run("mountpoint -q /mnt/data").status.success() {
                // First the server ends, the next time the machine stops.
                if killed {
                    bench.crash();
                    crashed = true;
                } else {
                    bench.done(&format!("kill -9 {}", bench.status()["process"]));
                    killed = true;
                }
            }
            let mounted = bench.run(line);
            let error = String::from_utf8_lossy(&mounted.stderr);
            if error.contains("missing here") {
                return skipped("seekless volume mount", &error);
            }
            assert!(mounted.status.success(), "{line}: {error}");
            let server = bench.status()["process"].as_u64().unwrap();
            let log = std::fs::read_to_string(bench.path().join("data.log")).unwrap();
            protected(server, &log);
            assert!(!bench.run("mount /dev/sdb1 run").status.success(), "the disk is in use");
        } else {
            bench.done(line);
        }
        seen += 1;
        if line.contains("volume attach") {
            bench.write(2);
            let status = bench.status();
            assert!(
                status["layers"][0]["dirty_bytes"].as_u64().unwrap() > 0,
                "BORG has absorbed it: {status}"
            );
        }
    }
    assert!(crashed && seen == 10, "{seen} lines");
    let files = bench.files();
    assert!(
        original.iter().all(|(file, before)| files.get(file) == Some(before)),
        "files from before are the same"
    );
    assert_eq!(files.len(), original.len() + 40);
    for number in 0..40_u64 {
        let bytes = crate::noise(4096 + 3000 * number as usize, 200 + number);
        assert!(files[&bench.path().join(format!("mnt/round-2/{number}"))] == bytes, "{number}");
    }
    let text = std::fs::read_to_string(bench.path().join("data.toml")).unwrap();
    assert!(
        text.starts_with("# data.toml\n") && !text.contains("borg") && !text.contains(&bench.bopt),
        "{text}"
    );
    bench.done("umount /mnt/data");
    bench.done("e2fsck -fn /dev/sdb1");
    let refused = bench.run("seekless volume umount /mnt/data");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("found nothing that seekless volume mount mounted")
    );
}

/// Programs write, and sync, while the server under their file system is killed and started again: to them, only time
/// passes.
#[test]
fn a_server_that_is_killed_under_a_mount_is_waited_for() {
    let Some(bench) = Bench::new() else { return };
    if succeeds("mkfs.ext4", &["-q", &bench.disk]).is_none() {
        return;
    }
    let volume = bench.here(
        "[component.disk]\nfile = \"/dev/sdb1\"\n[[export]]\ntop = \"disk\"\nnbd = \"unix:data.sock\"\n",
    );
    std::fs::write(bench.path().join("data.toml"), volume).unwrap();
    let mounted = bench.run("seekless volume mount data.toml /mnt/data");
    if !mounted.status.success() {
        let error = String::from_utf8_lossy(&mounted.stderr);
        assert!(error.contains("missing here"), "{error}");
        return skipped("seekless volume mount", &error);
    }
    bench.done("seekless volume attach data.toml borg --device bopt=/dev/sdc1");
    let refused = bench.run("seekless volume mount data.toml /mnt/data");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("found a file system mounted on it"));

    let ends = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !ends.load(Ordering::SeqCst) {
                let path = bench.path().join(format!("mnt/file-{}", number % 60));
                let bytes = crate::noise(1000 + 777 * (number as usize % 90), number);
                let mut file = std::fs::File::create(path).unwrap();
                file.write_all(&bytes).unwrap();
                if number % 7 == 0 {
                    file.sync_all().unwrap();
                }
                number += 1;
            }
            number
        });
        for round in 0..4_u64 {
            std::thread::sleep(Duration::from_millis(300 + 150 * round));
            let server = bench.status()["process"].as_u64().unwrap();
            bench.done(&format!("kill -9 {server}"));
            std::thread::sleep(Duration::from_millis(100 * round));
            let said = bench.done("seekless volume mount data.toml /mnt/data");
            assert!(said.contains("is served again"), "{said}");
        }
        ends.store(true, Ordering::SeqCst);
        writer.join().unwrap()
    });
    assert!(written > 60, "{written} files");
    let log = std::fs::read_to_string(bench.path().join("data.log")).unwrap();
    assert_eq!(log.matches("try: ").count(), 5, "each server's messages are kept: {log}");
    // Killed once more, and not started: the file system is unmounted all the same, with all that was written.
    let server = bench.status()["process"].as_u64().unwrap();
    bench.done(&format!("kill -9 {server}"));
    bench.done("seekless volume umount /mnt/data");
    bench.done("e2fsck -fn /dev/sdb1");
    bench.done("seekless volume mount data.toml /mnt/data");
    for last in written.saturating_sub(60)..written {
        let expected = crate::noise(1000 + 777 * (last as usize % 90), last);
        let found = std::fs::read(bench.path().join(format!("mnt/file-{}", last % 60))).unwrap();
        assert!(found == expected, "file {last}");
    }
    // One that cannot be started, since its file is gone.
    let server = bench.status()["process"].as_u64().unwrap();
    bench.done(&format!("kill -9 {server}"));
    bench.done("mv data.toml other.toml");
    let refused = bench.run("seekless volume umount /mnt/data");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("use --give-up"), "{refused:?}");
    assert!(bench.run("mountpoint -q /mnt/data").status.success());
    bench.done("seekless volume umount /mnt/data --give-up");
    assert!(!bench.run("mountpoint -q /mnt/data").status.success());
}

/// Checks that a server has what a server under a mount needs, or has reported what it is not allowed.
fn protected(server: u64, log: &str) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{server}/{name}")).unwrap();
    let is_locked = |line: &str| line.strip_prefix("VmLck:").is_some_and(|rest| rest.trim() != "0 kB");
    // PF_MEMALLOC_NOIO and PF_LOCAL_THROTTLE, after the name, which may have spaces.
    let stat = read("stat");
    let flags: u64 = stat.rsplit(')').next().unwrap().split_whitespace().nth(6).unwrap().parse().unwrap();
    for (what, is) in [
        ("an I/O flusher", flags & 0x0018_0000 == 0x0018_0000),
        ("locked in memory", read("status").lines().any(is_locked)),
        ("spared by the OOM killer", read("oom_score_adj").trim() == "-1000"),
    ] {
        let reported = log.contains(&format!("warning: mounted: the server is not {what}"));
        assert!(is != reported, "{what}: {is}, and {log}");
        if !is {
            skipped(what, "it is not allowed here");
        }
    }
}

/// A volume with two exports, each a slice of the disk with a file system, of which the first is mounted. `None`, with
/// a message, where that is not allowed.
fn two_exports() -> Option<Bench> {
    let bench = Bench::new()?;
    let text = "[component.disk]\nfile = \"/dev/sdb1\"\n\
                [slice.one]\nof = \"disk\"\nsize = \"64MiB\"\n[slice.two]\nof = \"disk\"\nat = \"64MiB\"\nsize = \"64MiB\"\n\
                [[export]]\ntop = \"one\"\nnbd = \"unix:data.sock\"\n[[export]]\ntop = \"two\"\nnbd = \"unix:data.sock\"\n";
    std::fs::write(bench.path().join("data.toml"), bench.here(text)).unwrap();
    for (first, name) in [(0, "one"), (64, "two")] {
        let image = bench.path().join(name);
        crate::sparse(&image, 64 << 20);
        succeeds("mkfs.ext4", &["-q", &image.display().to_string()])?;
        bench.done(&format!("dd if={name} of=/dev/sdb1 bs=1M seek={first} conv=notrunc status=none"));
    }
    std::fs::create_dir(bench.path().join("other")).unwrap();
    let mounted = bench.run("seekless volume mount data.toml /mnt/data");
    if mounted.status.success() {
        return Some(bench);
    }
    let error = String::from_utf8_lossy(&mounted.stderr);
    assert!(error.contains("missing here"), "{error}");
    skipped("seekless volume mount", &error);
    None
}

/// Processes and loop devices that a mount made.
fn left(bench: &Bench) -> Vec<String> {
    let ours = bench.path().display().to_string();
    let entries = std::fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
    let shown =
        entries.map(|path| std::fs::read_to_string(path.join("loop/backing_file")).unwrap_or_default());
    let nodes = shown.filter(|file| file.contains(&ours) && file.contains("disk.raw"));
    bench.processes().into_iter().map(|(_, words)| words).chain(nodes).collect()
}

#[test]
fn an_export_is_mounted_once_and_the_server_stays_for_the_last_mount() {
    let Some(bench) = two_exports() else { return };
    // The same file system twice, as two devices, would be destroyed.
    let twice = bench.run("seekless volume mount data.toml other");
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(!twice.status.success() && error.contains("found the export 'one' mounted on"), "{error}");
    assert!(error.contains("mount --bind"), "{error}");
    bench.done("seekless volume mount data.toml other --export two");
    bench.done("seekless volume umount /mnt/data");
    bench.done("echo kept > other/file && sync -f other");
    assert!(bench.status()["process"].as_u64().is_some(), "the server is there for the other one");
    bench.done("seekless volume umount other");
    assert_eq!(left(&bench), [""; 0], "the last one ends the server");
    bench.done("seekless volume mount data.toml other --export two && grep kept other/file");
    // Another program has just opened the device, as udev does.
    bench.done("sleep 1 < $(findmnt -no SOURCE other) & seekless volume umount other");
    // Of two at once, the second one finds it mounted.
    let both = bench.run(
        "seekless volume mount data.toml /mnt/data & seekless volume mount data.toml /mnt/data; first=$?; wait $!; \
         echo $((first + $?))",
    );
    assert_eq!(String::from_utf8_lossy(&both.stdout).lines().last(), Some("1"), "{both:?}");
    bench.done("test $(grep -c \" /mnt/data \" /proc/self/mountinfo) = 1");
    bench.done("seekless volume umount /mnt/data");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn what_a_mount_that_was_killed_has_begun_is_taken_down() {
    let Some(bench) = two_exports() else { return };
    bench.done("seekless volume umount /mnt/data");
    // One that fails leaves nothing either.
    let failed = bench.run("seekless volume mount data.toml /mnt/data --option nonsense");
    assert!(!failed.status.success(), "{failed:?}");
    assert_eq!(left(&bench), [""; 0], "after a failure");
    let mut killed = 0;
    for millis in [2, 10, 25, 40, 55, 70, 90, 110, 140, 170, 220] {
        let seconds = format!("{}", f64::from(millis) / 1_000.0);
        let cut = bench.run(&format!("timeout -s KILL {seconds} seekless volume mount data.toml /mnt/data"));
        killed += u32::from(!cut.status.success());
        if bench.run("mountpoint -q /mnt/data").status.success() {
            bench.done("echo 1 > /mnt/data/file");
        } else if millis % 20 == 10 {
            bench.done("seekless volume mount data.toml /mnt/data");
        }
        // Of one that was killed before its first step, nothing is there.
        let undone = bench.run("seekless volume umount /mnt/data");
        let error = String::from_utf8_lossy(&undone.stderr);
        assert!(
            undone.status.success() || error.contains("found nothing that"),
            "after {millis} ms: {error}"
        );
        assert_eq!(left(&bench), [""; 0], "after {millis} ms");
        assert!(!bench.run("mountpoint -q /mnt/data").status.success());
    }
    println!("{killed} mounts of 11 were killed before their end");
    assert!(killed > 2);
}
