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
    let many = options(&command).count() > FEW;
    let command = command.mut_args(|arg| match group(&arg).filter(|_| many) {
        Some(group) => arg.help_heading(group),
        None => arg,
    });
    command.mut_subcommands(grouped)
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
