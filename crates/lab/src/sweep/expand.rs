//! Grids to tasks: traces x volumes x drives x options x seeds, or a random sample of these.
//!
//! The order is that of the file, with the trace outermost and the seed innermost. Faults: what cannot be a sweep is an
//! error here, before the first task runs. A volume that is invalid with some of its options is left to its tasks,
//! which fail; one that is invalid with all of them is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use seekless_core::runtime::Rng;
use seekless_trace::{ReadOptions, Reader, TraceError};
use seekless_volume::component::existing_path;
use toml::{Table, Value};

use super::error::SweepError;
use super::file::{Grid, Sets, Sweep};
use super::hash::hash_file;
use super::overrides;
use super::row::Figure;
use super::task::{PlayKeys, Source, Task, VolumeText};

/// The parameter that is the volume of a recording.
pub const TRACE_VOLUME: &str = "trace_volume";
/// Largest number of tasks of a sweep.
const MOST: u64 = 100_000;

/// The tasks of a sweep, to be run by `program`. Reads volume files, and hashes traces and drive files.
pub fn expand(sweep: &Sweep, program: &str) -> Result<Vec<Task>, SweepError> {
    let mut files = Files {
        beside: &sweep.file,
        volumes: BTreeMap::new(),
        sources: BTreeMap::new(),
        divided: BTreeMap::new(),
        drives: BTreeMap::new(),
    };
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for grid in &sweep.grids {
        let first = tasks.len();
        expand_grid(grid, program, &mut files, &mut tasks)?;
        for (at, task) in tasks.iter().enumerate().skip(first) {
            if let Some(other) = known.insert(task.identity(), at) {
                let found =
                    format!("two tasks with one identity: {}; and {}", tasks[other].line(), task.line());
                return Err(SweepError::new(&grid.place, found, "each task once"));
            }
        }
        check_volumes(grid, &tasks[first..])?;
    }
    Ok(tasks)
}

/// Files that were read.
struct Files<'a> {
    beside: &'a Path,
    volumes: BTreeMap<String, (String, Table)>,
    sources: BTreeMap<Vec<String>, Source>,
    divided: BTreeMap<String, Vec<Source>>,
    drives: BTreeMap<PathBuf, Option<String>>,
}

fn expand_grid(
    grid: &Grid,
    program: &str,
    files: &mut Files,
    tasks: &mut Vec<Task>,
) -> Result<(), SweepError> {
    let base = grid.base.as_ref().map(|base| files.base(grid, base)).transpose()?;
    let mut sources = Vec::new();
    for trace in &grid.traces {
        let source = files.source(grid, trace)?;
        sources.extend(if grid.by_volume { files.volumes_of(&source) } else { vec![source] });
    }
    let counts: Vec<u64> = [sources.len(), grid.volumes.len()]
        .into_iter()
        .chain(grid.parameters.iter().map(|parameter| parameter.values.len()))
        .map(|count| count as u64)
        .collect();
    for index in chosen(grid, &counts, tasks.len() as u64)? {
        let digits = digits(index, &counts);
        let source = sources[digits[0]].clone();
        let volume = &grid.volumes[digits[1]];
        let (file, mut table) = files.volume(grid, volume)?;
        let mut settings = vec![
            ("trace".to_owned(), Figure::Text(source.name.clone())),
            ("volume".to_owned(), Figure::Text(volume.clone())),
        ];
        settings
            .extend(source.volume.iter().map(|name| (TRACE_VOLUME.to_owned(), Figure::Text(name.clone()))));
        let mut play = PlayKeys::default();
        for (parameter, digit) in grid.parameters.iter().zip(&digits[2..]) {
            let value = &parameter.values[*digit];
            let name = parameter.sets.name();
            apply(&parameter.sets, value, &mut table, &mut play).map_err(|(found, expected)| {
                SweepError::new(format!("{}: {name}", grid.place), format!("{found} in {file}"), expected)
            })?;
            settings.push((name, value.clone().into()));
        }
        let text = toml::to_string(&table).map_err(|error| {
            SweepError::new(&file, error.to_string(), "options that a volume file can hold")
        })?;
        let mut drive_files = files.drive_files(&file, &mut table);
        if let Some((_, drives)) = &base {
            drive_files.extend(drives.clone());
        }
        let (program, base) = (program.to_owned(), base.as_ref().map(|(text, _)| text.clone()));
        tasks.push(Task {
            program,
            trace: source,
            volume: VolumeText { file, text },
            base,
            drive_files,
            play,
            settings,
        });
    }
    Ok(())
}

