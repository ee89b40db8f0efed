//! `seekless drive check`: public measurements of real drives beside what the models give.

use anyhow::bail;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::names::perhaps;
use seekless_drive::Model;
use seekless_drive::check::{Compared, Use, compare, known};
use serde::Serialize;

use crate::output::Form;
use crate::table::Table;
use crate::text::number;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive check
  seekless drive check seagate-st2000dm006-2 --json

Each figure that was measured on a real drive and published, with its source, beside that of the
model for the same work. A model was fitted to some of them, and predicts the others.";

/// Arguments of `drive check`.
#[derive(Args)]
pub struct Check {
    /// Name of a drive [default: all that were measured]
    #[arg(value_name = "NAME")]
    drive: Option<String>,
    #[command(flatten)]
    form: Form,
}

/// Measurements beside models.
#[derive(JsonSchema, Serialize)]
pub struct Checked {
    /// By drive, in the order of their names.
    measurements: Vec<Compared>,
}

/// `seekless drive check`
pub fn run(check: &Check) -> anyhow::Result<()> {
    let known = known()?;
    if let Some(name) = &check.drive {
        let measured = || known.iter().flat_map(|measurement| &measurement.drives).map(String::as_str);
        if !measured().any(|drive| drive == name) {
            // A name that is no drive's at all has its own error.
            Model::find(name)?;
            let mut drives: Vec<&str> = measured().collect();
            drives.sort_unstable();
            drives.dedup();
            let expected = drives.join(", ") + &perhaps(name, drives.iter().copied());
            bail!("no public measurement of '{name}' is known, expected one of: {expected}");
        }
    }
    let measurements = compare(&known, check.drive.as_deref())?;
    let checked = Checked { measurements };
    check.form.print(&checked, "measurements", || text(&checked.measurements))
}

/// Three digits of a figure.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 1_000.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 4,
    };
    number(value, decimals)
}

fn text(measurements: &[Compared]) -> String {
    let mut sources: Vec<&str> = Vec::new();
    let mut table = Table::new(&["drive", "measured", ">real", ">ours", "", ">off by", "", "source"]);
    let mut before = "";
    for one in measurements {
        let place = sources.iter().position(|source| *source == one.source).unwrap_or_else(|| {
            sources.push(&one.source);
            sources.len() - 1
        });
        let drive = if one.drive == before { "" } else { &one.drive };
        let off = format!("{}{} %", if one.off_pct > 0.0 { "+" } else { "" }, number(one.off_pct, 1));
        let used = match one.used {
            Use::Fitted => "fitted",
            Use::Predicted => "predicted",
        };
        let source = format!("[{}]", place + 1);
        table.row([drive, &one.what, &figure(one.real), &figure(one.ours), one.unit, &off, used, &source]);
        before = &one.drive;
    }
    let mut listed = Table::new(&["", ""]);
    for (number, source) in sources.iter().enumerate() {
        listed.row([&format!("[{}]", number + 1), *source]);
    }
    table.text() + "\n" + &listed.text()
}
