//! A component of a served volume is replaced by another file or block device, clients connected.
//!
//! Invariant: the volume file names the new one once the array above does without the old one. Fault model: as in
//! [`super::change`]; a killed server opens the array without that component, whichever of the two the file names.

use std::collections::BTreeSet;
use std::rc::Rc;

use schemars::JsonSchema;
use seekless_core::BlockDevice;
use seekless_core::names::perhaps;
use seekless_layers::Topmost;
use seekless_layers::registry::Below;
use serde::{Deserialize, Serialize};

use super::error::{At, LiveError};
use super::offered::{self, Offered};
use super::replacement::step;
use super::running::Running;
use crate::edit;
use crate::tree;

/// A request to replace a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// Name of the component in the volume file.
    pub component: String,
    /// Path of the file or block device that takes its place.
    pub file: String,
    /// Whether contents of that are overwritten.
    #[serde(default)]
    pub replace: bool,
}

/// A component that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Replaced {
    /// Its name in the volume file.
    pub component: String,
    /// The layer that does without it until the command `rebuild` has ended.
    pub layer: String,
}

/// Where a component is used.
struct Use {
    /// The layer.
    layer: String,
    /// Key of the device in the layer, and its number there.
    at: (String, usize),
    /// The component, or the slice of it that the layer uses.
    device: String,
}

impl Running {
    /// Replaces a component below a layer that makes up for its contents. Requests are held back while the volume file
    /// is replaced. The layer is degraded until it is rebuilt.
    ///
    /// # Errors
    /// A component that is not there, or that more than an array uses; a device that does not fit, or holds something.
    pub async fn replace(self: &Rc<Self>, request: Replace) -> Result<Replaced, LiveError> {
        let used = self.used(&request.component)?;
        let going = self.begin_change("replace", &used.layer)?;
        let component = request.component.clone();
        going.result(self.replace_now(&used, request).await)?;
        Ok(Replaced { component, layer: used.layer })
    }

    async fn replace_now(self: &Rc<Self>, used: &Use, request: Replace) -> Result<(), LiveError> {
        step("replace: before anything");
        let (name, place) = (&request.component, || format!("layer.{}", used.layer));
        let text = edit::set_file(&self.text.borrow(), name, &request.file).at(|| self.file.display())?;
        let offered = offered::read(&self.description.borrow(), &text, Some(name))?;
        if offered.components.get(name).is_some_and(Offered::is_read_only) {
            let found = format!("component.{name}: found {}, which is read-only", request.file);
            return Err(LiveError::new(format!("{found}, expected one that can be written")));
        }
        let topmost = self.layer(&used.layer)?;
        let layer = topmost.layer().at(|| format!("{}: it is detached", place()))?;
        let components = self.build_components(&offered)?;
        let mut all = self.components.borrow().clone();
        all.extend(components.clone());
        let switch = {
            let seams = self.seams.borrow();
            let others = seams.switches.iter().filter(|(name, _)| **name != used.device);
            all.extend(others.map(|(name, switch)| (name.clone(), switch.clone() as Rc<dyn BlockDevice>)));
            seams.switches.contains_key(&used.device)
        };
        let switch = switch.then(|| tree::leaf(&offered, &used.device, &all).map(tree::metered));
        let switch = switch.transpose().at(place)?;
        all.extend(switch.iter().map(|switch| (used.device.clone(), switch.clone() as Rc<dyn BlockDevice>)));
        let below = tree::below_guarded(&offered, &offered.layers[&used.layer], all, &|_| false).await;
        let below = below.at(place)?;
        let replacement = self.prepare_text(&text).await?;
        step("replace: the new text is written");
        let commit = async {
            step("replace: the member is out of service");
            self.commit(&replacement)?;
            step("replace: the file is replaced");
            Ok(())
        };
        let (at, device) = ((used.at.0.as_str(), used.at.1), used.of(&below)?);
        layer.replace_device(at, device, request.replace, Box::pin(commit)).await.at(place)?;
        step("replace: the new device is in use");
        let description = {
            let mut served = self.description.borrow_mut();
            offered::settle(offered, &mut served)
        };
        let kind = &description.layers[&used.layer];
        let over = below.one().at(place)?;
        let build = tree::builder(kind.entry, kind.options_where_served(), below);
        let replaced = Topmost::built(kind.entry, over, layer, topmost.switch(), build);
        {
            let seams = &mut *self.seams.borrow_mut();
            seams.switches.extend(switch.map(|switch| (used.device.clone(), switch)));
            seams.layers.insert(used.layer.clone(), Rc::new(replaced));
        }
        self.components.borrow_mut().extend(components);
        self.text.replace(text);
        self.description.replace(description);
        Ok(())
    }

    /// The layer that uses a component, if it is the only one and no export shows it.
    fn used(&self, component: &str) -> Result<Use, LiveError> {
        let description = self.description.borrow();
        let known: Vec<&String> = description.components.keys().collect();
        if !description.components.contains_key(component) {
            let perhaps = perhaps(component, known.iter().map(|name| name.as_str()));
            let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
            let found =
                format!("found the component '{component}', expected {}{perhaps}", known.join(" or "));
            return Err(LiveError::new(found));
        }
        let slices = description.slices.iter().filter(|(_, window)| window.of == component);
        let names: BTreeSet<&str> =
            [component].into_iter().chain(slices.map(|(name, _)| name.as_str())).collect();
        let mut uses = Vec::new();
        for (name, layer) in &description.layers {
            let over = layer.over.iter().enumerate().map(|(number, device)| ("over", number, device));
            let devices = layer.devices.iter().flat_map(|(key, devices)| {
                devices.iter().enumerate().map(move |(number, device)| (key.as_str(), number, device))
            });
            for (key, number, device) in over.chain(devices) {
                if names.contains(device.as_str()) {
                    let at = (key.to_owned(), number);
                    uses.push(Use { layer: name.clone(), at, device: device.clone() });
                }
            }
        }
        let shown = description.exports.iter().any(|export| names.contains(export.top.as_str()));
        let count = uses.len();
        uses.pop().filter(|_| count == 1 && !shown).at(|| {
            let shows = if shown { ", and an export shows it" } else { "" };
            format!("component.{component}: found {count} uses by layers{shows}, expected an array alone")
        })
    }
}

impl Use {
    /// Its device among those below the layer.
    fn of(&self, below: &Below) -> Result<Rc<dyn BlockDevice>, LiveError> {
        let (key, number) = (&self.at.0, self.at.1);
        let devices = if key == "over" { Some(&below.over) } else { below.devices.get(key) };
        let device = devices.and_then(|devices| devices.get(number)).cloned();
        device.at(|| format!("layer.{}: it has no {key}, number {number}", self.layer))
    }
}
