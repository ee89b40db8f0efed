//! Runs tasks on all cores: each is a pure function, and its row goes to disk when it is done.
//!
//! Tasks start in their order, so that few traces are in memory at a time: one is read when its first task starts, and
//! dropped after its last. A task that panics or whose trace cannot be read fails; the others go on.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};
use seekless_lab::sweep::task::{self, Source};
use seekless_lab::sweep::{Row, Task, hash_file};
use seekless_trace::{ReadOptions, Trace};

use super::rows::{Rows, changed};
use crate::progress::Progress;
use crate::trace::convert_first;

/// Runs the tasks on `threads` threads (0 for as many as there are processors), and writes their rows.
pub fn run(tasks: &[&Task], rows: &Rows, threads: usize, progress: &Progress) -> anyhow::Result<()> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().context("threads")?;
    let traces = Traces::of(tasks);
    let (done, of) = (AtomicU64::new(0), tasks.len() as u64);
    progress.at("running the tasks", 0, of);
    pool.install(|| {
        tasks.iter().par_bridge().try_for_each(|task| {
            let trace = traces.get(&task.trace)?;
            let row = match &trace {
                Ok(trace) => caught(task.identity(), || task::run(task, trace, &|_| ())),
                Err(error) => Row::failed(task.identity(), error.clone()),
            };
            drop(trace);
            traces.release(&task.trace);
            rows.put(task, &row)?;
            progress.at("running the tasks", done.fetch_add(1, Ordering::Relaxed) + 1, of);
            Ok(())
        })
    })
}

/// The row, or that of a task that failed if it panics.
fn caught(identity: String, run: impl FnOnce() -> Row) -> Row {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Row::failed(identity, format!("panicked: {text}"))
    })
}

/// The traces of tasks, by the names of their files.
struct Traces(BTreeMap<Vec<String>, Mutex<Loaded>>);

/// A trace, or why it cannot be read.
type Read = Result<Arc<Trace>, String>;

/// A trace while tasks need it.
struct Loaded {
    trace: Option<Read>,
    /// Its volumes, once one of them is needed: then the whole is dropped.
    volumes: BTreeMap<String, Arc<Trace>>,
    /// Tasks that have not finished.
    tasks: usize,
}

impl Traces {
    fn of(tasks: &[&Task]) -> Traces {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for task in tasks {
            *counts.entry(names(&task.trace)).or_default() += 1;
        }
        let loaded =
            |(names, tasks)| (names, Mutex::new(Loaded { trace: None, volumes: BTreeMap::new(), tasks }));
        Traces(counts.into_iter().map(loaded).collect())
    }

    /// The trace, read if that has not been tried; an error if it is not the one of the task any more.
    fn get(&self, source: &Source) -> anyhow::Result<Read> {
        let mut loaded = self.0[&names(source)].lock().unwrap_or_else(PoisonError::into_inner);
        let known = match &source.volume {
            Some(volume) => loaded.volumes.get(volume).cloned().map(Ok),
            None => loaded.trace.clone(),
        };
        if let Some(trace) = known.or_else(|| loaded.trace.clone().filter(Result::is_err)) {
            return Ok(trace);
        }
        for (file, hash) in &source.files {
            let found = hash_file(Path::new(file)).with_context(|| file.clone())?.to_string();
            if found != *hash {
                return Err(changed(file, &found, hash).into());
            }
        }
        let read = seekless_trace::load(&names(source), &ReadOptions::default());
        let read = read.map_err(|error| convert_first(error).to_string());
        let (Some(volume), Ok(whole)) = (&source.volume, &read) else {
            let read = read.map(Arc::new);
            loaded.trace = Some(read.clone());
            return Ok(read);
        };
        loaded.volumes = whole.by_volume().into_iter().map(|(name, part)| (name, Arc::new(part))).collect();
        Ok(loaded
            .volumes
            .get(volume)
            .cloned()
            .ok_or_else(|| format!("found no volume {volume}, expected it")))
    }

    /// A task is done with its trace.
    fn release(&self, source: &Source) {
        let mut loaded = self.0[&names(source)].lock().unwrap_or_else(PoisonError::into_inner);
        loaded.tasks -= 1;
        if loaded.tasks == 0 {
            (loaded.trace, loaded.volumes) = (None, BTreeMap::new());
        }
    }
}

fn names(source: &Source) -> Vec<String> {
    source.files.iter().map(|(file, _)| file.clone()).collect()
}

#[cfg(test)]
mod tests {
    use seekless_lab::sweep::{expand, file};

    use super::*;

    #[test]
    fn a_trace_that_cannot_be_read_fails_its_tasks_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("v.toml", "[component.disk]\ndrive = 'wd2500aaks'\n[[export]]\ntop = 'disk'\n");
        write("good.load", "0.5 ; 8 ; 8 ; R\n");
        write("bad.load", "0.5 ; 8 ; 8 ; R\n1.5 ; eight ; 8 ; R\n");
        let text = "traces = ['bad.load', 'good.load']\nvolumes = 'v.toml'\nseeds = [1, 2]\n";
        let tasks = expand(&file::parse(&folder.path().join("s.toml"), text).unwrap(), "1").unwrap();
        let rows = Rows::create(&folder.path().join("results"), &tasks, "").unwrap();
        run(&tasks.iter().collect::<Vec<_>>(), &rows, 2, &Progress::measured()).unwrap();
        let errors = tasks.iter().map(|task| rows.get(&task.identity()).unwrap().unwrap().error);
        let errors: Vec<Option<String>> = errors.collect();
        assert_eq!((errors.len(), &errors[2..]), (4, &[None, None][..]));
        for error in errors[..2].iter().flatten() {
            assert!(error.contains("bad.load, line 2: found \"eight\""), "{error}");
        }
        assert!(errors[..2].iter().all(Option::is_some));
    }

    #[test]
    fn a_trace_that_changed_since_its_task_was_made_ends_the_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("v.toml", "[component.disk]\ndrive = 'wd2500aaks'\n[[export]]\ntop = 'disk'\n");
        write("a.load", "0.5 ; 8 ; 8 ; R\n");
        let sweep =
            file::parse(&folder.path().join("s.toml"), "traces = 'a.load'\nvolumes = 'v.toml'\n").unwrap();
        let tasks = expand(&sweep, "1").unwrap();
        let rows = Rows::create(&folder.path().join("results"), &tasks, "").unwrap();
        write("a.load", "0.5 ; 16 ; 8 ; R\n");
        let task = [&tasks[0]];
        let error = run(&task, &rows, 1, &Progress::measured()).unwrap_err().to_string();
        assert!(error.contains("a.load: found content with the hash"), "{error}");
        assert!(rows.get(&tasks[0].identity()).unwrap().is_none());
        write("a.load", "0.5 ; 8 ; 8 ; R\n");
        run(&task, &rows, 1, &Progress::measured()).unwrap();
        assert_eq!(rows.get(&tasks[0].identity()).unwrap().unwrap().error, None);
    }

    #[test]
    fn a_task_that_panics_fails_with_its_message() {
        let row = caught("id".to_owned(), || panic!("found {}, expected 2", 1));
        assert_eq!(row, Row::failed("id".to_owned(), "panicked: found 1, expected 2".to_owned()));
        let row = caught("id".to_owned(), || Row::failed("id".to_owned(), "too small".to_owned()));
        assert_eq!(row.error.as_deref(), Some("too small"));
    }
}
