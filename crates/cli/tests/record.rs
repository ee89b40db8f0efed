//! The real program records a real loop device, through the `blk` tracer and through events: every request of `dd` is
//! in the trace, under the name and the number of its process; and tracefs is restored afterwards.
//!
//! Where root, tracefs, loop devices or programs are missing, it is skipped with a message. Everything created here is
//! removed, even after a failure.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// One blk tracer for the whole machine: one test at a time.
static ONE: Mutex<()> = Mutex::new(());
const SIZE: u64 = 64 << 20;

/// A folder of this test process.
fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("record-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// The program's exit code, stdout and stderr.
fn seekless(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekless"));
    let ran = command.args(arguments).current_dir(folder()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (ran.status.code().expect("no signal ends it"), text(ran.stdout), text(ran.stderr))
}

/// A loop device over a file.
struct Loop(PathBuf, PathBuf);

impl Loop {
    fn new(name: &str) -> Option<Loop> {
        let file = folder().join(name);
        fs::File::create(&file).and_then(|made| made.set_len(SIZE)).expect("room for a sparse file");
        let ran = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        let device = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        (ran.status.success() && device.starts_with("/dev/loop")).then(|| Loop(device.into(), file))
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("an ASCII path")
    }

    /// Its tracing state.
    fn traced(&self) -> String {
        let name = self.0.file_name().expect("a device has a name");
        let path = Path::new("/sys/class/block").join(name).join("trace/enable");
        fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        let _ = fs::remove_file(&self.1);
    }
}

fn tracefs() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounted = mounts.lines().filter(|line| line.split(' ').nth(2) == Some("tracefs"));
    mounted
        .filter_map(|line| line.split(' ').nth(1).map(PathBuf::from))
        .find(|place| place.join("current_tracer").exists())
}

/// The environment of the test, or `None` and the reason on stderr.
fn machine(name: &str) -> Option<(Loop, PathBuf)> {
    let none = |what: &str| {
        eprintln!("skipped: {what} is missing");
        None
    };
    let Some(tracefs) = tracefs() else { return none("a mounted tracefs") };
    if fs::OpenOptions::new().write(true).open(tracefs.join("trace_clock")).is_err() {
        return none("the right to trace (root)");
    }
    if !tracefs.join("events/block/block_bio_queue").exists() {
        return none("block tracing in this kernel");
    }
    let Some(device) = Loop::new(name) else { return none("a free loop device, or losetup") };
    Some((device, tracefs))
}

/// Every setting that a recording may change.
fn settings(tracefs: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in
        ["current_tracer", "trace_clock", "buffer_size_kb", "tracing_on", "set_event", "trace_options"]
    {
        let path = tracefs.join(name);
        // A buffer that was used once reports its size in a different form.
        let text = fs::read_to_string(&path).unwrap_or_default();
        let text = text.split_once("(expanded: ").map_or(text.clone(), |(_, size)| size.replace(')', ""));
        found.push((name.to_owned(), text));
    }
    let list = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let instances: Vec<PathBuf> = list(tracefs.join("instances")).collect();
    let journals: Vec<PathBuf> = list(PathBuf::from("/run/seekless")).collect();
    found.push(("instances and journals".to_owned(), format!("{instances:?} {journals:?}")));
    found
}

/// `seekless trace record`, running; stopped when dropped.
struct Recording(Child);

impl Recording {
    /// Starts a recording, and waits until it records: then its source is on, and its file exists.
    fn start(arguments: &[&str], output: &Path) -> Recording {
        let _ = fs::remove_file(output);
        let child = Command::new(env!("CARGO_BIN_EXE_seekless"))
            .args(["trace", "record", "--json", "--force", "-o"])
            .arg(output)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut recording = Recording(child);
        for _ in 0..1000 {
            let begun = fs::metadata(output).is_ok_and(|found| found.len() > 0);
            let ended = recording.0.try_wait().expect("a child can be asked").is_some();
            if begun || ended {
                break;
            }
            wait();
        }
        recording
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }

    /// Stops it as Ctrl-C does; the summary.
    fn stop(mut self) -> serde_json::Value {
        self.signal("-INT");
        let status = self.0.wait().expect("it ends");
        let text = |pipe: &mut dyn std::io::Read| {
            let mut text = String::new();
            pipe.read_to_string(&mut text).expect("text");
            text
        };
        let out = text(self.0.stdout.as_mut().expect("a pipe"));
        let report = text(self.0.stderr.as_mut().expect("a pipe"));
        assert!(status.success(), "{out}{report}");
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{report}"))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Only if it still runs: when stopped, it switches everything off.
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("-TERM");
            let _ = self.0.wait();
        }
    }
}

/// Waits a moment.
fn wait() {
    let _ = Command::new("sleep").arg("0.01").status();
}

/// Runs `dd` with direct requests of 4 KiB; returns its process number.
fn dd(arguments: &[String]) -> u32 {
    let child = Command::new("dd").args(["bs=4096", "status=none"]).args(arguments).spawn();
    let mut child = child.expect("dd is in every system");
    assert!(child.wait().expect("it ends").success());
    child.id()
}

