//! Commands as functions, for the Python package: of values that were read before, with the options of the command line
//! and the same errors.
//!
//! Options are words of a command line, so that names, defaults, limits and messages are the program's own.

use clap::{ArgMatches, Args, Command};
use seekless_core::{Nanos, Record};
use seekless_drive::Spec;
use seekless_lab::figure::shown::Shown;
use seekless_lab::hits::Hits;
use seekless_lab::outcome::{Comparison, Variant};
use seekless_lab::{Candidate, LoadOutcome};
use seekless_trace::stats::fleet::{Fleet, FleetAnalysis, FleetSurvey};
use seekless_trace::write::Tables;
use seekless_trace::{Reader, StatsOptions, Trace};
use seekless_volume::Description;

use crate::convert::{self, Writing, WrittenTrace};
use crate::drive::validate;
use crate::hits::Caches;
use crate::input::Input;
use crate::lab;
pub use crate::printed::Printed;
use crate::stats::{self, Characterising};
use crate::{Usage, explore, figure, output};

/// Records between two questions whether to go on.
const CHECKED: usize = 1 << 15;

/// Parses the words of a command.
fn parsed<A: Args>(words: &[String]) -> anyhow::Result<A> {
    let command = A::augment_args(Command::new("seekless").no_binary_name(true).disable_help_flag(true));
    let read = |matches: ArgMatches| A::from_arg_matches(&matches);
    command.try_get_matches_from(words).and_then(read).map_err(|error| Usage(first_part(&error)).into())
}

/// What is wrong, without hints about a command line.
fn first_part(error: &clap::Error) -> String {
    let text = error.to_string();
    let part = text.split("\n\n").next().unwrap_or_default().trim();
    part.strip_prefix("error: ").unwrap_or(part).to_owned()
}

/// Whether it is the arguments that are wrong.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>()
}

/// The text of an error with its causes, as the program prints it.
pub fn message(error: &anyhow::Error) -> String {
    output::with_causes(error)
}

/// An object with the name of its schema, as `--json` prints it.
pub fn json(value: &impl Printed) -> anyhow::Result<String> {
    output::json_text(value)
}

/// Opens a trace: the files and options of `trace info`.
pub fn reader(words: &[String], latencies: bool) -> anyhow::Result<Reader> {
    let input: Input = parsed(words)?;
    Ok(Reader::open(&input.found()?, &input.reading.options(latencies))?)
}

/// The options of `trace stats`, except those of reading, for a trace that ends at `end`.
pub fn statistics(words: &[String], end: Nanos) -> anyhow::Result<StatsOptions> {
    let options = parsed::<Characterising>(words)?.options()?;
    options.check(end).map_err(|many| Usage(many.to_string()))?;
    Ok(options)
}

/// Whether words have the option `--by`.
pub fn is_divided(words: &[String]) -> bool {
    words.iter().any(|word| word == "--by" || word.starts_with("--by="))
}

/// `trace stats --by volume` of a trace that was read. `goes_on` is called now and then; once it returns false the
/// result is incomplete.
pub fn fleet(trace: &Trace, words: &[String], goes_on: impl FnMut() -> bool) -> anyhow::Result<Fleet> {
    let arguments: stats::fleet::Divided = parsed(words)?;
    let mut goes_on = goes_on;
    let mut each = |follow: &mut dyn FnMut(&Record)| {
        for records in trace.records.chunks(CHECKED) {
            if !goes_on() {
                break;
            }
            records.iter().for_each(&mut *follow);
        }
    };
    let mut survey = FleetSurvey::default();
    each(&mut |record| survey.note(record));
    let mut analysis = FleetAnalysis::new(survey, &arguments.how.options()?);
    each(&mut |record| analysis.follow(record));
    Ok(analysis.finish(&trace.volumes))
}

