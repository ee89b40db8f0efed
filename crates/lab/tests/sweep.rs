//! Sweeps: what a file expands to, what identities depend on, and what the report says about rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use seekless_lab::sweep::{Figure, Report, Row, Sweep, Task, expand, file, task};
use seekless_trace::ReadOptions;

const VOLUME: &str =
    "[component.disk]\ndrive = 'wd2500aaks'\n[layer.cache]\nover = 'disk'\n[[export]]\ntop = 'cache'\n";
const PLAIN: &str = "[component.disk]\ndrive = 'wd2500aaks'\n[[export]]\ntop = 'disk'\n";
const ARRAY: &str = "[component]\na = { drive = 'wd2500aaks' }\nb = { drive = 'wd2500aaks' }\np = { drive = 'wd2500aaks' }\n\
                     [layer.raid4]\nover = ['a', 'b']\nparity = 'p'\n[[export]]\ntop = 'raid4'\n";

/// A folder with two traces and three volumes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let line = |n: u64| format!("{n}.5 ; {} ; 8 ; R\n", n * n % 97 * 4_000);
    write("a.load", &(0..60).map(line).collect::<String>());
    write("b.load", &(0..30).map(line).collect::<String>());
    write("cache.toml", VOLUME);
    write("plain.toml", PLAIN);
    write("array.toml", ARRAY);
    folder
}

fn sweep(folder: &Path, text: &str) -> Sweep {
    file::parse(&folder.join("s.toml"), text).unwrap()
}

fn tasks(folder: &Path, text: &str) -> Vec<Task> {
    expand(&sweep(folder, text), "program 1").unwrap()
}

fn lines(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(Task::line).collect()
}

const GRID: &str = "traces = ['a.load', 'b.load']\nvolumes = 'cache.toml'\n\
                    options.layer.cache.size = ['1MiB', '2MiB', '4MiB']\nseeds = [1, 2]\n";

#[test]
fn a_grid_is_expanded_with_the_seed_innermost() {
    let folder = folder();
    let all = tasks(folder.path(), GRID);
    assert_eq!(all.len(), 12);
    let first = "trace = a.load, volume = cache.toml, layer.cache.size = 1MiB, seed = 1";
    assert_eq!(lines(&all)[0], first);
    assert_eq!(lines(&all)[1], first.replace("seed = 1", "seed = 2"));
    assert_eq!(lines(&all)[11], "trace = b.load, volume = cache.toml, layer.cache.size = 4MiB, seed = 2");
    assert!(all[0].volume.text.contains("size = \"1MiB\""), "{}", all[0].volume.text);
}

