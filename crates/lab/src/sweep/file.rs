//! The file of a sweep: TOML to grids of values.
//!
//! A key above all `[[grid]]` tables holds for each of them that does not have it itself. A file without such tables is
//! one grid. Fault model: a file may hold anything; unknown keys and lists without a value are errors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use seekless_core::names::nearest_key;
use serde::Deserialize;
use toml::{Table, Value};

use super::error::SweepError;
use super::expand::TRACE_VOLUME;
use super::report::Objective;
use super::values::{is_range, values};

/// A sweep, as its file describes it.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The file, for messages; what it names is sought beside it first.
    pub file: PathBuf,
    /// What is best, most important first.
    pub objectives: Vec<Objective>,
    /// The grids.
    pub grids: Vec<Grid>,
}

/// A product of values.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Its place in the file, for messages: `sweep.toml: grid 2`.
    pub place: String,
    /// Recordings; each is a name, or files.
    pub traces: Vec<Vec<String>>,
    /// Whether each volume of a recording is a recording of its own.
    pub by_volume: bool,
    /// Volume files.
    pub volumes: Vec<String>,
    /// The volume file to compare with; without one, each volume without its layers.
    pub base: Option<String>,
    /// Values of the remaining parameters, the last of which varies first.
    pub parameters: Vec<Parameter>,
    /// Number of tasks to draw; all of them without.
    pub sample: Option<u64>,
    /// Seed of the draws.
    pub sample_seed: u64,
}

/// A parameter with its values.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// What it sets.
    pub sets: Sets,
    /// Its values, at least one.
    pub values: Vec<Value>,
}

/// What a parameter sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sets {
    /// The drive of the volume's only component.
    Drive,
    /// A key of the volume file.
    Option(Vec<String>),
    /// Limit of outstanding requests, in the closed pace.
    Outstanding,
    /// Speed-up over the recorded times, in the open pace.
    Speed,
    /// Number of reconfigurations.
    Reconfigure,
    /// Seed of all random choices.
    Seed,
}

impl Sets {
    /// The name of the parameter's column.
    pub fn name(&self) -> String {
        match self {
            Sets::Drive => "drive".to_owned(),
            Sets::Option(path) => path.join("."),
            Sets::Outstanding => "outstanding".to_owned(),
            Sets::Speed => "speed".to_owned(),
            Sets::Reconfigure => "reconfigure".to_owned(),
            Sets::Seed => "seed".to_owned(),
        }
    }
}

/// The keys of a grid.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GridKeys {
    traces: Value,
    by: Option<String>,
    volumes: Value,
    base: Option<String>,
    drives: Option<Value>,
    #[serde(default)]
    options: Table,
    outstanding: Option<Value>,
    speed: Option<Value>,
    reconfigure: Option<Value>,
    seeds: Option<Value>,
    sample: Option<u64>,
    #[serde(default = "first_seed")]
    sample_seed: u64,
}

fn first_seed() -> u64 {
    1
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<Sweep, SweepError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        SweepError::new(path.display().to_string(), error.to_string(), "the file of a sweep")
    })?;
    parse(path, &text)
}

/// Reads a sweep from `text`; `file` is for messages.
pub fn parse(file: &Path, text: &str) -> Result<Sweep, SweepError> {
    let name = file.display().to_string();
    let error = |place: &str, error: &toml::de::Error| {
        let found = error.to_string().trim_end().to_owned();
        let perhaps = nearest_key(&found).map_or_else(String::new, |meant| format!("; perhaps {meant}"));
        SweepError::new(place, found, format!("the keys of a sweep: docs/book/sweep.md{perhaps}"))
    };
    let mut table: Table = toml::from_str(text).map_err(|found| error(&name, &found))?;
    let objectives = table.remove("objectives");
    let grids = match table.remove("grid") {
        None => vec![(name.clone(), table)],
        Some(grids) => {
            let grids: Vec<Table> =
                grids.try_into().map_err(|found| error(&format!("{name}: grid"), &found))?;
            let with_defaults = |(number, grid): (usize, Table)| {
                let mut all = table.clone();
                all.extend(grid);
                (format!("{name}: grid {}", number + 1), all)
            };
            grids.into_iter().enumerate().map(with_defaults).collect()
        }
    };
    if grids.is_empty() {
        return Err(SweepError::new(format!("{name}: grid"), "no value", "at least one"));
    }
    let grids = grids.into_iter().map(|(place, keys)| {
        let keys = keys.try_into().map_err(|found| error(&place, &found))?;
        grid(place, keys)
    });
    Ok(Sweep {
        file: file.to_owned(),
        grids: grids.collect::<Result<_, _>>()?,
        objectives: read_objectives(&name, objectives)?,
    })
}

