//! Tools for the layers of a volume that is not being served: each opens the components of a volume file, which locks
//! them.
//!
//! Invariants: `check`, `dump` and `repair` do not write to the volume's components. Fault model: a tool may be killed
//! at any time, and is given again.

use std::path::Path;
use std::rc::Rc;

use schemars::JsonSchema;
use seekless_core::device::LARGEST_REQUEST_SECTORS;
use seekless_core::names::perhaps;
use seekless_core::{
    Account, BlockDevice, Buffer, ErrorKind, Extent, Hints, Layer, PAGE_SECTORS, SECTOR_BYTES,
};
use seekless_layers::Overlay;
use seekless_layers::registry::{Below, Built, Entry};
use seekless_layers::tools::Repaired;
use seekless_serve::reactor::Reactor;
use serde::Serialize;

use super::build::{Components, components, devices_below, layers_below, runtime};
use super::component::Live;
use super::environment::{Environment, Program};
use super::error::{At, LiveError};
use super::models::Models;
use super::pairs;
use super::running::dirty_pages;
use crate::component::Keys;
use crate::description::{self, Description, Leaf};

/// Unreadable places that a check lists, at most.
const LISTED: usize = 20;

/// Result of a check of one layer.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Checked {
    /// Name in the volume file.
    pub layer: String,
    /// Kind of layer.
    pub is: String,
    /// Why it does not open, if it does not.
    pub error: Option<String>,
    /// What of it is out of service, such as a member of an array.
    pub trouble: Option<String>,
    /// Sectors that opening would repair.
    pub repairs: u64,
    /// Pages whose only current version it holds.
    pub dirty_pages: u64,
    /// Sectors that cannot be read, if all were.
    pub unreadable: Option<u64>,
    /// The first errors of reading.
    pub errors: Vec<String>,
    /// The kind of `error`.
    #[serde(skip)]
    pub kind: Option<ErrorKind>,
}

impl Checked {
    /// Whether the volume opens, and everything that was read could be.
    pub fn is_good(&self) -> bool {
        self.error.is_none() && self.unreadable.unwrap_or(0) == 0
    }

    /// What to do about it, if it is not good.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.kind {
            Some(ErrorKind::Unsupported) => {
                "written by a later version of the program: update it, and do not repair the volume with this one"
            }
            Some(ErrorKind::Invalid) => {
                "the parts do not belong together, some are missing, or they are not of this volume file: compare what was found with what was \
                 expected"
            }
            Some(ErrorKind::Corrupt) | None => "damaged: see seekless volume repair and rescue",
            Some(_) => "a device does not answer as it should",
        }
    }
}

/// Result of a rescue of one layer.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Rescued {
    /// Name in the volume file.
    pub layer: String,
    /// Pages that only this layer had, or that were copied.
    pub pages: u64,
    /// What could not be copied.
    pub errors: Vec<String>,
}

/// A volume whose components are open.
struct Opened<'a> {
    volume: &'a Path,
    description: &'a Description<Live>,
    components: Components,
    reactor: Rc<Reactor>,
}

