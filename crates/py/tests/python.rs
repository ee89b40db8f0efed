//! Runs the tests of the Python package, its type checks, and the examples of its page, with the library that the
//! tests of all crates share. Tests of what is missing on this machine report that and are skipped: `scripts/python`
//! installs it.

// Python is another program.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/py has a grandparent").to_owned()
}

/// A Python of 3.10 or newer: that of `scripts/python`, or the system's.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let ours = cache.or_else(home).map(|cache| cache.join("seekless/python/bin/python"));
    let is_new = |python: &PathBuf| {
        let check = "import sys; sys.exit(sys.version_info < (3, 10))";
        Command::new(python).args(["-c", check]).output().is_ok_and(|done| done.status.success())
    };
    let found = ours.into_iter().chain([PathBuf::from("python3")]).find(is_new);
    if found.is_none() {
        eprintln!("skipped: no Python 3.10 or newer here");
    }
    found
}

/// The package as a wheel has it: its files, and the library beside them.
fn package() -> TempDir {
    let folder = tempfile::Builder::new().prefix("python").tempdir().unwrap();
    let package = folder.path().join("seekless");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(root().join("crates/py/python/seekless")).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            std::fs::copy(&file, package.join(file.file_name().unwrap())).unwrap();
        }
    }
    // This program is in the folder of the libraries that it was built with.
    let built = std::env::current_exe().unwrap().with_file_name("lib_seekless.so");
    std::os::unix::fs::symlink(&built, package.join("_seekless.abi3.so")).unwrap();
    folder
}

/// Runs Python in the checkout with the package.
fn run(python: &Path, package: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(python);
    command.args(words).current_dir(root()).env("PYTHONPATH", package).env("MYPYPATH", package);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("SEEKLESS_MUTANT").output().unwrap()
}

fn expect_success(done: &Output) {
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    for line in err.lines().filter(|line| line.contains("skipped")) {
        eprintln!("{line}");
    }
    assert!(done.status.success(), "{out}{err}");
}

fn run_tests(file: &str) {
    let Some(python) = python() else { return };
    let package = package();
    let words = ["-m", "unittest", "discover", "-v", "-s", "crates/py/tests", "-p", file];
    let done = run(&python, package.path(), &words);
    expect_success(&done);
    let err = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(err.contains("... ok"), "no test of {file} ran: {err}");
}

#[test]
fn traces_are_tables() {
    run_tests("test_trace.py");
}

#[test]
fn the_laboratory_has_the_results_of_the_program() {
    run_tests("test_lab.py");
}

#[test]
fn policies_in_python_have_the_results_of_compiled_ones() {
    run_tests("test_policies.py");
}

#[test]
fn layers_in_python_are_layers() {
    run_tests("test_layers.py");
}

#[test]
fn notebooks_run() {
    let Some(python) = python() else { return };
    let folder = package();
    let libraries = "import ipykernel, nbclient, nbformat, polars";
    if !run(&python, folder.path(), &["-c", libraries]).status.success() {
        eprintln!("skipped: no ipykernel, nbclient or polars here");
        return;
    }
    run_tests("test_notebooks.py");
}

#[test]
fn ray_has_the_results_of_the_program() {
    run_tests("test_ray.py");
}

#[test]
fn signals_end_what_runs() {
    run_tests("test_signals.py");
}

/// The blocks of a page as a session of Python; classes, which are shown as `python`, are typed in.
fn session(page: &str, classes: bool) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let typed = |code: &str| {
        let prompts = [">>> "].into_iter().chain(std::iter::repeat("... "));
        let lines = code.lines().zip(prompts).flat_map(|(line, prompt)| [prompt, line, "\n"]);
        lines.collect::<String>()
    };
    let shown = blocks.filter_map(|block| match block.split_once('\n')? {
        ("pycon", session) => Some(format!("{session}\n")),
        ("python", code) if classes => Some(typed(code)),
        _ => None,
    });
    shown.collect()
}