fn read_objectives(file: &str, value: Option<Value>) -> Result<Vec<Objective>, SweepError> {
    let Some(value) = value else { return Ok(Objective::defaults()) };
    let place = format!("{file}: objectives");
    let texts: Vec<String> = texts(&place, &value)?;
    let read = |text: &String| {
        text.parse().map_err(|expected: String| SweepError::new(&place, format!("'{text}'"), expected))
    };
    texts.iter().map(read).collect()
}

fn grid(place: String, keys: GridKeys) -> Result<Grid, SweepError> {
    let traces = match &keys.traces {
        Value::Array(all) => all
            .iter()
            .map(|trace| texts(&format!("{place}: traces"), trace))
            .collect::<Result<Vec<_>, _>>()?,
        one => vec![texts(&format!("{place}: traces"), one)?],
    };
    let volumes = texts(&format!("{place}: volumes"), &keys.volumes)?;
    let mut parameters = Vec::new();
    let mut add = |key: &str, sets: Sets, value: &Value| {
        let refused = |(found, expected)| SweepError::new(format!("{place}: {key}"), found, expected);
        // Each parameter draws by itself.
        let seed = keys.sample_seed ^ parameters.len() as u64;
        let values = values(value, seed).map_err(refused)?;
        let wrong = values.iter().find(|value| !fits(&sets, value));
        if let Some(value) = wrong {
            return Err(refused((value.to_string(), expected(&sets).to_owned())));
        }
        parameters.push(Parameter { sets, values });
        Ok(())
    };
    if let Some(drives) = &keys.drives {
        add("drives", Sets::Drive, drives)?;
    }
    let mut options = Vec::new();
    flatten(&mut Vec::new(), &keys.options, &mut options);
    for (path, value) in options {
        add(&format!("options.{}", path.join(".")), Sets::Option(path), &value)?;
    }
    let play = [
        ("outstanding", Sets::Outstanding, &keys.outstanding),
        ("speed", Sets::Speed, &keys.speed),
        ("reconfigure", Sets::Reconfigure, &keys.reconfigure),
        ("seeds", Sets::Seed, &keys.seeds),
    ];
    for (key, sets, value) in play {
        if let Some(value) = value {
            add(key, sets, value)?;
        }
    }
    let invalid = |key: &str, found: &str, expected: &str| {
        Err(SweepError::new(format!("{place}: {key}"), found, expected))
    };
    if keys.outstanding.is_some() && keys.speed.is_some() {
        return invalid("speed", "outstanding too", "one of them: speed is for the open pace");
    }
    if let Some(by) = keys.by.as_ref().filter(|by| *by != "volume") {
        return invalid("by", &format!("'{by}'"), "'volume', or no such key");
    }
    if traces.is_empty() {
        return invalid("traces", "no value", "at least one");
    }
    if keys.sample == Some(0) {
        return invalid("sample", "0", "at least 1");
    }
    let GridKeys { by, base, sample, sample_seed, .. } = keys;
    Ok(Grid { place, traces, by_volume: by.is_some(), volumes, base, parameters, sample, sample_seed })
}

/// A text, or a list of at least one.
fn texts(place: &str, value: &Value) -> Result<Vec<String>, SweepError> {
    let all = match value {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let texts: Option<Vec<String>> = all.iter().map(|one| Some(one.as_str()?.to_owned())).collect();
    match texts {
        Some(texts) if texts.is_empty() => Err(SweepError::new(place, "no value", "at least one")),
        Some(texts) => Ok(texts),
        None => Err(SweepError::new(place, value.to_string(), "a text, or a list of texts")),
    }
}

/// The keys of nested tables, with their paths.
fn flatten(path: &mut Vec<String>, table: &Table, found: &mut Vec<(Vec<String>, Value)>) {
    for (key, value) in table {
        path.extend(key.split('.').map(str::to_owned));
        match value {
            Value::Table(inner) if !is_range(inner) => flatten(path, inner, found),
            value => found.push((path.clone(), value.clone())),
        }
        path.truncate(path.len() - key.split('.').count());
    }
}

/// Whether a value is of the kind that the parameter has; those of options are checked with the volume.
fn fits(sets: &Sets, value: &Value) -> bool {
    match sets {
        Sets::Option(_) => true,
        Sets::Drive => value.is_str(),
        Sets::Outstanding => value.as_integer().is_some_and(|number| number > 0),
        Sets::Speed => {
            let number = value.as_float().or(value.as_integer().map(|whole| whole as f64));
            number.is_some_and(|number| number > 0.0 && number.is_finite())
        }
        Sets::Reconfigure | Sets::Seed => {
            value.as_integer().is_some_and(|number| (0..=i64::from(u32::MAX)).contains(&number))
        }
    }
}

fn expected(sets: &Sets) -> &'static str {
    match sets {
        Sets::Drive => "the name or file of a drive",
        Sets::Outstanding => "a whole number above zero",
        Sets::Speed => "a number above zero",
        Sets::Option(_) | Sets::Reconfigure | Sets::Seed => "a whole number from 0 to 4294967295",
    }
}

