//! The results of a sweep on disk: a folder with a file for each row, written whole or not at all.
//!
//!     FOLDER/traces.json              the files of all traces, with the hashes that the tasks were made with
//!     FOLDER/rows/IDENTITY.json       a task and its row
//!     FOLDER/table.parquet            all rows, once there are all
//!
//! A row's file is written under another name, made durable, and renamed; a killed program leaves `.part` files at
//! most, which the next run overwrites. Faults: a file that is cut short or damaged, and traces that changed, are
//! errors.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use seekless_lab::sweep::{Hash, Row, SweepError, Task};
use serde::{Deserialize, Serialize};

/// The folder of a sweep's results.
pub struct Rows {
    folder: PathBuf,
}

/// What is written for a row: the task too, so that the file can be understood by itself.
#[derive(Serialize)]
struct Written<'a> {
    task: &'a Task,
    row: &'a Row,
    /// The hash of the row, as it is written.
    hash: String,
}

/// What is read of it.
#[derive(Deserialize)]
struct Stored {
    row: Row,
    hash: String,
}

impl Rows {
    /// The folder, created if it is missing, for these tasks. Other processes may create it too; `name` is that of this
    /// one among them.
    pub fn create(folder: &Path, tasks: &[Task], name: &str) -> anyhow::Result<Rows> {
        let rows = Rows { folder: folder.to_owned() };
        fs::create_dir_all(rows.folder.join("rows")).with_context(|| folder.display().to_string())?;
        let hashes = rows.check_traces(tasks)?;
        whole_file_by(&rows.traces(), name, serde_json::to_string_pretty(&hashes)?.as_bytes())?;
        Ok(rows)
    }

    /// The folder of results that are there, for these tasks.
    pub fn open(folder: &Path, tasks: &[Task]) -> anyhow::Result<Rows> {
        let rows = Rows { folder: folder.to_owned() };
        if !rows.folder.join("rows").is_dir() {
            return Err(SweepError::new(
                folder.display().to_string(),
                "no results",
                "the --out folder of a sweep",
            )
            .into());
        }
        rows.check_traces(tasks)?;
        Ok(rows)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The row of a task, if there is one.
    pub fn get(&self, identity: &str) -> anyhow::Result<Option<Row>> {
        let path = self.path(identity);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        let damaged = |found: String| {
            let expected = "a whole row; remove the file to run its task again";
            SweepError::new(path.display().to_string(), found, expected)
        };
        let stored: Stored = serde_json::from_str(&text).map_err(|error| {
            damaged(if error.is_eof() { "a file that is cut short".to_owned() } else { error.to_string() })
        })?;
        if stored.row.identity != identity {
            return Err(damaged(format!("the row of task {}", stored.row.identity)).into());
        }
        if stored.hash != hash(&stored.row)? {
            return Err(damaged("figures that do not have the hash of the row".to_owned()).into());
        }
        Ok(Some(stored.row))
    }

    /// Writes the row of a task.
    pub fn put(&self, task: &Task, row: &Row) -> anyhow::Result<()> {
        let written = Written { task, row, hash: hash(row)? };
        whole_file(&self.path(&row.identity), serde_json::to_string(&written)?.as_bytes())
    }

    fn path(&self, identity: &str) -> PathBuf {
        self.folder.join("rows").join(format!("{identity}.json"))
    }

    fn traces(&self) -> PathBuf {
        self.folder.join("traces.json")
    }

    /// Checks that the traces of earlier runs are unchanged; the hashes of these and of the tasks' files.
    fn check_traces(&self, tasks: &[Task]) -> anyhow::Result<BTreeMap<String, String>> {
        let path = self.traces();
        let mut hashes: BTreeMap<String, String> = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                SweepError::new(
                    path.display().to_string(),
                    error.to_string(),
                    "the hashes of a sweep's traces",
                )
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        for (file, hash) in tasks.iter().flat_map(|task| &task.trace.files) {
            let earlier = hashes.entry(file.clone()).or_insert_with(|| hash.clone());
            if earlier != hash {
                return Err(changed(file, hash, earlier).into());
            }
        }
        Ok(hashes)
    }
}

/// The hash of a row, which has the same text after it was read: numbers keep all their digits.
fn hash(row: &Row) -> anyhow::Result<String> {
    Ok(Hash::of(serde_json::to_string(row)?.as_bytes()).to_string())
}

/// The error of a trace that is not the one of its tasks.
pub fn changed(file: &str, found: &str, expected: &str) -> SweepError {
    let expected =
        format!("{expected}, as when its task was hashed: restore it, or use another --out folder");
    SweepError::new(file, format!("content with the hash {found}"), expected)
}

/// Writes a file whole or not at all, and makes it durable.
pub fn whole_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    whole_file_by(path, "", bytes)
}

/// As `whole_file`, for a file that several processes may write, of which this is the one called `name`.
fn whole_file_by(path: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!("{name}.part"));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().with_context(|| path.display().to_string())
}