fn run_examples(page: &str, classes: bool) {
    let Some(python) = python() else { return };
    let package = package();
    let libraries = "import polars, pyarrow, duckdb";
    if !run(&python, package.path(), &["-c", libraries]).status.success() {
        eprintln!("skipped: no polars, pyarrow or duckdb here");
        return;
    }
    let blocks = session(page, classes);
    assert!(blocks.len() > 8, "only {} examples", blocks.len());
    let folder = tempfile::Builder::new().prefix("page").tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("data"), folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("python.txt"), blocks.join("\n")).unwrap();
    let mut command = Command::new(&python);
    command.args(["-m", "doctest", "-o", "ELLIPSIS", "python.txt"]).current_dir(folder.path());
    expect_success(&command.env("PYTHONPATH", package.path()).output().unwrap());
}

#[test]
fn the_examples_of_the_page_run_in_order() {
    run_examples("docs/book/python.md", false);
}

#[test]
fn the_examples_of_classes_run_in_order() {
    let page = "docs/book/own-python.md";
    run_examples(page, true);
    let policy = &session(page, true)[1];
    let lines = policy.lines().filter(|line| line.trim() != "...").count();
    assert!(lines <= 15 && policy.starts_with(">>> class Lip"), "{lines} lines: {policy}");
}

#[test]
fn the_types_of_the_package_are_those_of_its_library() {
    let Some(python) = python() else { return };
    let package = package();
    if !run(&python, package.path(), &["-c", "import mypy"]).status.success() {
        eprintln!("skipped: no mypy here");
        return;
    }
    let cache = package.path().join("cache");
    let cache = format!("--cache-dir={}", cache.display());
    expect_success(&run(&python, package.path(), &["-m", "mypy", "--strict", &cache, "-p", "seekless"]));
    expect_success(&run(&python, package.path(), &["-m", "mypy.stubtest", "seekless"]));
    let used = package.path().join("used.py");
    std::fs::write(&used, USED).unwrap();
    let used = used.display().to_string();
    expect_success(&run(&python, package.path(), &["-m", "mypy", "--strict", &cache, &used]));
}

/// A program that a type checker has to accept.
const USED: &str = "\
from pathlib import Path

import seekless

trace = seekless.read(Path('data/mail'), time_unit='us')
requests: int = len(trace)
share: float = trace.stats(intervals=3)['reads'] / requests
compared: seekless.Comparison = seekless.compare(['none', {'component': {}}], trace=trace, bopt='1GiB')
columns: list[str] = compared.phases.column_names
place: int = seekless.Drive('wd-re3-1tb').position(0)['cylinder']


class First:
    decisions = 64

    def __init__(self, pages: int) -> None:
        self.pages: dict[int, None] = {}

    def insert(self, page: int) -> None:
        self.pages[page] = None

    def hit(self, page: int) -> None:
        pass

    def remove(self, page: int) -> None:
        del self.pages[page]

    def evict(self) -> int | None:
        page = next(iter(self.pages), None)
        if page is not None:
            del self.pages[page]
        return page


class Twice:
    devices = ('copy',)

    def __init__(self, below: seekless.Device, copy: seekless.Device, least: int = 1) -> None:
        self.both = (below, copy)

    async def read(self, start: int, sectors: int) -> seekless.Data:
        first = await self.both[0].read(start, sectors)
        return seekless.Data.join([first.cut(0, 1), first.cut(1, sectors - 1)])

    async def write(self, start: int, data: seekless.Data) -> None:
        await seekless.together(*(device.write(start, data) for device in self.both))

    def flush(self) -> seekless.Request[None]:
        return self.both[0].flush()


rows = seekless.hits(trace, policies={'first': First}, policy=['lru', 'first'])
run: seekless.Result = seekless.run('twice', workload='random', layers={'twice': Twice})
lost: str | None = seekless.explore('twice.toml', layers={'twice': Twice}, states=100)['finding']
";
