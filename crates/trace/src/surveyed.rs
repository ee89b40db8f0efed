//! A surveyed trace that can be read again: kept in memory while it is small, reread from its files otherwise. Standard
//! input, which cannot be read twice, is copied into an unnamed file, which disappears with the program, however that
//! ends.
//!
//! Invariant: every pass returns the same records. Faults: those of [`Reader`]; files that change meanwhile.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use seekless_core::{Names, Record};

use crate::compressed::STDIN;
use crate::error::TraceError;
use crate::format::Format;
use crate::loaded::Trace;
use crate::options::ReadOptions;
use crate::reader::Reader;
use crate::stats::Survey;
use crate::volumes::Volumes;

/// A trace with a known outline.
pub struct Surveyed {
    /// Outline.
    pub survey: Survey,
    /// The names of its processes.
    pub names: Names,
    /// The names of its volumes.
    pub volumes: Volumes,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The files it is read from, as given.
    pub sources: Vec<PathBuf>,
    /// Their format.
    pub format: &'static Format,
    /// Records that were too late in their file to be put in their place.
    late: u64,
    /// All records, if they are few.
    records: Option<Vec<Record>>,
    paths: Vec<PathBuf>,
    options: ReadOptions,
    /// The copy of standard input.
    spool: Option<File>,
}

impl Surveyed {
    /// Surveys a trace; a quarter of `memory` bytes may hold its records. `progress` is called with the number of
    /// records read, now and then.
    pub fn open(
        paths: &[impl AsRef<Path>],
        options: &ReadOptions,
        memory: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Surveyed, TraceError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let spool = spooled(&paths)?;
        let mut reader = Reader::open_with(&paths, spool.as_ref(), options)?;
        let format = reader.format();
        let most = (memory / 4) as usize / size_of::<Record>();
        let mut records = Some(Vec::new());
        let mut survey = Survey::default();
        for record in reader.by_ref() {
            let record = record?;
            survey.note(&record);
            match &mut records {
                Some(records) if records.len() < most => records.push(record),
                other => *other = None,
            }
            if survey.records % 65_536 == 0 {
                progress(survey.records);
            }
        }
        let late = reader.late();
        let (names, volumes, mut warnings, sources) = reader.into_parts();
        if survey.records == 0 {
            warnings.push("the trace holds no requests".into());
        }
        let options = options.clone();
        Ok(Surveyed {
            survey,
            names,
            volumes,
            warnings,
            sources,
            format,
            late,
            records,
            paths,
            options,
            spool,
        })
    }

    /// All of its records in memory, as [`load`](crate::load) has them.
    pub fn load(&self) -> Result<Trace, TraceError> {
        let mut records = Vec::new();
        self.each(|record| records.push(*record))?;
        Ok(Trace {
            records,
            names: self.names.clone(),
            volumes: self.volumes.clone(),
            warnings: self.warnings.clone(),
            sources: self.sources.clone(),
            format: self.format.name,
            late: self.late,
        })
    }

    /// Calls `see` for all records again.
    pub fn each(&self, mut see: impl FnMut(&Record)) -> Result<(), TraceError> {
        if let Some(records) = &self.records {
            records.iter().for_each(see);
            return Ok(());
        }
        for record in Reader::open_with(&self.paths, self.spool.as_ref(), &self.options)? {
            see(&record?);
        }
        Ok(())
    }
}

/// A copy of standard input, if that is one of the paths.
fn spooled(paths: &[PathBuf]) -> Result<Option<File>, TraceError> {
    let Some(stdin) = paths.iter().find(|path| *path == Path::new(STDIN)) else { return Ok(None) };
    let copy = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut io::stdin().lock(), &mut file)?;
        Ok(file)
    };
    copy().map(Some).map_err(|source| TraceError::Io { file: stdin.clone(), source })
}