/// Writes a trace, as `trace convert` does. `goes_on` is called now and then; once it returns false nothing is written.
pub fn convert(
    trace: &Trace,
    words: &[String],
    goes_on: impl FnMut() -> bool,
) -> anyhow::Result<Option<WrittenTrace>> {
    let writing: Writing = parsed(words)?;
    writing.check()?;
    let size_of = |path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let sources = trace.sources.iter();
    let sources = sources.map(|path| (path.display().to_string(), size_of(path).map(|file| file.len())));
    let mut writer = writing.open(&convert::provenance(sources.collect(), trace.format))?;
    let tables = Tables { names: &trace.names, volumes: &trace.volumes };
    let mut goes_on = goes_on;
    for (number, record) in trace.records.iter().enumerate() {
        if number % CHECKED == 0 && !goes_on() {
            return Ok(None);
        }
        writing.record(&mut writer, record, tables)?;
    }
    writing.end(writer).map(Some)
}

/// The disk of this name, or of a file: TOML, or DiskSim's.
pub fn drive(name: &str) -> anyhow::Result<Spec> {
    validate::drive(name)
}

/// `lab compare` on a trace that was read. Volumes are those of the files in `words`, unless they are given.
pub fn compare(
    trace: &Trace,
    volumes: Option<Vec<Candidate>>,
    words: &[String],
) -> anyhow::Result<Comparison> {
    let arguments: lab::Compare = parsed(words)?;
    let volumes = volumes.map_or_else(|| arguments.candidates(), Ok)?;
    // Its report is asked for later.
    arguments.on(trace, &volumes, true)
}

/// `lab hits` of a trace that was read. `goes_on` is called now and then; once it returns false the result is
/// incomplete.
pub fn hits(trace: &Trace, words: &[String], mut goes_on: impl FnMut() -> bool) -> anyhow::Result<Vec<Hits>> {
    Ok(parsed::<Caches>(words)?.on(trace, &mut goes_on))
}

/// `lab run` of a trace that was read. The volume is that of the file in `words`, unless it is given.
pub fn run_trace(trace: &Trace, volume: Option<Candidate>, words: &[String]) -> anyhow::Result<Variant> {
    let arguments: lab::Run = parsed(words)?;
    let volume = volume.map_or_else(|| arguments.candidate(), |volume| Ok(Some(volume)))?;
    Ok(arguments.recording_on(trace, volume.as_ref(), None)?.1)
}

/// `lab run` of a workload. The volume is that of the file in `words`, unless it is given.
pub fn run_workload(volume: Option<Description>, words: &[String]) -> anyhow::Result<LoadOutcome> {
    let arguments: lab::Run = parsed(words)?;
    Ok(arguments.workload_on(volume, None)?.1)
}

/// `lab explore`, of the volume of the file in `words`, unless it is given.
pub fn explore(volume: Option<Description>, words: &[String]) -> anyhow::Result<explore::Output> {
    parsed::<explore::Arguments>(words)?.on(volume)
}

/// `lab figure`, of the name and options in `words`.
pub fn figure(words: &[String]) -> anyhow::Result<Shown> {
    let arguments: figure::Arguments = parsed(words)?;
    let Some(entry) = arguments.entry() else {
        let why = "a figure: found no name, expected one that `seekless lab figure` lists";
        return Err(Usage(why.to_owned()).into());
    };
    arguments.drawn(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn errors_have_the_words_of_the_program_without_its_hints() {
        let error = statistics(&words("--memory 1KiB"), Nanos::ZERO).unwrap_err();
        assert!(is_usage(&error));
        assert_eq!(
            message(&error),
            "invalid value '1KiB' for '--memory <SIZE>': found 1 KiB, expected 16 MiB or more"
        );
        let error = figure(&words("no-such")).err().unwrap();
        assert!(message(&error).starts_with("found the figure 'no-such', expected one of: "), "{error}");
        let error = figure(&words("freeblock-2 --disk-price 3")).err().unwrap();
        assert!(is_usage(&error), "{error}");
        let error = fleet(&Trace::default(), &words("--by volume --intervals 3"), || true).unwrap_err();
        assert!(is_usage(&error) && message(&error).contains("'--intervals"), "{error}");
    }

    #[test]
    fn what_a_volume_file_says_is_refused_beside_it() {
        let line = words("a.toml --trace b --bopt 1GiB");
        let error = compare(&Trace::default(), None, &line).unwrap_err();
        assert!(message(&error).contains("cannot be used with"), "{error}");
    }
}
