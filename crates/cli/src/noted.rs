//! What `trace record` noted of a recording, in a file beside it: the disk, and when it began and ended.
//!
//! A recording without notes is fine. Fault: notes that cannot be those of the recording are an error that says why.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seekless_core::{SECTOR_BYTES, Size};
use seekless_record::Disk;
use seekless_trace::Trace;
use serde::Deserialize;

use crate::text::seconds;

/// By how much a request may come after the noted end: clocks are read one after the other, in seconds.
const SLACK_S: f64 = 1.0;
/// More than what any clock of nanoseconds counts.
const MOST_S: f64 = u64::MAX as f64 / 1e9;

/// The parts of the notes that are used.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Noted {
    /// Seconds from the start of the recording to its end: longer than from its first request to its last.
    pub seconds: f64,
    /// The recorded disk.
    pub disk: Disk,
}

/// The file of the notes of a recording.
pub fn file(recording: &Path) -> PathBuf {
    let mut name = recording.as_os_str().to_owned();
    name.push(".about.json");
    name.into()
}

/// The notes of a trace that is a single recorded file and has some.
pub fn of(trace: &Trace) -> anyhow::Result<Option<Noted>> {
    let [recording] = trace.sources.as_slice() else { return Ok(None) };
    let file = file(recording);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let noted: Noted = serde_json::from_str(&text)
        .with_context(|| format!("{}: expected what trace record writes", file.display()))?;
    noted.expect_of(trace).with_context(|| file.display().to_string())?;
    Ok(Some(noted))
}

impl Noted {
    /// An error if the trace reaches beyond the disk, or lasts longer than it was recorded.
    fn expect_of(&self, trace: &Trace) -> anyhow::Result<()> {
        let other = "are these notes of another recording?";
        let reached = trace.end_sector().saturating_mul(SECTOR_BYTES);
        if let Some(size) = self.disk.size_bytes.filter(|size| *size < reached) {
            bail!(
                "found a disk of {}, expected at least {}, which the recording reaches; {other}",
                Size(size),
                Size(reached)
            );
        }
        let lasts = trace.records.last().map_or(0.0, |last| last.time.seconds());
        if self.seconds > MOST_S {
            bail!("found {:e} s of recording, expected at most {MOST_S:e} s", self.seconds);
        }
        if lasts > self.seconds + SLACK_S || !self.seconds.is_finite() {
            bail!(
                "found {} of recording, expected at least {}, which its requests take; {other}",
                seconds(self.seconds),
                seconds(lasts)
            );
        }
        Ok(())
    }
}