#[test]
fn a_sample_is_a_part_of_the_grid_in_its_order() {
    let folder = folder();
    let all = lines(&tasks(folder.path(), GRID));
    let mut drawn = BTreeSet::new();
    for seed in 1..40 {
        let some = lines(&tasks(folder.path(), &format!("{GRID}sample = 5\nsample_seed = {seed}\n")));
        assert_eq!(some, lines(&tasks(folder.path(), &format!("{GRID}sample = 5\nsample_seed = {seed}\n"))));
        let places: Vec<usize> =
            some.iter().map(|one| all.iter().position(|other| one == other).unwrap()).collect();
        assert!(places.len() == 5 && places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
        drawn.extend(places);
    }
    assert_eq!(drawn.len(), 12, "each task is drawn with some seed");
}

#[test]
fn an_identity_depends_on_contents_and_not_on_names() {
    let folder = folder();
    let identity =
        |text: &str, program: &str| expand(&sweep(folder.path(), text), program).unwrap()[0].identity();
    let least = "traces = 'a.load'\nvolumes = 'cache.toml'\n";
    let usual = identity(least, "1");
    std::fs::copy(folder.path().join("a.load"), folder.path().join("c.load")).unwrap();
    std::fs::write(folder.path().join("same.toml"), format!("# A comment.\n{VOLUME}")).unwrap();
    assert_eq!(identity("traces = 'c.load'\nvolumes = 'same.toml'\n", "1"), usual);
    let mut all = BTreeSet::from([usual]);
    for more in [
        "seeds = 2",
        "outstanding = 7",
        "reconfigure = 3",
        "speed = 2.0",
        "options.layer.cache.size = '1MiB'",
        "base = 'plain.toml'",
        "drives = 'wd6400aaks'",
    ] {
        assert!(all.insert(identity(&format!("{least}{more}"), "1")), "{more}");
    }
    assert!(all.insert(identity(&least.replace("a.load", "b.load"), "1")));
    assert!(all.insert(identity(least, "2")), "another program");
    // A drive file.
    let drive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives/wd2500aaks.toml");
    let text = std::fs::read_to_string(drive).unwrap();
    std::fs::write(folder.path().join("own.toml"), &text).unwrap();
    let own = format!("{least}drives = 'own.toml'\n");
    assert!(all.insert(identity(&own, "1")));
    std::fs::write(folder.path().join("own.toml"), format!("{text}# changed\n")).unwrap();
    assert!(all.insert(identity(&own, "1")), "another drive file");
}

#[test]
fn a_row_has_the_figures_of_the_comparison() {
    let folder = folder();
    let all = tasks(
        folder.path(),
        "traces = 'a.load'\nvolumes = ['cache.toml', 'plain.toml']\nbase = 'plain.toml'\n",
    );
    let trace = seekless_trace::load(&[folder.path().join("a.load")], &ReadOptions::default()).unwrap();
    let rows: Vec<Row> = all.iter().map(|task| task::run(task, &trace, &|_| ())).collect();
    let figure = |row: usize, name: &str| rows[row].figures[name].number().unwrap();
    assert_eq!((&rows[0].error, &rows[0].identity), (&None, &all[0].identity()));
    assert_eq!(rows[0].figures["response_ms.reads.requests"], Figure::Whole(60));
    let expected = 100.0 * (1.0 - figure(0, "busy_s") / figure(0, "base.busy_s"));
    assert!((figure(0, "net_reduction_pct") - expected).abs() < 1e-3, "{expected}");
    assert_eq!(rows[1].figures["net_reduction_pct"], Figure::Number(0.0));
    assert_eq!((figure(0, "layers.cache.hits") + figure(0, "layers.cache.misses")).round() as u64, 60);
    // Without a base, the volume without its layers is one.
    let bare = tasks(folder.path(), "traces = 'a.load'\nvolumes = 'cache.toml'\n");
    let bare = task::run(&bare[0], &trace, &|_| ());
    assert_eq!(bare.figures, rows[0].figures);
    let array = sweep(folder.path(), "traces = 'a.load'\nvolumes = 'array.toml'\n");
    let error = expand(&array, "1").unwrap_err().to_string();
    assert!(error.contains("base: found none for array.toml, expected a volume file"), "{error}");
}

/// The report of rows with these figures: net reduction and 99th percentile by trace, size and seed.
fn report(folder: &Path, more: &str, figures: impl Fn(&Task) -> Option<(f64, f64)>) -> Report {
    let sweep = sweep(folder, &format!("{GRID}{more}"));
    let tasks = expand(&sweep, "1").unwrap();
    let row = |task: &Task| match figures(task) {
        None => Row::failed(task.identity(), "too small".to_owned()),
        Some((net, p99)) => Row {
            identity: task.identity(),
            error: None,
            notes: Vec::new(),
            figures: BTreeMap::from([
                ("net_reduction_pct".to_owned(), Figure::Number(net)),
                ("response_ms.all.p99".to_owned(), Figure::Number(p99)),
            ]),
        },
    };
    let rows: Vec<Row> = tasks.iter().map(row).collect();
    Report::of(&sweep, &tasks, &rows)
}

fn setting<'a>(task: &'a Task, name: &str) -> &'a Figure {
    &task.settings.iter().find(|(key, _)| key == name).unwrap().1
}

/// The size of a task's cache in MiB.
fn size(task: &Task) -> f64 {
    f64::from(mib(task))
}

fn mib(task: &Task) -> u32 {
    setting(task, "layer.cache.size").to_string().trim_end_matches("MiB").parse().unwrap()
}