/// Runs `work` on the opened components.
fn on_components<T>(
    volume: &Path,
    description: &Description<Live>,
    work: impl AsyncFnOnce(Opened<'_>) -> Result<T, LiveError>,
) -> Result<T, LiveError> {
    let reactor = Rc::new(Reactor::start(None).at(|| "io")?.0);
    let runtime = runtime(&reactor);
    let done = async {
        let components = components(&reactor, description, &Models::default())?;
        work(Opened { volume, description, components, reactor: reactor.clone() }).await
    };
    runtime.run_live(done, &*reactor).at(|| &description.file)?
}

impl Opened<'_> {
    fn place(&self, name: &str) -> String {
        format!("{}: layer.{name}", self.description.file)
    }

    /// Names of layers: the given one, or all that `accepts`, from the bottom up.
    fn layers(&self, name: Option<&str>, accepts: impl Fn(&Entry) -> bool) -> Result<Vec<String>, LiveError> {
        let all = layers_below(self.description, accepts);
        let found = match name {
            Some(name) => all.iter().filter(|known| *known == name).cloned().collect(),
            None => all.clone(),
        };
        if found.is_empty() {
            let known = layers_below(self.description, |_| true);
            let perhaps = perhaps(name.unwrap_or_default(), known.iter().map(String::as_str));
            let known = known.join(" or ");
            return Err(LiveError::new(format!(
                "{}: found no layer{} that has anything for this tool, expected one of: {known}{perhaps}",
                self.description.file,
                name.map_or(String::new(), |name| format!(" {name}"))
            )));
        }
        Ok(found)
    }

    /// The layer to use a tool on: the given one, or the only one with metadata.
    fn layer(&self, name: Option<&str>) -> Result<(String, &description::Layer), LiveError> {
        let found = self.layers(name, |entry| name.is_some() || entry.sealed)?;
        let [name] = found.as_slice() else {
            let file = &self.description.file;
            let known = found.join(", ");
            return Err(LiveError::new(format!(
                "{file}: found several layers ({known}), expected --layer NAME"
            )));
        };
        Ok((name.clone(), &self.description.layers[name]))
    }

    async fn below(&self, name: &str, layer: &description::Layer) -> Result<Below, LiveError> {
        devices_below(self.description, layer, &self.components).await.at(|| self.place(name))
    }
}

/// Opens each layer with metadata without writing anything; with `data`, also reads everything through it.
///
/// # Errors
/// Components that cannot be opened. The result of a layer names its own damage.
pub fn check(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
    data: bool,
) -> Result<Vec<Checked>, LiveError> {
    on_components(volume, description, async |mut opened| {
        let overlays: Vec<Rc<Overlay>> =
            opened.components.values().map(|device| Rc::new(Overlay::new(device.clone()))).collect();
        for (device, overlay) in opened.components.values_mut().zip(&overlays) {
            *device = overlay.clone();
        }
        let written = || overlays.iter().map(|overlay| overlay.written()).sum::<u64>();
        let mut all = Vec::new();
        for name in opened.layers(name, |entry| entry.sealed)? {
            let layer = &opened.description.layers[&name];
            let below = opened.below(&name, layer).await?;
            let before = written();
            let built = layer.entry.build(below, &layer.options).await;
            let mut checked = Checked {
                layer: name.clone(),
                is: layer.entry.name.to_owned(),
                error: None,
                trouble: None,
                repairs: written() - before,
                dirty_pages: 0,
                unreadable: None,
                errors: Vec::new(),
                kind: None,
            };
            match built {
                Ok(built) => {
                    checked.trouble = built.layer.trouble();
                    checked.dirty_pages = dirty_pages(&*built.layer);
                    if data {
                        let (unreadable, errors) = read_all(&*built.device).await;
                        (checked.unreadable, checked.errors) = (Some(unreadable), errors);
                    }
                }
                Err(error) => (checked.kind, checked.error) = (Some(error.kind()), Some(error.to_string())),
            }
            all.push(checked);
        }
        Ok(all)
    })
}

/// Reads a device; the unreadable sectors, and the first errors.
async fn read_all(device: &dyn BlockDevice) -> (u64, Vec<String>) {
    let (mut unreadable, mut errors) = (0, Vec::new());
    let all = Extent::new(0, device.geometry().sectors);
    copy(device, all, &mut unreadable, &mut errors, async |_, _| Ok(())).await.unwrap_or_default();
    (unreadable, errors)
}

