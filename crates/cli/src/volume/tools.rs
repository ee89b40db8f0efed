//! `seekless volume check`, `dump`, `restore`, `repair`, `damage` and `rescue`: tools for a volume that is not being
//! served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use schemars::JsonSchema;
use seekless_layers::registry::{self, Entry};
use seekless_volume::live::{Live, tools};
use seekless_volume::{Description, file};
use serde::Serialize;

use super::serve::PROGRAM;
use crate::output::{self, Form};
use crate::text::counted;

/// Examples of `check`.
pub const CHECK: &str = "\
Examples:
  seekless volume check home.toml
  seekless volume check home.toml --data --json

Opens each layer that has metadata as serving would, and writes nothing. --data also reads the whole volume through it, which \
verifies checksums. Ends with 1 if anything is damaged. A volume that is being served is refused.";

/// Examples of `dump`.
pub const DUMP: &str = "\
Examples:
  seekless volume dump home.toml > borg.json
  seekless volume dump home.toml --layer borg | jq '.copies | length'

Prints the metadata of a layer as JSON. restore writes the same metadata from it.";

/// Examples of `restore`.
pub const RESTORE: &str = "\
Examples:
  seekless volume restore home.toml borg.json --replace

Writes the metadata of a layer from what dump printed, as after a clean stop. The data has to be where it was: that of pages which \
only this layer has is compared with the dump's checksums, and other data is refused. Metadata that is there is refused, unless \
--replace, and that of another volume always.";

/// Examples of `repair`.
pub const REPAIR: &str = "\
Examples:
  truncate -s 8G new.img
  seekless volume repair home.toml --to new.img

Writes the pages that only this layer has, and metadata for them, to an unused file or device, as far as they can be read, and \
prints what is given up. The damaged devices are only read. Put the new file into the volume file afterwards. If it is \
interrupted, run it again.";

/// Examples of `damage`.
pub const DAMAGE: &str = "\
Examples:
  seekless volume damage home.toml map-newer --destroy
  seekless volume damage home.toml --list

Damages the metadata or data of a layer, to exercise the other tools. Only on volumes whose data is not needed.";

/// Examples of `rescue`.
pub const RESCUE: &str = "\
Examples:
  seekless volume rescue home.toml
  seekless volume rescue mapped.toml --to plain.img

Writes everything that only layers hold to the devices below them, without a server: afterwards these can be used without \
the layers. mapper and lld keep data in an order of their own: it is copied to a file or device. If it is interrupted, run it \
again.";

/// Which layer of which volume.
#[derive(Args)]
pub struct Which {
    /// Volume file, which is not being served
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// Layer [default: the only one with metadata, or all]
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
}

impl Which {
    fn description(&self) -> anyhow::Result<Description<Live>> {
        Ok(file::read_of(&self.volume)?)
    }

    fn layer(&self) -> Option<&str> {
        self.layer.as_deref()
    }
}

/// Arguments of `volume check`.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    which: Which,
    /// Also read all data through the layers
    #[arg(long)]
    data: bool,
    #[command(flatten)]
    form: Form,
}

/// Checks, and ends with an error if anything is damaged or out of service.
pub fn check(arguments: &Check) -> anyhow::Result<()> {
    let Check { which, data, form } = arguments;
    let all = tools::check(&which.volume, &which.description()?, which.layer(), *data)?;
    form.print_list(&all, || all.iter().map(checked_text).collect())?;
    let volume = which.volume.display();
    let advice: BTreeSet<&str> =
        all.iter().filter(|checked| !checked.is_good()).map(tools::Checked::advice).collect();
    if !advice.is_empty() {
        bail!("{volume}: {}", Vec::from_iter(advice).join("; "));
    }
    if all.iter().any(|checked| checked.trouble.is_some()) {
        bail!("{volume}: not all of it is in service: see seekless volume replace, or tell it to rebuild");
    }
    Ok(())
}

/// What a check found in a layer, as text.
fn checked_text(checked: &tools::Checked) -> String {
    let tools::Checked { layer, is, error, trouble, repairs, dirty_pages, unreadable, errors, kind: _ } =
        checked;
    let opens = || format!("opens, {}", counted(*dirty_pages, "dirty page"));
    let mut parts = vec![error.clone().unwrap_or_else(opens)];
    parts.extend(trouble.clone());
    if *repairs > 0 {
        parts.push(format!("{} to be repaired", counted(*repairs, "sector")));
    }
    parts.extend(unreadable.map(|unreadable| format!("{} unreadable", counted(unreadable, "sector"))));
    format!("layer.{layer} ({is}): {}\n{}", parts.join(", "), lines("  ", errors))
}

/// Arguments of `volume dump`.
#[derive(Args)]
pub struct Dump {
    #[command(flatten)]
    which: Which,
    /// Print JSON, which is what it always prints
    #[arg(long)]
    json: bool,
}

