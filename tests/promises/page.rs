//! Writes `PROMISES.md` from the headers of the tests beside it and the figures of the last run: `make promises`.
//!
//! A header has the promise and, after a blank line, the fault model. Figures are what `seekless lab explore --json`
//! printed. With `--check` nothing is written, and a page that differs from the generated one is an error.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

struct Promise {
    number: u32,
    text: String,
    /// Fault model.
    model: String,
    /// The test.
    file: String,
}

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = folder.join("../../PROMISES.md");
    let text = text(folder)?;
    if env::args().any(|argument| argument == "--check") {
        let found = fs::read_to_string(&page).context("PROMISES.md")?;
        ensure!(
            found == text,
            "PROMISES.md: found something else than is made of tests/promises; `make promises`"
        );
    } else {
        fs::write(&page, text).context("PROMISES.md")?;
    }
    Ok(())
}

fn text(folder: &Path) -> anyhow::Result<String> {
    let mut promises: Vec<Promise> = Vec::new();
    for (name, text) in files(folder, "rs")? {
        if name.starts_with('p') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
            promises.push(header(&name, &text)?);
        }
    }
    promises.sort_by_key(|promise| promise.number);
    for (expected, promise) in (1..).zip(&promises) {
        ensure!(promise.number == expected, "found promise {}, expected {expected}", promise.number);
    }
    let mut out = String::from(
        "# What seekless promises\n\nMade of the headers of [the tests](tests/promises) and the figures of the last run by \
         `make promises`.\n",
    );
    for Promise { number, text, model, file } in &promises {
        write!(out, "\n## {number}. {text}\n\n{model}\n\nTested by [{file}](tests/promises/{file}).\n")?;
    }
    out += "\n## The last run\n\nEach row is a run of `seekless lab explore` (`make explore`) on a volume of \
            [tests/promises/volumes](tests/promises/volumes). A state is the contents of the components after a crash, opened and \
            judged; all are different.\n\n| volume | requests | states | by crashes in a row | different in metadata | judged | \
            runs | runs with a fault | longest answer | found |\n|---|---|---:|---|---:|---:|---:|---:|---:|---|\n";
    for (name, text) in files(&folder.join("figures"), "json")? {
        let figures: Value = serde_json::from_str(&text).with_context(|| name.clone())?;
        row(&mut out, &figures).with_context(|| name)?;
    }
    edges(&mut out, folder)?;
    mutants(&mut out, folder)?;
    Ok(out)
}

/// The files of a folder with their texts, in the order of their names.
fn files(folder: &Path, extension: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push((name, fs::read_to_string(&path)?));
        }
    }
    all.sort();
    Ok(all)
}

/// The promise in the header of a test.
fn header(name: &str, text: &str) -> anyhow::Result<Promise> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let header = lines.collect::<Vec<_>>().join("\n");
    let parts: Vec<String> = header.split("\n\n").map(|part| part.replace('\n', " ")).collect();
    let [promise, model] = parts.as_slice() else {
        bail!("{name}: found a header of {} parts, expected the promise and its fault model", parts.len());
    };
    let split = promise.strip_prefix("Promise ").and_then(|rest| rest.split_once(". "));
    let Some((number, text)) = split else { bail!("{name}: found '{promise}', expected 'Promise N. ...'") };
    ensure!(model.starts_with("Fault model: "), "{name}: found '{model}', expected 'Fault model: ...'");
    let number = number.parse().with_context(|| format!("{name}: found promise '{number}'"))?;
    Ok(Promise { number, text: text.to_owned(), model: model.clone(), file: name.to_owned() })
}

fn row(out: &mut String, figures: &Value) -> anyhow::Result<()> {
    let number =
        |key: &str| figures[key].as_u64().map(thousands).with_context(|| format!("{key}: expected a number"));
    let word = |key: &str| figures[key].as_str().with_context(|| format!("{key}: expected a text"));
    let volume = word("volume")?.rsplit('/').next().unwrap_or_default().trim_end_matches(".toml");
    let depths = figures["states_by_depth"].as_array().context("states_by_depth: expected a list")?;
    let depths: Vec<String> = depths.iter().filter_map(Value::as_u64).map(thousands).collect();
    let longest = ["longest_answer_ms", "longest_answer_with_faults_ms"]
        .map(|key| figures[key].as_f64().unwrap_or(0.0));
    writeln!(
        out,
        "| {volume} | {} | {} | {} | {} | {} | {} | {} | {:.2} ms | {} |",
        word("workload")?,
        number("states")?,
        depths.join(" + "),
        number("metadata_states")?,
        number("judged")?,
        number("runs")?,
        number("fault_runs")?,
        longest[0].max(longest[1]),
        figures["finding"].as_str().unwrap_or("nothing"),
    )?;
    Ok(())
}

/// The named edges of layers, and how often they were reached in all runs.
fn edges(out: &mut String, folder: &Path) -> anyhow::Result<()> {
    let mut all = std::collections::BTreeMap::<String, u64>::new();
    for (_, text) in files(&folder.join("figures"), "json")? {
        let figures: Value = serde_json::from_str(&text)?;
        for (edge, times) in figures["edges"].as_object().into_iter().flatten() {
            *all.entry(edge.clone()).or_default() += times.as_u64().unwrap_or(0);
        }
    }
    *out += "\nRare and dangerous places of the layers' code that a run must reach, or it fails:\n\n| edge | reached |\n|---|---:|\n";
    for (edge, times) in all {
        writeln!(out, "| {edge} | {} |", thousands(times))?;
    }
    Ok(())
}

/// Known bugs, and whether explorations find them: a line each as `scripts/mutants` writes them, `found` or `survived`,
/// CPU seconds, the bug, the exploration and the violation. `survivors` explains why some are not found.
fn mutants(out: &mut String, folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("figures/mutants.tsv");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let file = folder.join("figures/survivors.tsv");
    let why = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let count = |state: &str| lines.iter().filter(|line| line[0] == state).count();
    let (found, tried) = (count("found"), lines.len() - count("untried"));
    write!(
        out,
        "\n## Mutants\n\nKnown bugs, one at a time in a build that has them (`make mutants`), and what finds them: \
         {found} of {tried} that were tried are found by the explorations above, or by that of the file component, and {} wait to be tried.\n\n\
         | bug | found by | CPU seconds |\n|---|---|---:|\n",
        count("untried")
    )?;
    for line in &lines {
        let [state, seconds, bug, rest @ ..] = line.as_slice() else {
            bail!("mutants.tsv: found {line:?}, expected a state, seconds and a bug");
        };
        let known = why.lines().find_map(|line| line.strip_prefix(bug)?.strip_prefix('\t'));
        let by = match (*state, rest.first()) {
            ("found", Some(by)) => (*by).to_owned(),
            ("untried", _) => "not tried yet".to_owned(),
            _ => format!("not found: {}", known.with_context(|| format!("survivors.tsv: nothing on {bug}"))?),
        };
        writeln!(out, "| {bug} | {by} | {seconds} |")?;
    }
    Ok(())
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}
