//! `seekless drive import`: converts DiskSim's files to a drive.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use seekless_core::SECTOR_BYTES;
use seekless_drive::import::{Imported, disksim};
use serde::Serialize;

use crate::output;
use crate::text::number;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless drive import atlas10k.parv -o atlas10k-disksim.toml
  seekless drive import atlas10k.parv | less

FILE is a .parv, a .diskspecs or a .model; the files that it names are read too. What a drive here
cannot express is listed, line by line.";

/// Arguments of `drive import`.
#[derive(Args)]
pub struct Import {
    /// A file of DiskSim: .parv, .diskspecs or .model
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the drive [default: the name of FILE with -disksim]
    #[arg(long)]
    name: Option<String>,
    /// Write the drive to this file [default: standard output]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Overwrite the output file
    #[arg(long)]
    force: bool,
    /// Print one JSON object about the import
    #[arg(long, requires = "output")]
    json: bool,
}

/// JSON output.
#[derive(JsonSchema, Serialize)]
pub struct Summary<'a> {
    name: &'a str,
    output: Option<&'a Path>,
    capacity_bytes: u64,
    left_out: &'a [String],
}

/// `seekless drive import`
pub fn run(import: &Import) -> anyhow::Result<()> {
    let stem =
        || import.file.file_stem().unwrap_or_default().to_string_lossy().to_lowercase().replace('_', "-");
    let name = import.name.clone().unwrap_or_else(|| stem() + "-disksim");
    let Imported { spec, left_out } = disksim(&import.file, &name)?;
    let text = toml::to_string(&spec)?;
    let Some(path) = &import.output else {
        for line in &left_out {
            eprintln!("left out: {line}");
        }
        return output::print(&text);
    };
    output::expect_room(path, import.force)?;
    std::fs::write(path, text).with_context(|| path.display().to_string())?;
    let capacity_bytes = spec.sectors * SECTOR_BYTES;
    if import.json {
        return output::json(&Summary {
            name: &name,
            output: Some(path),
            capacity_bytes,
            left_out: &left_out,
        });
    }
    let size = number(capacity_bytes as f64 / 1e9, 2);
    let mut text = format!("{name}: {size} GB, {} zones; written to {}\n", spec.zone.len(), path.display());
    for line in &left_out {
        text.extend(["left out: ", line, "\n"]);
    }
    output::print(&text)
}