/// JSON output of `volume dump`, which `volume restore` reads: the keys are those of the layer.
#[derive(JsonSchema, Serialize)]
pub struct Dumped(#[schemars(with = "BTreeMap<String, serde_json::Value>")] toml::Table);

/// Prints the metadata.
pub fn dump(arguments: &Dump) -> anyhow::Result<()> {
    let Dump { which, json: _ } = arguments;
    output::json(&Dumped(tools::dump(&which.volume, &which.description()?, which.layer())?))
}

/// Arguments of `volume restore`.
#[derive(Args)]
pub struct Restore {
    #[command(flatten)]
    which: Which,
    /// What dump printed
    #[arg(value_name = "DUMP.json")]
    dump: PathBuf,
    /// Overwrite metadata that is there
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `volume restore`.
#[derive(JsonSchema, Serialize)]
pub struct Restored<'a> {
    /// The file of the dump.
    restored: &'a Path,
    /// Pages that the device below has not, and whose data was not compared: the dump has no checksums of them.
    not_compared: u64,
}

/// Writes the metadata.
pub fn restore(arguments: &Restore) -> anyhow::Result<()> {
    let Restore { which, dump, replace, json } = arguments;
    let text = std::fs::read_to_string(dump).with_context(|| dump.display().to_string())?;
    let table = tools::parse_dump(&text).with_context(|| dump.display().to_string())?;
    let not_compared =
        tools::restore(&which.volume, &which.description()?, which.layer(), table, *replace, PROGRAM)?;
    if *json {
        return output::json(&Restored { restored: dump, not_compared });
    }
    if not_compared == 0 {
        return Ok(());
    }
    let pages = counted(not_compared, "page");
    output::print(&format!("not compared: the data of {pages}, of which the dump has no checksum\n"))
}

/// Arguments of `volume repair`.
#[derive(Args)]
pub struct Repair {
    #[command(flatten)]
    which: Which,
    /// Unused file or device for the repaired layer
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `volume repair`.
#[derive(JsonSchema, Serialize)]
pub struct RepairedPages<'a> {
    /// Pages that the device below has not.
    pages: u64,
    /// What could not be repaired.
    given_up: &'a [String],
}

/// Repairs into a new area.
pub fn repair(arguments: &Repair) -> anyhow::Result<()> {
    let Repair { which, to, json } = arguments;
    let repaired = tools::repair(&which.volume, &which.description()?, which.layer(), to, PROGRAM)?;
    if *json {
        return output::json(&RepairedPages { pages: repaired.pages, given_up: &repaired.given_up });
    }
    let given_up = lines("given up: ", &repaired.given_up);
    let pages = counted(repaired.pages, "page");
    output::print(&format!("{given_up}{pages} that the device below has not, in {}\n", to.display()))
}

/// Lines that begin alike.
fn lines(begin: &str, lines: &[String]) -> String {
    lines.iter().flat_map(|line| [begin, line, "\n"]).collect()
}

/// Arguments of `volume damage`.
#[derive(Args)]
pub struct Damage {
    #[command(flatten)]
    which: Which,
    /// Kind of damage
    #[arg(value_name = "KIND", required_unless_present = "list")]
    kind: Option<String>,
    /// List the kinds of damage of each layer
    #[arg(long)]
    list: bool,
    /// Confirm that data may be lost
    #[arg(long)]
    destroy: bool,
    #[command(flatten)]
    form: Form,
}

/// JSON output of `volume damage`.
#[derive(JsonSchema, Serialize)]
pub struct Damaged<'a> {
    /// The place, in words.
    damaged: &'a str,
}

/// A kind of damage that a layer knows, in the JSON output of `volume damage --list`.
#[derive(JsonSchema, Serialize)]
pub struct DamageKind {
    layer: &'static str,
    kind: &'static str,
    /// The consequence, in words.
    does: &'static str,
}

impl DamageKind {
    fn text(&self) -> String {
        format!("{} {}: {}\n", self.layer, self.kind, self.does)
    }
}

/// Damages a layer.
pub fn damage(arguments: &Damage) -> anyhow::Result<()> {
    let Damage { which, kind, list, destroy, form } = arguments;
    if *list {
        let kinds = |entry: &Entry| {
            let layer = entry.name;
            entry.tools.damages().iter().map(move |(kind, does)| DamageKind { layer, kind, does })
        };
        let kinds: Vec<DamageKind> = registry::all().flat_map(kinds).collect();
        return form.print_list(&kinds, || kinds.iter().map(DamageKind::text).collect());
    }
    if !destroy {
        bail!("damage: found no --destroy, expected it: data of this volume will be lost");
    }
    let kind = kind.as_deref().unwrap_or_default();
    let place = tools::damage(&which.volume, &which.description()?, which.layer(), kind)?;
    form.print(&Damaged { damaged: &place }, "", || format!("damaged: {place}\n"))
}

/// Arguments of `volume rescue`.
#[derive(Args)]
pub struct Rescue {
    #[command(flatten)]
    which: Which,
    /// File or device to copy data to that a layer keeps in its own order; refused for other layers
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// Brings everything to the devices below.
pub fn rescue(arguments: &Rescue) -> anyhow::Result<()> {
    let Rescue { which, to, form } = arguments;
    let all = tools::rescue(&which.volume, &which.description()?, which.layer(), to.as_deref(), PROGRAM)?;
    form.print_list(&all, || {
        let text = |tools::Rescued { layer, pages, errors }: &tools::Rescued| {
            format!("layer.{layer}: {} written\n{}", counted(*pages, "page"), lines("  not copied: ", errors))
        };
        all.iter().map(text).collect()
    })?;
    if all.iter().all(|rescued| rescued.errors.is_empty()) {
        return Ok(());
    }
    bail!("{}: not everything could be copied", which.volume.display())
}