/// Reads a device in order and passes each part to `each`; where a large read fails, page by page.
async fn copy(
    device: &dyn BlockDevice,
    all: Extent,
    unreadable: &mut u64,
    errors: &mut Vec<String>,
    mut each: impl AsyncFnMut(Extent, Buffer) -> Result<(), LiveError>,
) -> Result<(), LiveError> {
    let step = LARGEST_REQUEST_SECTORS.min(2_048).min(device.geometry().largest_sectors);
    let read = async |at: Extent| device.read(at, Buffer::zeroed(at.bytes()), Hints::default()).await;
    for start in (0..all.sectors).step_by(step as usize) {
        let at = Extent::new(start, step.min(all.sectors - start));
        if let Ok(bytes) = read(at).await {
            each(at, bytes).await?;
            continue;
        }
        for page in (at.start.0..at.end().0).step_by(PAGE_SECTORS as usize) {
            let at = Extent::new(page, PAGE_SECTORS.min(at.end().0 - page));
            match read(at).await {
                Ok(bytes) => each(at, bytes).await?,
                Err(error) => {
                    *unreadable += at.sectors;
                    if errors.len() < LISTED {
                        errors.push(error.to_string());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Decodes the metadata of a layer.
pub fn dump(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
) -> Result<toml::Table, LiveError> {
    on_components(volume, description, async |opened| {
        let (name, layer) = opened.layer(name)?;
        let below = opened.below(&name, layer).await?;
        layer.entry.tools.dump(below, layer.options.clone()).await.at(|| opened.place(&name))
    })
}

/// Reads a dump as JSON.
///
/// # Errors
/// A text that is no JSON object.
pub fn parse_dump(text: &str) -> Result<toml::Table, LiveError> {
    let mut dump: toml::Table = serde_json::from_str(text)
        .map_err(|error| LiveError::new(format!("found no dump: {error}, expected what dump printed")))?;
    // The name of the output's schema, which dumps of before have not.
    dump.remove("schema");
    Ok(dump)
}

/// Writes the metadata of a layer from a dump; the pages that were not compared, since the dump has no checksums of
/// them.
///
/// # Errors
/// A dump of another volume, or of other data than is there.
pub fn restore(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
    dump: toml::Table,
    replace: bool,
    program: Program,
) -> Result<u64, LiveError> {
    on_components(volume, description, async |opened| {
        let (name, layer) = opened.layer(name)?;
        let below = opened.below(&name, layer).await?;
        let restored = layer.entry.tools.restore(below, layer.options.clone(), dump, replace);
        let not_compared = restored.await.at(|| opened.place(&name))?;
        accept_any_generation(&opened, &name, program);
        Ok(not_compared)
    })
}

/// Writes what can be read of a damaged layer's own data and metadata to an unused file or device.
pub fn repair(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
    to: &Path,
    program: Program,
) -> Result<Repaired, LiveError> {
    on_components(volume, description, async |opened| {
        let (name, layer) = opened.layer(name)?;
        let below = opened.below(&name, layer).await?;
        let to = target(&opened, to)?;
        let repaired = layer.entry.tools.repair(below, layer.options.clone(), to).await;
        let repaired = repaired.at(|| opened.place(&name))?;
        accept_any_generation(&opened, &name, program);
        Ok(repaired)
    })
}

/// Has the host's record of a layer accept what a tool wrote, which is of another generation.
fn accept_any_generation(opened: &Opened<'_>, name: &str, program: Program) {
    let pairs = pairs::of(opened.volume, opened.description).unwrap_or_default();
    pairs.accept_any_generation(name, Environment::Live(program));
}

/// A file or device that is written to.
fn target(opened: &Opened<'_>, path: &Path) -> Result<Rc<dyn BlockDevice>, LiveError> {
    let whole = std::path::absolute(path).at(|| path.display())?;
    let live = Live::read(&opened.description.file, "to", Keys { file: Some(whole), ..Keys::default() })?;
    live.missing().map_or(Ok(()), |error| Err(error.clone()))?;
    live.build(&opened.reactor, "to", opened.components.len() as u32, &Models::default())
}

/// Damages a layer's metadata or data; the place in words.
pub fn damage(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
    kind: &str,
) -> Result<String, LiveError> {
    on_components(volume, description, async |opened| {
        let (name, layer) = opened.layer(name)?;
        let below = opened.below(&name, layer).await?;
        let damaged = layer.entry.tools.damage(below, layer.options.clone(), kind.to_owned());
        damaged.await.at(|| opened.place(&name))
    })
}

/// Writes everything that only layers hold to the devices below them. What a layer in its own order has is copied to
/// the file or device `to`.
pub fn rescue(
    volume: &Path,
    description: &Description<Live>,
    name: Option<&str>,
    to: Option<&Path>,
    program: Program,
) -> Result<Vec<Rescued>, LiveError> {
    on_components(volume, description, async |opened| {
        // Two layers over one device have one record, which then stays as it is.
        let pairs = pairs::of(opened.volume, opened.description).unwrap_or_default();
        let mut all = Vec::new();
        let names = opened.layers(name, |entry| entry.sealed)?;
        check_target(&opened, &names, to)?;
        for name in names.into_iter().rev() {
            let layer = &opened.description.layers[&name];
            let below = opened.below(&name, layer).await?;
            let built = layer.entry.build(below.clone(), &layer.options).await.map_err(|error| {
                let hint = match error.kind() {
                    ErrorKind::Corrupt => "; seekless volume repair writes what is readable to a new area",
                    _ => "",
                };
                LiveError::new(format!("{}: {error}{hint}", opened.place(&name)))
            })?;
            if layer.entry.transparent {
                let layers = [(name.clone(), built.layer.clone())].into_iter().collect();
                pairs.check(&opened.description.file, &layers)?;
                let pages = write_back(&built, &*below.one()?).await.at(|| opened.place(&name))?;
                pairs.set_clean(&name, &*built.layer, Environment::Live(program));
                all.push(Rescued { layer: name, pages, errors: Vec::new() });
                continue;
            }
            if let Some(to) = to {
                all.push(copy_out(&opened, &name, &built, to).await?);
            }
        }
        Ok(all)
    })
}

/// Refuses a file to copy to if no layer needs one, and none if one does, before anything is written.
fn check_target(opened: &Opened<'_>, names: &[String], to: Option<&Path>) -> Result<(), LiveError> {
    let mut own_order = names.iter().filter(|name| !opened.description.layers[*name].entry.transparent);
    match (own_order.next(), to) {
        (Some(name), None) => Err(LiveError::new(format!(
            "{}: found {}, which keeps data in its own order, expected --to FILE: a file or device to copy it to",
            opened.place(name),
            opened.description.layers[name].entry.name
        ))),
        (None, Some(to)) => Err(LiveError::new(format!(
            "{}: found --to {}, expected none: nothing is copied, as each of the layers ({}) writes its pages to the \
             device below it",
            opened.description.file,
            to.display(),
            names.join(", ")
        ))),
        _ => Ok(()),
    }
}

async fn write_back(built: &Built, over: &dyn BlockDevice) -> Result<u64, seekless_core::IoError> {
    let layer: &dyn Layer = &*built.layer;
    let pages = dirty_pages(layer);
    layer.write_back(Account::default()).await?;
    over.flush(Hints::default()).await?;
    layer.stop().await?;
    Ok(pages)
}

/// Copies what a layer shows to a file or device.
async fn copy_out(opened: &Opened<'_>, name: &str, built: &Built, to: &Path) -> Result<Rescued, LiveError> {
    let sectors = built.device.geometry().sectors;
    let target = target(opened, to)?;
    let room = target.geometry().sectors;
    if room < sectors {
        return Err(LiveError::new(format!(
            "{}: found {} bytes, expected at least {}",
            to.display(),
            room * SECTOR_BYTES,
            sectors * SECTOR_BYTES
        )));
    }
    let (mut unreadable, mut errors, mut pages) = (0, Vec::new(), 0);
    let write = async |at: Extent, bytes: Buffer| {
        pages += at.sectors.div_ceil(PAGE_SECTORS);
        target.write(at, bytes, Hints::default()).await.at(|| to.display())
    };
    copy(&*built.device, Extent::new(0, sectors), &mut unreadable, &mut errors, write).await?;
    target.flush(Hints::default()).await.at(|| to.display())?;
    Ok(Rescued { layer: name.to_owned(), pages, errors })
}
