//! Undo log: what was switched on, so that all of it is switched off again, last first.
//!
//! Each step is written into a journal in `/run/seekless` before it is done. The steps are undone when the value is
//! dropped, hence also after an error or a panic; those of a killed process, by the next recording, which finds its
//! journal. Neither `/run` nor tracefs survives a reboot.
//!
//! Invariant: a setting is restored only where it still is as it was set here: later changes by others are left alone.
//! Faults: a journal that cannot be written only loses its purpose, with a warning; one with anything but settings of
//! the kernel is not followed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{pause, tracefs};
use crate::error::RecordError;

/// Folder of the journals.
const FOLDER: &str = "/run/seekless";
/// Names of the journals: `record-PID-START.undo`.
const PREFIX: &str = "record-";
const SUFFIX: &str = ".undo";
/// Names of our folders in tracefs: `seekless-PID-START`.
const INSTANCE: &str = "seekless-";
/// A tracer cannot be changed while its pipe is being read: number of retries, and the wait before each.
const TRIES: usize = 20;
const WAIT_MS: u64 = 50;

/// A step to undo.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A setting, with the value set and the value before.
    Set { path: PathBuf, ours: String, before: String },
    /// A tracing instance.
    Instance(PathBuf),
}

/// The steps to undo, and their journal.
#[derive(Debug)]
pub struct Undo {
    steps: Vec<Step>,
    journal: Option<(PathBuf, File)>,
}

impl Undo {
    /// An empty log; with a warning if there can be no journal.
    pub fn new() -> (Undo, Option<String>) {
        let path = Path::new(FOLDER).join(format!("{PREFIX}{}{SUFFIX}", owner(std::process::id())));
        match open_journal(&path) {
            Ok(file) => (Undo { steps: Vec::new(), journal: Some((path, file)) }, None),
            Err(error) => {
                let warning = format!(
                    "{}: {error}: should this process be killed, tracing would stay switched on",
                    path.display()
                );
                (Undo { steps: Vec::new(), journal: None }, Some(warning))
            }
        }
    }

    /// Changes a setting, unless it has the value already.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), RecordError> {
        let before = tracefs::read(path)?;
        if before == value {
            return Ok(());
        }
        let step = |ours| Step::Set { path: path.to_owned(), ours, before: before.clone() };
        self.add(step(value.to_owned()));
        tracefs::write(path, value)?;
        let set = tracefs::read(path)?;
        if set != value {
            // The kernel rounds a buffer's size up. The step above finds an unexpected value; this one undoes.
            self.add(step(set));
        }
        Ok(())
    }

    /// Changes a setting that not every kernel has.
    pub fn set_if_there(&mut self, path: &Path, value: &str) -> Result<(), RecordError> {
        if path.exists() { self.set(path, value) } else { Ok(()) }
    }

    /// Creates a tracing instance for this process.
    pub fn instance(&mut self, tracefs: &Path) -> Result<PathBuf, RecordError> {
        let path = tracefs.join("instances").join(format!("{INSTANCE}{}", owner(std::process::id())));
        self.add(Step::Instance(path.clone()));
        fs::create_dir(&path).map_err(|error| RecordError::io(&path, "making a tracing instance", error))?;
        Ok(path)
    }

    fn add(&mut self, step: Step) {
        if let Some((_, file)) = &mut self.journal {
            // One write per line: it is whole, or missing. A full /run costs only the journal.
            let _ = file.write_all(line(&step).as_bytes());
        }
        self.steps.push(step);
    }

    /// Undoes everything, last first; returns what failed.
    pub fn undo(&mut self) -> Vec<String> {
        let failed: Vec<String> =
            std::mem::take(&mut self.steps).iter().rev().filter_map(|step| step.undo().err()).collect();
        if let Some((path, _)) = self.journal.take() {
            // After a failure it stays, for the next recording to try again.
            if failed.is_empty() {
                let _ = fs::remove_file(path);
            }
        }
        failed
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for failed in self.undo() {
            // Dropped on the way out of an error, which is reported elsewhere.
            let _ = writeln!(std::io::stderr(), "warning: {failed}");
        }
    }
}

impl Step {
    fn undo(&self) -> Result<(), String> {
        match self {
            Step::Set { path, ours, before } => {
                if !path.exists() {
                    // Gone with its tracer, its instance or its device.
                    return Ok(());
                }
                match tracefs::read(path) {
                    Ok(now) if now == *ours => {
                        retry(|| tracefs::write(path, before).map_err(|error| error.to_string()))
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }
            Step::Instance(path) => remove_instance(path),
        }
    }
}

/// Removes an instance; its events are switched off with it.
fn remove_instance(path: &Path) -> Result<(), String> {
    retry(|| match fs::remove_dir(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("{}: removing the tracing instance: {error}", path.display()))
        }
        _ => Ok(()),
    })
}

