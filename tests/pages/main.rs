//! README, book, decisions and the table of papers agree with the program: printed commands run, in order, in an empty
//! folder with the files that the page shows; volume files are in `examples/`; figures equal the output of their
//! commands.
//!
//! Marks for this test are comments on a page, before a block of commands (indented, or after `$` in a fenced
//! block), a fenced block of output, or a table:
//!
//! | comment | what follows |
//! |---|---|
//! | `not run: WHY` | commands that need root, a disk or minutes; listed as skipped |
//! | `instead: COMMAND` | runs in place of commands that are not run |
//! | `long: WHY` | commands that run only with `SEEKLESS_LONG` set, as by `make soak` |
//! | `fails` | commands of which the last one is expected to fail |
//! | `with canaries` | commands that need a build with known bugs; skipped without |
//! | `synopsis` | lines that each name a subcommand, whose `--help` is checked |
//! | `file: NAME` | a fenced block that is written to a file |
//! | `the server is stopped` | ends what `seekless volume serve` started; nothing follows |
//! | `printed above` | output of the commands before it; `printed above, but for: A, B`: but for lines with these words |
//! | `printed by: COMMAND` | output, or a table or paragraph with its figures ([`printed`]) |
//! | `measured once: WHY` | a table whose figures are not compared, and why |
//! | `slow: A, B` | in addition: figures that only `make figures` checks, if the command has one of these words, or `slow` |

// External programs need real time and threads.
#![allow(clippy::disallowed_methods)]

mod page;
mod printed;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use page::{Block, Page};

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli has a grandparent").to_owned()
}

/// Whether a file name has this extension.
fn is_a(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// The Markdown files of a folder, in the order of their names.
fn pages_in(folder: &str) -> Vec<String> {
    let listed = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = listed.map(|name| format!("{folder}/{}", name.to_str().unwrap())).collect();
    names.retain(|name| is_a(name, "md"));
    names.sort();
    names
}

/// Pages with commands for readers.
fn book() -> Vec<Page> {
    let names = [vec!["README.md".to_owned()], pages_in("docs/book")].concat();
    names.iter().map(|name| Page::read(&root(), name)).collect()
}

/// Processes each page, on as many threads as there are processors; the results, in the order of the pages.
fn on_all<T: Send>(pages: &[Page], work: impl Fn(&Page) -> T + Sync) -> Vec<T> {
    let next = Mutex::new(pages.iter().enumerate());
    let done = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some((number, page)) = ({ next.lock().unwrap().next() }) else { return };
                    let result = work(page);
                    done.lock().unwrap().insert(number, result);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

#[test]
fn printed_commands_run_in_order_in_an_empty_folder() {
    let (mut wrong, mut ran) = (Vec::new(), 0);
    let pages = book();
    let compared: BTreeSet<&str> = pages.iter().flat_map(printed::commands).collect();
    for outcome in on_all(&pages, |page| run::page(page, &compared)) {
        outcome.skipped.iter().for_each(|line| eprintln!("skipped: {line}"));
        wrong.extend(outcome.wrong);
        ran += outcome.ran;
    }
    eprintln!("{ran} commands ran");
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 60, "only {ran} commands found");
}

#[test]
fn volume_files_of_the_book_have_names_and_lie_in_examples() {
    let folder = root().join("examples");
    let mut shown = BTreeMap::new();
    let mut wrong = Vec::new();
    for page in book() {
        for block in &page.blocks {
            let Block::File { line, name, text } = block else { continue };
            let place = format!("{}:{line}", page.name);
            if let Some(name) = name.as_ref().filter(|name| !is_a(name, "toml")) {
                if folder.join(name).exists() {
                    shown.insert(name.clone(), (place, text.clone()));
                }
                continue;
            }
            if let Err(error) = toml::from_str::<toml::Table>(text) {
                wrong.push(format!("{place}: found no TOML, expected it: {error}"));
            }
            match name {
                Some(name) => drop(shown.insert(name.clone(), (place, text.clone()))),
                None if text.contains("[[export]]") && text.contains("[component.") => {
                    wrong.push(format!(
                        "{place}: found a volume without a name, expected a first line `# NAME.toml`"
                    ));
                }
                None => {}
            }
        }
    }
    let mut lying = BTreeMap::new();
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.is_file()) {
        lying.insert(
            path.file_name().unwrap().to_str().unwrap().to_owned(),
            std::fs::read_to_string(path).unwrap(),
        );
    }
    for (name, (place, text)) in &shown {
        if lying.get(name) != Some(text) {
            wrong.push(format!("{place}: found {name}, expected the text of examples/{name}"));
        }
    }
    for name in lying.keys().filter(|name| !shown.contains_key(*name) && *name != "README.md") {
        wrong.push(format!("examples/{name}: found no page that shows it, expected one"));
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a cell begins with a number that is measured: it has decimals or a unit.
fn is_figure(cell: &str) -> bool {
    let cell = cell.trim().trim_start_matches(['-', '−']);
    let number = cell.split(|each: char| !each.is_ascii_digit() && each != '.' && each != ',').next();
    let (number, rest) = cell.split_at(number.map_or(0, str::len));
    let unit = rest.trim_start().split([' ', ',']).next();
    let unit = unit.is_some_and(|unit| ["%", "ms", "us", "s", "MB/s"].contains(&unit));
    number.starts_with(|each: char| each.is_ascii_digit()) && (number.contains('.') || unit)
}

/// A table of figures says which command prints them, or why they are not compared.
#[test]
fn tables_of_figures_are_marked() {
    let names = [vec!["README.md".to_owned(), "docs/papers.md".to_owned()], pages_in("docs/decisions")];
    let (mut wrong, mut marked) = (Vec::new(), 0);
    for name in names.concat().into_iter().chain(pages_in("docs/book")) {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let starts =
            (1..lines.len()).filter(|&at| lines[at].starts_with('|') && !lines[at - 1].starts_with('|'));
        for start in starts.filter(|&at| !lines[at].starts_with("| section |")) {
            let rows = lines[start..].iter().take_while(|line| line.starts_with('|')).skip(2);
            let figures = rows.flat_map(|row| row.split('|')).filter(|cell| is_figure(cell)).count();
            let marks = lines[..start].iter().rev().take_while(|line| line.starts_with("<!--"));
            let mut marks = marks.filter(|mark| mark.contains("printed") || mark.contains("measured once: "));
            match marks.next() {
                Some(_) => marked += 1,
                None if figures >= 4 => {
                    wrong.push(format!("{name}:{}: found {figures} figures, expected a mark", start + 1));
                }
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    assert!(marked > 10, "only {marked} marks found");
}

#[test]
fn figures_are_those_that_their_commands_print() {
    let names = [vec!["docs/papers.md".to_owned()], pages_in("docs/decisions")].concat();
    let mut pages: Vec<Page> = names.iter().map(|name| Page::read(&root(), name)).collect();
    pages.extend(book());
    let printer = printed::Printer::new();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for outcome in on_all(&pages, |page| printer.page(page)) {
        outcome.skipped.iter().for_each(|line| eprintln!("skipped: {line}"));
        wrong.extend(outcome.wrong);
        compared += outcome.compared;
    }
    eprintln!("{compared} figures compared");
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 50, "only {compared} figures found");
}