/// The requests of a trace: process, operation, first sector, sectors, name.
fn requests(path: &Path) -> Vec<(u32, String, u64, u64, String)> {
    let reader = seekless_trace::load(&[path], &seekless_trace::ReadOptions::default()).expect("a trace");
    assert!(reader.warnings.is_empty(), "{:?}", reader.warnings);
    let of = |record: &seekless_core::Record| {
        let name = reader.names.get(record.origin.name).to_owned();
        let operation = format!("{:?}", record.op);
        (record.origin.process.0, operation, record.extent.start.0, record.extent.sectors, name)
    };
    reader.records.iter().map(of).collect()
}

fn every_request_is_recorded(source: &str) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((device, tracefs)) = machine(source) else { return };
    let before = settings(&tracefs);
    let trace = folder().join(format!("{source}.trace"));
    let recording = Recording::start(&[device.name(), "--source", source], &trace);
    let (to, from) = (format!("of={}", device.name()), format!("if={}", device.name()));
    let zero = "if=/dev/zero".to_owned();
    let writer = dd(&[zero, to, "seek=100".into(), "count=5".into(), "oflag=direct".into()]);
    let reader =
        dd(&[from, "of=/dev/null".into(), "skip=300".into(), "count=3".into(), "iflag=direct".into()]);
    let summary = recording.stop();
    if summary["source"] != source {
        eprintln!("skipped: found {summary}, the source {source} is not free");
        return;
    }
    assert_eq!(settings(&tracefs), before);
    assert_eq!(device.traced().trim(), "0");
    let of = |process| {
        let mine = |request: &(u32, String, u64, u64, String)| request.0 == process && request.2 >= 800;
        requests(&trace).into_iter().filter(mine).collect::<Vec<_>>()
    };
    let expected = |process, operation: &str, first: u64, count: u64| {
        let request = |at| (process, operation.to_owned(), (first + at) * 8, 8, "dd".to_owned());
        (0..count).map(request).collect::<Vec<_>>()
    };
    let wrote = |request: &(u32, String, u64, u64, String)| request.2 < 2400;
    assert_eq!(of(writer).into_iter().filter(wrote).collect::<Vec<_>>(), expected(writer, "Write", 100, 5));
    assert_eq!(of(reader), expected(reader, "Read", 300, 3));
    assert_eq!((&summary["lost"], &summary["end"]), (&0.into(), &"signal".into()));
    assert_eq!(summary["bytes"], fs::metadata(&trace).expect("it is there").len());
}

#[test]
fn the_blk_tracer_records_every_request_under_its_name() {
    every_request_is_recorded("blk");
}

#[test]
fn events_record_every_request_under_its_name() {
    every_request_is_recorded("events");
}

#[test]
fn what_a_killed_recording_left_is_removed_by_the_next_one() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((device, tracefs)) = machine("killed") else { return };
    let before = settings(&tracefs);
    for source in ["auto", "events"] {
        let trace = folder().join("killed.trace");
        let mut recording = Recording::start(&[device.name(), "--source", source], &trace);
        recording.signal("-KILL");
        recording.0.wait().expect("it is gone");
        assert_ne!(settings(&tracefs), before, "{source}");
        let events = ["--source", "events", "--for", "50ms", "--force", "-o", "next.trace"];
        let (code, _, report) = seekless(&[&["trace", "record", device.name()], &events[..]].concat());
        assert_eq!(code, 0, "{report}");
        assert!(report.contains("was killed while recording"), "{report}");
        assert_eq!(settings(&tracefs), before, "{source}");
        assert_eq!(device.traced().trim(), "0");
    }
}

#[test]
fn the_size_asked_for_is_kept() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some((device, tracefs)) = machine("size") else { return };
    let before = settings(&tracefs);
    let trace = folder().join("size.trace");
    let recording = Recording::start(&[device.name(), "--max", "2KiB"], &trace);
    let to = format!("of={}", device.name());
    dd(&["if=/dev/zero".into(), to, "count=100".into(), "oflag=direct".into()]);
    let mut recording = recording;
    // It ends by itself.
    assert!(recording.0.wait().expect("it ends").success());
    assert_eq!(settings(&tracefs), before);
    let bytes = fs::metadata(&trace).expect("it is there").len();
    assert!((1024..=2048).contains(&bytes), "{bytes}");
    assert!(!requests(&trace).is_empty());
}

#[test]
fn what_cannot_be_recorded_is_refused_before_anything_is_touched() {
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let (ended, said, report) = seekless(&[&["trace", "record"], arguments].concat());
        assert_eq!((ended, said.as_str()), (code, ""), "{arguments:?}: {report}");
        for word in words {
            assert!(report.contains(word), "{arguments:?}: {word:?} is not in: {report}");
        }
    };
    refused(&["/nonexistent", "-o", "x"], 1, &["/nonexistent", "found nothing", "a block device"]);
    refused(&["/dev/null", "-o", "x"], 1, &["/dev/null", "a character device", "/dev/sda"]);
    refused(&["/proc", "-o", "x"], 1, &["/proc", "found a folder"]);
    refused(&["sda"], 2, &["--output"]);
    refused(&["sda", "-o", "x", "--for", "10"], 2, &["--for", "found '10'", "30s"]);
    refused(&["sda", "-o", "x", "--buffer", "1KiB"], 2, &["--buffer", "64KiB"]);
    assert!(!folder().join("x").exists());
}