/// Retries for a second: another process may read a pipe for a moment longer.
fn retry(mut step: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let mut result = step();
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        pause(WAIT_MS);
        result = step();
    }
    result
}

/// Undoes the steps of processes that are gone; returns what was done.
pub fn recover(tracefs: &Path) -> Vec<String> {
    let mut messages = Vec::new();
    for path in entries(Path::new(FOLDER)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(of) = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else { continue };
        if alive(of) || !trusted(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let steps = text.lines().filter_map(parse).collect();
        let mut undo = Undo { steps, journal: None };
        let failed = undo.undo();
        if failed.is_empty() {
            messages.push(format!(
                "process {of} was killed while recording: what it had left switched on is off"
            ));
            let _ = fs::remove_file(&path);
        }
        messages.extend(failed);
    }
    for path in entries(&tracefs.join("instances")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(of) = name.strip_prefix(INSTANCE).filter(|of| !alive(of)) else { continue };
        messages.push(match remove_instance(&path) {
            Ok(()) => format!("process {of} was killed while recording: its tracing instance is removed"),
            Err(failed) => failed,
        });
    }
    messages
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// A process and its start, a pair that is never reused: `PID-START`.
fn owner(pid: u32) -> String {
    format!("{pid}-{}", started(pid).unwrap_or(0))
}

/// Start of a process, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, and ends at the last parenthesis; the start is the 20th word after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether the process of an [`owner`] still runs; true if that is unknown.
fn alive(owner: &str) -> bool {
    let parts = owner.split_once('-').map(|(pid, start)| (pid.parse::<u32>(), start.parse::<u64>()));
    let Some((Ok(pid), Ok(start))) = parts else { return true };
    started(pid) == Some(start)
}

fn open_journal(path: &Path) -> std::io::Result<File> {
    match DirBuilder::new().mode(0o700).create(FOLDER) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether a journal can be trusted: no other user can have written it.
fn trusted(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    let mine = |path: &Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|found| found.uid() == me && found.mode() & 0o022 == 0 && !found.is_symlink())
    };
    mine(Path::new(FOLDER)) && mine(path)
}

fn line(step: &Step) -> String {
    match step {
        Step::Set { path, ours, before } => format!("set\t{}\t{ours}\t{before}\n", path.display()),
        Step::Instance(path) => format!("instance\t{}\n", path.display()),
    }
}

fn parse(line: &str) -> Option<Step> {
    let mut words = line.split('\t');
    let (kind, path) = (words.next()?, PathBuf::from(words.next()?));
    match kind {
        "set" => Some(Step::Set { path, ours: words.next()?.to_owned(), before: words.next()?.to_owned() }),
        "instance" if path.file_name()?.to_str()?.starts_with(INSTANCE) => Some(Step::Instance(path)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("seekless-undo-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn settings_are_put_back_last_first_and_those_of_others_are_left() {
        let folder = folder("settings");
        let [clock, bin] = ["clock", "bin"].map(|name| folder.join(name));
        fs::write(&clock, "[local] mono\n").unwrap();
        fs::write(&bin, "0\n").unwrap();
        let mut undo = Undo { steps: Vec::new(), journal: None };
        undo.set(&clock, "mono").unwrap();
        undo.set(&bin, "1").unwrap();
        undo.set(&bin, "2").unwrap();
        undo.set_if_there(&folder.join("none"), "1").unwrap();
        assert_eq!(fs::read_to_string(&bin).unwrap(), "2");
        fs::write(&clock, "tai").unwrap();
        drop(undo);
        assert_eq!(
            (fs::read_to_string(&clock).unwrap().as_str(), fs::read_to_string(&bin).unwrap().as_str()),
            ("tai", "0")
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_journal_lists_steps_to_undo_and_other_lines_are_ignored() {
        let set = Step::Set { path: "/sys/a".into(), ours: "blk".into(), before: "nop".into() };
        let instance = Step::Instance("/sys/kernel/tracing/instances/seekless-1-2".into());
        for step in [set, instance] {
            assert_eq!(parse(line(&step).trim_end_matches('\n')), Some(step));
        }
        for bad in ["", "set\t/a", "set\t/a\tb", "instance\t/home", "rm\t/a"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let me = owner(std::process::id());
        assert!(alive(&me), "{me}");
        assert!(!alive(&format!("{}-1", std::process::id())));
        assert!(alive("somebody's"));
    }
}
