//! Building a live volume: its runtime, its components, and the tree of devices under each export.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

use seekless_core::runtime::Runtime;
use seekless_core::{BlockDevice, IoError, Lba, SECTOR_BYTES};
use seekless_layers::registry::{Below, Entry};
use seekless_serve::component::Numbered;
use seekless_serve::reactor::Reactor;

use super::component::Live;
use super::error::LiveError;
use super::models::Models;
use crate::description::{self, Description};
use crate::tree::{self, Bytes};

/// Seed of all random choices of a program that makes nothing new, and of recordings from before seeds were drawn.
pub const SEED: u64 = 1;

/// A seed of its own for a run that makes something new: identities that no other run has made.
pub fn drawn_seed() -> std::io::Result<u64> {
    let mut seed = [0; 8];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed))?;
    Ok(u64::from_le_bytes(seed))
}

/// Components by name, built.
pub type Components = BTreeMap<String, Rc<dyn BlockDevice>>;

/// The runtime of a tool; offloaded work runs on other threads.
pub fn runtime(reactor: &Rc<Reactor>) -> Runtime {
    runtime_of(reactor, SEED)
}

/// As [`runtime`], with another seed.
pub fn runtime_of(reactor: &Rc<Reactor>, seed: u64) -> Runtime {
    let (runtime, reactor) = (Runtime::new(seed), reactor.clone());
    runtime.offload_to(Rc::new(move |work| reactor.offload(work)));
    runtime
}

/// Builds all components, with their models among `models`. Each can be built once.
pub fn components(
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
    models: &Models,
) -> Result<Components, LiveError> {
    let mut components = BTreeMap::new();
    for (number, (name, component)) in (0..).zip(&description.components) {
        let device = component.build(reactor, name, number, models)?;
        let component = Numbered::new(number, device, component.meter());
        components.insert(name.clone(), Rc::new(component) as Rc<dyn BlockDevice>);
    }
    Ok(components)
}

/// Whether a component holds only zeroes when it is built.
pub fn is_new(description: &Description<Live>) -> impl Fn(&str) -> bool {
    |name| description.components.get(name).is_some_and(Live::is_new)
}

/// The layers below exports that `accepts`, from the bottom up, each once.
pub fn layers_below(description: &Description<Live>, accepts: impl Fn(&Entry) -> bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for export in &description.exports {
        for name in description.downwards(&export.top).into_iter().rev() {
            if accepts(description.layers[&name].entry) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The devices that a layer lies on.
pub async fn devices_below(
    description: &Description<Live>,
    layer: &description::Layer,
    components: &Components,
) -> Result<Below, IoError> {
    tree::below(description, layer, components.clone(), Bytes::Real, &is_new(description)).await
}

/// Whether an export takes no writes: the volume file says so, a component below is read-only, or a layer below is
/// opened at an older generation.
pub fn is_read_only(description: &Description<Live>, export: &description::Export) -> bool {
    let below = description.leaves(&export.top);
    export.read_only
        || description.is_older(&export.top)
        || below.iter().filter_map(|name| description.components.get(name)).any(Live::is_read_only)
}

/// Exact size in bytes of the device `top`, whose whole sectors have `bytes` bytes. It is less if the component below
/// is another server's export that ends within a sector, and `top` has all of its sectors.
pub fn bytes_of(description: &Description<Live>, top: &str, bytes: u64) -> u64 {
    let origin = description.origin_of(top).filter(|(_, start)| *start == Lba(0));
    let component = origin.and_then(|(origin, _)| description.components.get(&origin));
    let exact = component.map_or(bytes, Live::bytes);
    if exact.next_multiple_of(SECTOR_BYTES) == bytes { exact } else { bytes }
}
