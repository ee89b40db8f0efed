//! Components that grew while they are served.
//!
//! Fault model: a component may have shrunk: that is refused, since data is lost. A layer that keeps the size of the
//! device below it refuses, and the component keeps its size.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use seekless_core::names::perhaps;
use seekless_core::{SECTOR_BYTES, Size, runtime};
use serde::{Deserialize, Serialize};

use super::component::Live;
use super::error::{At, LiveError};
use super::events::Event;
use super::running::Running;
use crate::description::{Description, Leaf};

/// A component that grew.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Resized {
    /// Its name in the volume file.
    pub component: String,
    /// Size before, in bytes.
    pub bytes_before: u64,
    /// Size now, in bytes.
    pub bytes: u64,
}

impl Running {
    /// Takes on the size of components that grew: of this one, or of all.
    ///
    /// # Errors
    /// A component that is not there, has no size to look up, or shrank; a layer above it that keeps its size.
    pub fn resize(&self, only: Option<&str>) -> Result<Vec<Resized>, LiveError> {
        if let Some(other) = self.log.change() {
            let found =
                format!("resize: found {other}, expected one change at a time: wait until it has ended");
            return Err(LiveError::new(found));
        }
        let description = self.description.borrow();
        if let Some(name) = only.filter(|name| !description.components.contains_key(*name)) {
            let known: Vec<&str> = description.components.keys().map(String::as_str).collect();
            return Err(LiveError::new(format!(
                "found the component '{name}', expected {}{}",
                known.join(" or "),
                perhaps(name, known.iter().copied())
            )));
        }
        let mut grown = Vec::new();
        for (name, live) in
            description.components.iter().filter(|(name, _)| only.is_none_or(|only| *name == only))
        {
            let place = || format!("component.{name}");
            match live.sectors_found().at(place)? {
                Some(found) if found > live.sectors() => {
                    can_grow(&description, name)?;
                    grown.push((name, live, found));
                }
                None if only.is_some() => {
                    let found =
                        "found memory or an export of another server, expected a file or block device";
                    let why = "the others keep their size while they are served";
                    return Err(LiveError::new(format!("{}: {found}: {why}", place())));
                }
                _ => {}
            }
        }
        let grow = |(name, live, found): (&String, &Live, u64)| {
            let (bytes_before, bytes) = (live.sectors() * SECTOR_BYTES, found * SECTOR_BYTES);
            live.grow(found);
            let line = format!("component.{name}: {} before, {} now", Size(bytes_before), Size(bytes));
            self.environment.info(&line);
            let resized = Resized { component: name.clone(), bytes_before, bytes };
            self.log.events.put(&Event::Resized { at_s: runtime::now().seconds(), resized: resized.clone() });
            resized
        };
        Ok(grown.into_iter().map(grow).collect())
    }
}

/// Whether everything above a component takes on its new size; what to do where it does not.
fn can_grow(description: &Description<Live>, component: &str) -> Result<(), LiveError> {
    let sectors = description.components.get(component).map_or(0, Live::sectors);
    let to_the_end = |(_, window): &(&String, &crate::description::Window)| {
        window.of == component && window.extent.end().0 == sectors
    };
    if let Some((slice, window)) = description.slices.iter().find(to_the_end) {
        return Err(LiveError::new(format!(
            "slice.{slice}: found a slice that ends where {component} does, expected one with a size that stays: put \
             size = \"{}B\" into the volume file while it is not served",
            window.extent.bytes()
        )));
    }
    let mut above = BTreeSet::from([component.to_owned()]);
    loop {
        let on = |(name, layer): &(&String, &crate::description::Layer)| {
            !above.contains(*name) && layer.below().any(|below| above.contains(below))
        };
        let Some((name, layer)) = description.layers.iter().find(on) else { return Ok(()) };
        if layer.entry.grows {
            above.insert(name.clone());
            continue;
        }
        let expected = if layer.entry.transparent {
            format!("one that takes on a new size: detach {name}, resize, and attach it again")
        } else {
            "one that takes on a new size: make a new volume on a larger device, and copy the data to it"
                .to_owned()
        };
        return Err(LiveError::new(format!(
            "layer.{name}: found {}, which keeps the size of the devices below it, expected {expected}",
            layer.entry.name
        )));
    }
}