#[test]
fn a_report_finds_the_best_and_the_front() {
    let folder = folder();
    // More cache saves more and answers later; but 2 MiB answer later than 4 MiB.
    let of = |task: &Task| {
        let (size, seed) = (size(task), setting(task, "seed").number().unwrap());
        Some((10.0 * size + seed, if mib(task) == 2 { 9.0 } else { size }))
    };
    let report = report(folder.path(), "", of);
    let sizes = |points: &[seekless_lab::sweep::report::Point]| {
        points.iter().map(|point| point.settings["layer.cache.size"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&report.best), ["4MiB", "2MiB", "1MiB"]);
    assert_eq!(
        (report.best[0].tasks, &report.best[0].means[..], report.best[0].span),
        (4, &[41.5, 4.0][..], [41.0, 42.0])
    );
    assert_eq!(sizes(&report.front), ["4MiB", "1MiB"]);
    let of_traces: Vec<&str> = report.best_of_trace.iter().map(|best| best.trace.as_str()).collect();
    assert_eq!((of_traces, report.best_of_trace[0].point.tasks), (vec!["a.load", "b.load"], 2));
    assert_eq!(report.parameters, ["trace", "layer.cache.size", "seed"]);
    assert_eq!((report.failed, report.notes.len()), (0, 0), "{:?}", report.notes);
}

#[test]
fn a_report_finds_what_matters() {
    let folder = folder();
    let is_a = |task: &Task| *setting(task, "trace") == Figure::Text("a.load".to_owned());
    // The best size of each trace is another one: trace and size matter together only.
    let of = |task: &Task| Some((if is_a(task) { size(task) } else { -size(task) }, 1.0));
    let report = report(folder.path(), "", of);
    let shares: BTreeMap<&str, f64> =
        report.sensitivity.iter().map(|effect| (effect.parameter.as_str(), effect.share_pct)).collect();
    let pair = &report.interactions[0];
    assert_eq!(pair.parameters, ["trace", "layer.cache.size"]);
    assert!(shares["seed"].abs() < 1e-9 && shares["layer.cache.size"].abs() < 1e-9, "{shares:?}");
    // Means of 7/3 and -7/3; the mean of squares is 7.
    assert!((shares["trace"] - 100.0 * 49.0 / 9.0 / 7.0).abs() < 1e-3, "{shares:?}");
    assert!((shares["trace"] + pair.share_pct.unwrap() - 100.0).abs() < 2e-3, "{pair:?}");
    assert!((report.sensitivity[0].levels[0].mean - 7.0 / 3.0).abs() < 1e-12);
}

#[test]
fn a_report_leaves_out_what_cannot_be_compared() {
    let folder = folder();
    let fails = |task: &Task| mib(task) == 4 && *setting(task, "seed") == Figure::Whole(2);
    let failing = report(folder.path(), "", |task| (!fails(task)).then(|| (size(task), 1.0)));
    assert_eq!(
        (failing.failed, failing.failures[0].tasks, failing.failures[0].error.as_str()),
        (2, 2, "too small")
    );
    assert!(
        failing
            .best
            .iter()
            .all(|point| point.settings["layer.cache.size"] != Figure::Text("4MiB".to_owned()))
    );
    assert!(failing.notes.iter().any(|note| note.contains("1 of 3 configurations")), "{:?}", failing.notes);
    assert!(failing.notes.iter().any(|note| note.contains("unequal numbers")), "{:?}", failing.notes);
    let pair =
        failing.interactions.iter().find(|pair| pair.parameters == ["layer.cache.size", "seed"]).unwrap();
    assert_eq!(pair.share_pct, None);
    let none = report(folder.path(), "", |_| None);
    assert_eq!((none.failed, none.best.len(), none.sensitivity.len()), (12, 0, 0));
    let other =
        report(folder.path(), "objectives = 'min layers.cache.hits'\n", |task| Some((size(task), 1.0)));
    assert!(other.notes[0].starts_with("Left out: 12 of 12 tasks"), "{:?}", other.notes);
}