impl Sweep {
    /// Names of all parameters, in the order of the table's columns.
    pub fn parameters(&self) -> Vec<String> {
        let mut names = vec!["trace".to_owned(), "volume".to_owned()];
        if self.grids.iter().any(|grid| grid.by_volume) {
            names.push(TRACE_VOLUME.to_owned());
        }
        let mut known: BTreeSet<String> = names.iter().cloned().collect();
        for parameter in self.grids.iter().flat_map(|grid| &grid.parameters) {
            let name = parameter.sets.name();
            if known.insert(name.clone()) {
                names.push(name);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Sweep, SweepError> {
        parse(Path::new("s.toml"), text)
    }

    const LEAST: &str = "traces = 'a'\nvolumes = 'v.toml'\n";

    #[test]
    fn keys_above_grids_are_their_defaults() {
        let sweep = parsed(
            "traces = ['a', ['b.0', 'b.1']]\nseeds = { from = 1, to = 3, step = 1 }\n[[grid]]\nvolumes = 'v.toml'\n\
             options.layer.cache = { size = ['1MiB', '2MiB'], policy = 'lru' }\n[[grid]]\nvolumes = ['w.toml']\n\
             seeds = 7\nsample = 2\n",
        )
        .unwrap();
        assert_eq!(sweep.parameters(), ["trace", "volume", "layer.cache.policy", "layer.cache.size", "seed"]);
        let [one, other] = &sweep.grids[..] else { panic!("{sweep:?}") };
        assert_eq!(one.traces, [vec!["a".to_owned()], vec!["b.0".to_owned(), "b.1".to_owned()]]);
        assert_eq!(one.parameters.iter().map(|each| each.values.len()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((other.sample, other.parameters.len(), other.parameters[0].values.len()), (Some(2), 1, 1));
        assert_eq!(other.place, "s.toml: grid 2");
    }

    #[test]
    fn what_is_no_sweep_is_refused_with_its_key() {
        for (more, words) in [
            ("seed = 1", "s.toml: found unknown field `seed`"),
            ("[[grid]]\nvolume = 'x'", "s.toml: grid 1: found unknown field `volume`"),
            ("seeds = []", "s.toml: seeds: found no value, expected at least one"),
            ("options.layer.cache.size = []", "s.toml: options.layer.cache.size: found no value"),
            ("grid = []", "s.toml: grid: found no value"),
            ("outstanding = [0]", "s.toml: outstanding: found 0, expected a whole number above zero"),
            ("drives = [1]", "s.toml: drives: found 1, expected the name"),
            ("seeds = [-1]", "s.toml: seeds: found -1"),
            ("outstanding = 1\nspeed = 2.0", "s.toml: speed: found outstanding too"),
            ("sample = 0", "s.toml: sample: found 0"),
            ("objectives = ['most busy_s']", "s.toml: objectives: found 'most busy_s', expected min or max"),
            ("objectives = ['min busy']", "s.toml: objectives: found 'min busy', expected one of: "),
            ("objectives = []", "s.toml: objectives: found no value"),
            ("[[grid]]\ntraces = [[]]", "s.toml: grid 1: traces: found no value"),
            ("[[grid]]\nvolumes = [1]", "s.toml: grid 1: volumes: found [1]"),
        ] {
            let error = parsed(&format!("{LEAST}{more}\n")).unwrap_err().to_string();
            assert!(error.contains(words), "{more}: {error}");
        }
        let error = parsed("traces = 'a'").unwrap_err().to_string();
        assert!(error.contains("missing field `volumes`"), "{error}");
        assert!(parsed("traces = ").is_err());
        assert!(
            parsed("traces = []\nvolumes = 'v'").unwrap_err().to_string().contains("traces: found no value")
        );
    }
}