fn apply(
    sets: &Sets,
    value: &Value,
    volume: &mut Table,
    play: &mut PlayKeys,
) -> Result<(), overrides::Refused> {
    let whole = value.as_integer().unwrap_or_default();
    match sets {
        Sets::Drive => return overrides::set_drive(volume, value.clone()),
        Sets::Option(path) => return overrides::set(volume, path, value.clone()),
        Sets::Outstanding => play.outstanding = whole as u64,
        Sets::Speed => play.speed = value.as_float().or(Some(whole as f64)),
        Sets::Reconfigure => play.reconfigure = whole as u32,
        Sets::Seed => play.seed = whole as u64,
    }
    Ok(())
}

/// Numbers of the grid's tasks: all, or a sample without repetition, in order. `before` tasks are there already.
fn chosen(grid: &Grid, counts: &[u64], before: u64) -> Result<Vec<u64>, SweepError> {
    let all = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count)).unwrap_or(u64::MAX);
    let count = grid.sample.unwrap_or(all);
    if count > all {
        let expected = format!("at most {all}, the number of tasks of the grid");
        return Err(SweepError::new(format!("{}: sample", grid.place), count.to_string(), expected));
    }
    if before + count.min(MOST + 1) > MOST {
        let expected = format!("at most {MOST} in all grids: fewer values, or sample = N");
        return Err(SweepError::new(&grid.place, format!("{count} tasks"), expected));
    }
    if count == all {
        return Ok((0..all).collect());
    }
    // Floyd's algorithm: each set of that size is equally likely.
    let (mut rng, mut drawn) = (Rng::seeded(grid.sample_seed), BTreeSet::new());
    for last in all - count..all {
        let number = rng.below(last + 1);
        if !drawn.insert(number) {
            drawn.insert(last);
        }
    }
    Ok(drawn.into_iter().collect())
}

/// The digits of a number, the first of which varies last.
fn digits(mut number: u64, counts: &[u64]) -> Vec<usize> {
    let mut digits = vec![0; counts.len()];
    for (digit, count) in digits.iter_mut().zip(counts).rev() {
        *digit = (number % count) as usize;
        number /= count;
    }
    digits
}

