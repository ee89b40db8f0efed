//! The kernel's tracing file system: its mount point and its files.
//!
//! Faults: not mounted, not permitted: an error that says what to do.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::RecordError;

/// Usual mount points.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The longest format file.
const READ_BYTES: usize = 64 << 10;
const MOUNTS: &str = "/proc/self/mounts";

/// Finds the mount point of tracefs.
pub fn find(given: Option<&Path>) -> Result<PathBuf, RecordError> {
    let mut places: Vec<PathBuf> = match given {
        Some(place) => vec![place.to_owned()],
        None => USUAL.map(PathBuf::from).to_vec(),
    };
    if given.is_none() {
        places.extend(mounted(&fs::read_to_string(MOUNTS).unwrap_or_default()));
    }
    let mut denied = None;
    for place in &places {
        match fs::metadata(place.join("current_tracer")) {
            Ok(_) => return Ok(place.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                denied.get_or_insert(RecordError::io(place, "looking into it", error));
            }
            Err(_) => {}
        }
    }
    let looked = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ");
    Err(denied.unwrap_or(RecordError::NoTracefs { looked }))
}

/// Mount points of tracefs in `/proc/self/mounts`.
fn mounted(mounts: &str) -> impl Iterator<Item = PathBuf> + '_ {
    mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "tracefs").then(|| PathBuf::from(place.replace("\\040", " ")))
    })
}

/// Reads a file of the kernel's. In large reads: some of these files end after the first one, however small it was.
pub fn text(path: &Path) -> Result<String, RecordError> {
    let failed = |error| RecordError::io(path, "reading it", error);
    let mut file = File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match file.read(&mut bytes).map_err(failed)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            read => text.extend_from_slice(&bytes[..read]),
        }
    }
}

/// Reads a setting as it would be written: of a list of choices the one in brackets, of `7 (expanded: 1408)` the second
/// number.
pub fn read(path: &Path) -> Result<String, RecordError> {
    Ok(setting(&text(path)?).to_owned())
}

fn setting(text: &str) -> &str {
    let text = text.trim();
    if let Some((_, rest)) = text.split_once("(expanded: ") {
        return rest.trim_end_matches(')');
    }
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(chosen, _)| chosen)
}

/// Writes a setting, in one piece, as the kernel requires.
pub fn write(path: &Path, value: &str) -> Result<(), RecordError> {
    let opened = OpenOptions::new().write(true).truncate(true).open(path);
    opened
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| RecordError::io(path, "changing it", error))
}

/// Opens a pipe of the kernel's, without blocking.
pub fn open_pipe(path: &Path) -> Result<File, RecordError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    opened.map_err(|error| RecordError::io(path, "opening it", error.into()))
}

/// Number of events lost by the kernel, from the `stats` of each CPU.
pub fn lost(buffer: &Path, cpus: &[u32]) -> u64 {
    let of = |cpu: &u32| text(&buffer.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
    cpus.iter().map(|cpu| lost_in(&of(cpu))).sum()
}

fn lost_in(stats: &str) -> u64 {
    // Overwritten before they were read; never written for lack of room, or of a place in an interrupt.
    stat(stats, "overrun") + stat(stats, "commit overrun") + stat(stats, "dropped events")
}

/// Whether a buffer holds unread events.
pub fn holds_events(buffer: &Path, cpus: &[u32]) -> bool {
    let of = |cpu: &u32| text(&buffer.join(format!("per_cpu/cpu{cpu}/stats"))).unwrap_or_default();
    cpus.iter().any(|cpu| stat(&of(cpu), "entries") > 0)
}

fn stat(stats: &str, name: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(known, _)| *known == name).filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum()
}

/// The CPUs that have a buffer.
pub fn cpus(tracefs: &Path) -> Result<Vec<u32>, RecordError> {
    let path = tracefs.join("per_cpu");
    let entries = fs::read_dir(&path).map_err(|error| RecordError::io(&path, "listing it", error))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok();
    let mut cpus: Vec<u32> = entries.flatten().filter_map(number).collect();
    cpus.sort_unstable();
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_the_chosen_value() {
        assert_eq!(setting("[local] global counter uptime perf mono\n"), "local");
        assert_eq!(setting("local global [mono] boot\n"), "mono");
        assert_eq!(setting("7 (expanded: 1408)\n"), "1408");
        assert_eq!((setting("1410\n"), setting("nop\n"), setting("")), ("1410", "nop", ""));
    }

    #[test]
    fn losses_are_added_up() {
        let stats = "entries: 7\noverrun: 3\ncommit overrun: 2\nbytes: 364\noldest event ts:  6095.348892\nnow ts:  6095.375807\ndropped events: 1\nread events: 11\n";
        assert_eq!((lost_in(stats), stat(stats, "entries"), lost_in("")), (6, 7, 0));
    }

    #[test]
    fn a_tracefs_is_found_where_it_is_mounted() {
        let mounts = "proc /proc proc rw 0 0\nnodev /tmp/my\\040fs tracefs rw,relatime 0 0\n";
        assert_eq!(mounted(mounts).collect::<Vec<_>>(), [PathBuf::from("/tmp/my fs")]);
    }
}
