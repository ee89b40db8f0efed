//! Creating and upgrading the metadata of a volume's layers.

use std::path::Path;
use std::rc::Rc;

use seekless_core::{SECTOR_BYTES, Size};
use seekless_serve::reactor::Reactor;

use super::build::{components, devices_below, layers_below, runtime, runtime_of};
use super::component::Live;
use super::environment::{Environment, Level, Program};
use super::error::{At, LiveError};
use super::models::Models;
use super::pairs::{self, Bopt};
use crate::description::{Description, Leaf};

/// Creates the metadata of each layer that has any, on devices that hold only zeroes, or with `replace` on any. `seed`
/// should be random: identities follow from it.
///
/// # Errors
/// A device in use, one that is not blank, or a layer whose newest pages are in another BOPT.
pub fn create(
    volume: &Path,
    description: &Description<Live>,
    replace: bool,
    seed: u64,
    program: Program,
) -> Result<(), LiveError> {
    let (reactor, _) = Reactor::start(None).at(|| "io")?;
    let reactor = Rc::new(reactor);
    let work = create_all(&reactor, volume, description, replace, program);
    runtime_of(&reactor, seed).run_live(work, &*reactor).at(|| &description.file)?
}

async fn create_all(
    reactor: &Rc<Reactor>,
    volume: &Path,
    description: &Description<Live>,
    replace: bool,
    program: Program,
) -> Result<(), LiveError> {
    let pairs = pairs::of(volume, description)?;
    if let Some(error) = description.components.values().find_map(Live::missing) {
        return Err(error.clone().into());
    }
    let components = components(reactor, description, &Models::default())?;
    let names = layers_below(description, |entry| entry.create.is_some());
    if names.is_empty() {
        return Err(LiveError::new(format!(
            "{}: found no layer with metadata below an export, expected one, such as borg",
            description.file
        )));
    }
    for name in &names {
        let place = || format!("{}: layer.{name}", description.file);
        let layer = &description.layers[name];
        let Some(create) = layer.entry.create else { continue };
        let mut leaves = layer.metadata_on().flat_map(|device| description.leaves(device));
        if leaves.all(|leaf| description.components.get(&leaf).is_some_and(Live::is_new)) {
            (program.print)(
                Level::Info,
                &format!("layer.{name}: its devices are in memory, and initialised when it is served"),
            );
            continue;
        }
        if !replace {
            pairs.may_create(&description.file, name)?;
        }
        let below = devices_below(description, layer, &components).await.at(place)?;
        let own = if layer.entry.has_metadata_below() { &below.over[..] } else { &[] };
        let own = own.iter().chain(below.devices.values().flatten());
        let sectors: u64 = own.map(|device| device.geometry().sectors).sum();
        let identity = create(below, layer.options.clone(), replace).await.at(place)?;
        pairs.set(name, Bopt { identity, generation: None }, false, Environment::Live(program));
        let alone = layer
            .entry
            .alone
            .filter(|(key, _)| layer.devices.get(*key).is_some_and(|devices| devices.len() == 1));
        if let Some((key, warning)) = alone {
            (program.print)(Level::Warning, &format!("warning: layer.{name}: {key}: {warning}"));
        }
        (program.print)(
            Level::Info,
            &format!("layer.{name}: initialised, empty, on {}", Size(sectors * SECTOR_BYTES)),
        );
    }
    Ok(())
}

/// Upgrades the metadata of each layer that has an older format.
///
/// # Errors
/// A device in use, damaged metadata, or data that would have to move.
pub fn upgrade(description: &Description<Live>, program: Program) -> Result<(), LiveError> {
    let (reactor, _) = Reactor::start(None).at(|| "io")?;
    let reactor = Rc::new(reactor);
    runtime(&reactor)
        .run_live(upgrade_all(&reactor, description, program), &*reactor)
        .at(|| &description.file)?
}

async fn upgrade_all(
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
    program: Program,
) -> Result<(), LiveError> {
    let components = components(reactor, description, &Models::default())?;
    let names = layers_below(description, |entry| entry.upgrade.is_some());
    if names.is_empty() {
        return Err(LiveError::new(format!(
            "{}: found no layer that keeps something, expected borg or lld below an export",
            description.file
        )));
    }
    for name in &names {
        let place = || format!("{}: layer.{name}", description.file);
        let layer = &description.layers[name];
        let Some(upgrade) = layer.entry.upgrade else { continue };
        let below = devices_below(description, layer, &components).await.at(place)?;
        upgrade(below, layer.options.clone()).await.at(place)?;
        (program.print)(Level::Info, &format!("layer.{name}: of the newest format"));
    }
    Ok(())
}