/// Checks that each volume file is a volume in some task of the grid, and can be compared.
fn check_volumes(grid: &Grid, tasks: &[Task]) -> Result<(), SweepError> {
    for volume in &grid.volumes {
        let of_volume = |task: &&Task| {
            task.settings.get(1).is_some_and(|(_, name)| *name == Figure::Text(volume.clone()))
        };
        let mut first = None;
        let mut valid = None;
        for task in tasks.iter().filter(of_volume) {
            match task.volume.description() {
                Ok(description) => {
                    valid = Some((task, description));
                    break;
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        match (valid, first) {
            (Some((task, description)), _) => {
                let base = task.base(&description);
                let base = base.map_err(|error| SweepError::new(error.place, error.found, error.expected))?;
                if base.is_none() {
                    let expected = "a volume file: a layer lies over several devices";
                    return Err(SweepError::new(
                        format!("{}: base", grid.place),
                        format!("none for {volume}"),
                        expected,
                    ));
                }
            }
            (None, Some(error)) => return Err(SweepError::new(error.place, error.found, error.expected)),
            (None, None) => {}
        }
    }
    Ok(())
}

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        existing_path(&self.beside.display().to_string(), PathBuf::from(name))
    }

    /// The name for messages, and the content of a volume file.
    fn volume(&mut self, grid: &Grid, name: &str) -> Result<(String, Table), SweepError> {
        if let Some(read) = self.volumes.get(name) {
            return Ok(read.clone());
        }
        let path = self.path(name);
        let place = format!("{}: {name}", grid.place);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| SweepError::new(&place, error.to_string(), "a volume file"))?;
        let table = toml::from_str(&text).map_err(|error: toml::de::Error| {
            SweepError::new(&place, error.to_string().trim_end(), "a volume file")
        })?;
        let read = (path.display().to_string(), table);
        self.volumes.insert(name.to_owned(), read.clone());
        Ok(read)
    }

    /// The base, and the hashes of its drive files.
    fn base(
        &mut self,
        grid: &Grid,
        name: &str,
    ) -> Result<(VolumeText, BTreeMap<String, String>), SweepError> {
        let (file, mut table) = self.volume(grid, name)?;
        let text = toml::to_string(&table)
            .map_err(|error| SweepError::new(&file, error.to_string(), "a volume file"))?;
        let drives = self.drive_files(&file, &mut table);
        Ok((VolumeText { file, text }, drives))
    }

    /// The files of a recording, hashed.
    fn source(&mut self, grid: &Grid, names: &[String]) -> Result<Source, SweepError> {
        if let Some(source) = self.sources.get(names) {
            return Ok(source.clone());
        }
        let place = format!("{}: traces", grid.place);
        let folder = self.beside.parent().unwrap_or(Path::new(""));
        let beside: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let paths = seekless_trace::expand(&beside).or_else(|_| seekless_trace::expand(names));
        let paths = paths.map_err(|error| SweepError::new(&place, error.to_string(), "a recording"))?;
        let mut files = Vec::new();
        for path in paths {
            let hash = hash_file(&path).map_err(|error| {
                SweepError::new(&place, format!("{}: {error}", path.display()), "a recording")
            })?;
            files.push((path.display().to_string(), hash.to_string()));
        }
        let source = Source { name: names.join(" "), files, volume: None };
        self.sources.insert(names.to_owned(), source.clone());
        Ok(source)
    }

    /// Each volume of a recording, the busiest first; the whole of one that cannot be read, whose tasks fail.
    fn volumes_of(&mut self, source: &Source) -> Vec<Source> {
        let read = || -> Result<Vec<Source>, TraceError> {
            let paths: Vec<&String> = source.files.iter().map(|(file, _)| file).collect();
            let mut reader = Reader::open(&paths, &ReadOptions::default())?;
            let mut requests: BTreeMap<u32, u64> = BTreeMap::new();
            for record in reader.by_ref() {
                *requests.entry(record?.device).or_default() += 1;
            }
            let mut devices: Vec<(u32, u64)> = requests.into_iter().collect();
            devices.sort_by_key(|(device, requests)| (std::cmp::Reverse(*requests), *device));
            let names = devices.into_iter().map(|(device, _)| reader.volumes().name(device));
            Ok(names.map(|name| Source { volume: Some(name), ..source.clone() }).collect())
        };
        let divided = self.divided.entry(source.name.clone());
        divided.or_insert_with(|| read().unwrap_or_else(|_| vec![source.clone()])).clone()
    }

    /// Hashes of the drive files that a volume names, by name; drives that ship have none.
    fn drive_files(&mut self, volume: &str, table: &mut Table) -> BTreeMap<String, String> {
        let named = overrides::drives(table).into_iter().filter_map(|name| {
            let path = existing_path(volume, PathBuf::from(&name));
            let read = |path: &PathBuf| {
                path.is_file().then(|| hash_file(path).ok()).flatten().map(|hash| hash.to_string())
            };
            let hash = self.drives.entry(path.clone()).or_insert_with(|| read(&path)).clone();
            Some((name, hash?))
        });
        named.collect()
    }
}
