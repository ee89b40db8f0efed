//! The parser with its help: options in groups, within 80 columns.
//!
//! Invariant: an option is in the same group in every command. Commands with few options have one list.

use clap::{Arg, Command, CommandFactory};

use crate::Program;

/// Width of help and tables where standard output is no terminal, and of help in a wider one.
pub const COLUMNS: usize = 80;

/// Options that fit one list.
const FEW: usize = 8;

/// Groups of options, by their names in the parser.
const GROUPS: [(&str, &[&str]); 10] = [
    (
        "Trace",
        &[
            "trace",
            "starts",
            "format",
            "formats",
            "columns",
            "record",
            "time_unit",
            "sector_size",
            "volume",
            "skip_bad",
            "pace",
            "speed",
            "outstanding",
            "judge",
            "think",
        ],
    ),
    (
        "Workload",
        &["workload", "workloads", "time", "requests", "size", "reads", "reconfigure_every", "clients"],
    ),
    ("Shards of a trace", &["outline", "partial", "of", "sample", "merge"]),
    ("Drive", &["drive", "depth", "write_cache", "head_alone"]),
    (
        "Layer",
        &[
            "layer",
            "over",
            "bopt",
            "bopt_at",
            "bopt_drive",
            "write_buffer",
            "threshold",
            "training",
            "options",
        ],
    ),
    ("Reconfigurations", &["reconfigure", "reconfigure_clock", "reconfigure_class"]),
    ("Queue", &["scheduler", "starvation_limit", "no_merge", "background_share"]),
    (
        "Freeblock scheduling",
        &["freeblock", "freeblock_policy", "guard", "decision_us", "idle_delay_limit", "model_error"],
    ),
    (
        "Crash states",
        &[
            "commands",
            "states",
            "each",
            "one_in",
            "fault_requests",
            "fill",
            "plain_runs",
            "run_costs",
            "bound",
            "all",
            "script",
            "unreduced",
            "part",
        ],
    ),
    (
        "Output",
        &[
            "output",
            "to",
            "out",
            "report",
            "svg",
            "junit",
            "save",
            "history",
            "events",
            "page",
            "force",
            "json",
            "csv",
            "list",
            #[cfg(feature = "web")]
            "web",
        ],
    ),
];

/// The program's parser.
pub fn command() -> Command {
    grouped(Program::command().max_term_width(COLUMNS))
}

fn grouped(command: Command) -> Command {
    let after = command.get_after_help().map(|text| reflowed(&text.to_string()));
    let command = after.map_or(command.clone(), |text| command.after_help(text));
    let many = options(&command).count() > FEW;
    let command = command.mut_args(|arg| match group(&arg).filter(|_| many) {
        Some(group) => arg.help_heading(group),
        None => arg,
    });
    command.mut_subcommands(grouped)
}

/// A text with a line for each paragraph, which the parser wraps; examples, which are indented, stay as they are.
fn reflowed(text: &str) -> String {
    let mut out = String::new();
    let mut before = "";
    for line in text.lines() {
        let goes_on = |line: &str| !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if goes_on(before) && goes_on(line) { ' ' } else { '\n' });
        }
        out.push_str(line);
        before = line;
    }
    out
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

/// The group of an option.
fn group(arg: &Arg) -> Option<&'static str> {
    let holds =
        |(_, names): &&(&str, &[&str])| !arg.is_positional() && names.contains(&arg.get_id().as_str());
    GROUPS.iter().find(holds).map(|(group, _)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each command, with the words that call it.
    fn each(command: &Command, name: &str, check: &mut impl FnMut(&str, &Command)) {
        check(name, command);
        for subcommand in command.get_subcommands().filter(|one| one.get_name() != "help") {
            each(subcommand, &format!("{name} {}", subcommand.get_name()), check);
        }
    }

    #[test]
    fn every_help_fits_80_columns_and_no_example_is_wrapped() {
        let mut all = command();
        all.build();
        let mut found = Vec::new();
        each(&all, "seekless", &mut |name, command| {
            let help = command.clone().term_width(COLUMNS).render_long_help().to_string();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            // The parser would break them.
            let examples = after.lines().filter(|line| line.starts_with(' '));
            let long = help.lines().chain(examples).filter(|line| line.chars().count() > COLUMNS);
            found.extend(long.map(|line| format!("{name}: {line}")));
        });
        assert_eq!(found, [""; 0]);
    }

    /// Else the parser wraps what is wrapped already: a long line, a short one.
    #[test]
    fn paragraphs_are_wrapped_once() {
        let text = "Examples:\n  seekless a\n  seekless b\n\nOne two\nthree.\n\nFour.";
        assert_eq!(reflowed(text), "Examples:\n  seekless a\n  seekless b\n\nOne two three.\n\nFour.");
        let mut wrapped = Vec::new();
        each(&command(), "seekless", &mut |name, command| {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = after.lines().collect();
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            wrapped.extend(
                lines.windows(2).find(|two| is_text(two[0]) && is_text(two[1])).map(|_| name.to_owned()),
            );
        });
        assert_eq!(wrapped, [""; 0]);
    }

    #[test]
    fn where_there_are_many_options_most_are_in_groups() {
        let mut grouped = 0;
        each(&command(), "seekless", &mut |name, command| {
            let all = options(command).count();
            let alone: Vec<&str> = options(command)
                .filter(|arg| arg.get_help_heading().is_none())
                .map(|arg| arg.get_id().as_str())
                .collect();
            assert!(all <= FEW || alone.len() <= FEW, "{name}: {alone:?}");
            grouped += usize::from(alone.len() < all);
        });
        assert!(grouped > 10, "{grouped}");
    }

    #[test]
    fn groups_name_options_that_exist() {
        let mut known = Vec::new();
        each(&command(), "seekless", &mut |_, command| {
            known.extend(options(command).map(|arg| arg.get_id().to_string()));
        });
        let gone =
            GROUPS.iter().flat_map(|(_, names)| *names).find(|name| !known.iter().any(|one| one == *name));
        assert_eq!(gone, None);
    }
}
