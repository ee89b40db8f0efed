//! Attaching and detaching layers of a served volume, clients connected.
//!
//! Invariants: the volume file names a layer before the layer holds anything that the device below it does not, and
//! until that device holds everything, durably. The host's record of a BOPT says that it may have newer pages from
//! before the first one until after the last one. Fault model: the program may be killed, or power fail, at any time:
//! the volume file names a tree that has all the data. A change that fails leaves the volume as it was, and in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use seekless_core::runtime::offload;
use seekless_core::{BlockDevice, ErrorKind, IoError, Nanos, Size, Switch};
use seekless_layers::registry::{Below, Built};
use seekless_layers::{Topmost, topmost};
use seekless_serve::component::Numbered;

use super::attaching::{Attach, new_layer};
use super::build::Components;
use super::component::Live;
use super::doing::Going;
use super::error::{At, LiveError};
use super::offered::{self, Offered};
use super::pairs::{self, Bopt, Pairs};
use super::replacement::{Replacement, step};
use super::running::{Running, counter, dirty_pages};
use crate::description::{self, Description};
use crate::edit::{self, NewLayer};
use crate::tree;

/// A layer that was built, and holds nothing yet.
struct Ready {
    built: Built,
    below: Below,
    /// The switch between it and the device below.
    inner: Rc<Switch>,
    /// New components, by name.
    components: Components,
    /// The host's record of its devices.
    pairs: Pairs,
}

impl Running {
    /// Attaches a layer. Requests are held back while the volume file is replaced.
    ///
    /// # Errors
    /// A request that does not fit the volume, devices that are in use or hold something, a layer that does not open.
    pub async fn attach(self: &Rc<Self>, request: Attach) -> Result<(), LiveError> {
        let going = self.begin_change("attach", &request.layer)?;
        let name = request.layer.clone();
        going.result(self.attach_now(request).await)?;
        self.environment.info(&format!("layer.{name}: attached"));
        Ok(())
    }

    async fn attach_now(self: &Rc<Self>, request: Attach) -> Result<(), LiveError> {
        step("attach: before anything");
        let replace = request.replace;
        let new = new_layer(self, request)?;
        let text = edit::insert(&self.text.borrow(), &new).at(|| self.file.display())?;
        let offered = offered::read(&self.description.borrow(), &text, None)?;
        let ready = self.prepare(&offered, &new, replace).await?;
        self.put_in(offered, text, &new, ready).await
    }

    /// Detaches a layer: everything is written back, at the end while requests are held back.
    ///
    /// # Errors
    /// A layer that is not there or owns the order of what is below it, or one that cannot be written back: it stays.
    pub async fn detach(self: &Rc<Self>, name: &str) -> Result<(), LiveError> {
        self.layer(name)?;
        let going = self.begin_change("detach", name)?;
        going.result(self.detach_now(name).await)?;
        self.environment.info(&format!("layer.{name}: detached"));
        Ok(())
    }

    async fn detach_now(self: &Rc<Self>, name: &str) -> Result<(), LiveError> {
        step("detach: before anything");
        let layer = self.layer(name)?;
        let kind = layer.entry();
        if !kind.transparent {
            let found = format!("found {}, which owns the order of the data below it", kind.name);
            let expected = "a layer that keeps it; to give it up, copy the data to another volume";
            return Err(LiveError::new(format!("layer.{name}: {found}, expected {expected}")));
        }
        let (over, devices) = {
            let description = self.description.borrow();
            let layer = description.layers.get(name).at(|| format!("layer.{name}: it is not in the file"))?;
            let over = layer.over.first().cloned().unwrap_or_default();
            (over, layer.devices.values().flatten().cloned().collect::<Vec<_>>())
        };
        let text = edit::remove(&self.text.borrow(), name, &over, &devices).at(|| self.file.display())?;
        let offered = offered::read(&self.description.borrow(), &text, None)?;
        let below = self.device(&over, true)?;
        let replacement = self.prepare_text(&text).await?;
        step("detach: the new text is written");
        let commit = async {
            step("detach: everything is written back");
            if let Some(layer) = layer.layer() {
                self.pairs.borrow().set_clean(name, &*layer, self.environment);
            }
            step("detach: the host's record says clean");
            let committed = self.commit(&replacement);
            if let (Err(_), Some(layer)) = (&committed, layer.layer()) {
                // It stays, and absorbs again.
                self.pairs.borrow().set(name, Bopt::of(&*layer), true, self.environment);
            }
            committed?;
            step("detach: the file is replaced");
            Ok(())
        };
        let given_up = layer.detach(below, commit).await.map_err(|error| match self.dirty_bytes(name) {
            0 => error,
            dirty => error.and(&format!("{} are newer in the layer than in {over}", Size(dirty))),
        });
        let given_up = given_up.at(|| format!("layer.{name}"))?;
        step("detach: clients go on");
        self.take_out(name, &over, offered, text);
        match given_up {
            Ok(()) => self.pairs.borrow_mut().remove(name, self.environment),
            Err(error) => {
                let line = format!(
                    "layer.{name}: detached, but its devices still hold metadata: {error}; before the layer is put over \
                     {over} again: seekless volume create --replace"
                );
                self.environment.warn(&line);
            }
        }
        step("detach: the host's record is removed");
        Ok(())
    }

    /// Refuses a change while there is another one, or where the volume file is not the one that is served.
    pub(super) fn begin_change(&self, what: &str, layer: &str) -> Result<Going, LiveError> {
        if self.fixed {
            return Err(LiveError::new(format!(
                "{what}: found a server that records its inputs, which no change of layers is part of, expected one without \
                 --log-inputs"
            )));
        }
        if let Some(other) = self.log.change() {
            return Err(LiveError::new(format!(
                "{what} {layer}: found {other}, expected one change at a time: wait until it has ended"
            )));
        }
        self.check_unchanged().at(|| self.file.display())?;
        Ok(self.log.begin(what, layer, self.dirty_bytes(layer), true))
    }

    /// The device of this name as a layer is built over it; `in_order`, as clients or other layers use it.
    fn device(&self, name: &str, in_order: bool) -> Result<Rc<dyn BlockDevice>, LiveError> {
        let layer = self.seams.borrow().layers.get(name).cloned();
        if let Some(layer) = layer {
            return Ok(layer.switch().child());
        }
        let components = self.components.borrow().clone();
        let device = tree::leaf(&self.description.borrow(), name, &components)?;
        Ok(if in_order { topmost::in_order(device) } else { device })
    }

    /// Refuses a volume file that is not the one that is served.
    fn check_unchanged(&self) -> Result<(), String> {
        match std::fs::read_to_string(&self.file) {
            Ok(found) if found == *self.text.borrow() => Ok(()),
            Ok(_) => Err("found a file that was changed since it is served, expected the same text: restart the server \
                          first"
                .to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes a new text of the volume file beside it.
    pub(super) async fn prepare_text(&self, text: &str) -> Result<Replacement, LiveError> {
        let (file, text) = (self.file.clone(), text.to_owned());
        let prepared = offload(move || Replacement::prepare(&file, &text), |_| Nanos::ZERO).await;
        prepared.at(|| self.file.display())
    }

    /// Replaces the volume file, unless it was edited meanwhile. If that fails half-way, the old text is put back as
    /// far as possible.
    pub(super) fn commit(&self, replacement: &Replacement) -> Result<(), IoError> {
        let file = || self.file.display().to_string();
        let invalid = |why| IoError::new(ErrorKind::Invalid, file(), None, why);
        self.check_unchanged().map_err(invalid)?;
        replacement.commit().map_err(|error| {
            let back = Replacement::prepare(&self.file, &self.text.borrow()).and_then(|old| old.commit());
            let back = back.map_or_else(|error| format!("; and the old text: {error}"), |()| String::new());
            let why = format!("the volume file cannot be replaced: {error}{back}");
            IoError::new(ErrorKind::Medium, file(), None, why)
        })
    }

    /// Opens the devices of a new layer, initialises them, and builds it.
    async fn prepare(
        &self,
        offered: &Description<Offered>,
        new: &NewLayer,
        replace: bool,
    ) -> Result<Ready, LiveError> {
        let place = || format!("{}: layer.{}", offered.file, new.name);
        let layer = offered.layers.get(&new.name).at(place)?;
        let pairs = pairs::of_layer(&self.file, offered, &new.name, |name| self.path(offered, name))?;
        let components = self.build_components(offered)?;
        let inner = Rc::new(Switch::new(self.device(&new.over, false)?));
        let mut all = self.components.borrow().clone();
        all.extend(components.clone());
        all.insert(new.over.clone(), inner.clone());
        let empty = self.new_components(offered);
        let below = tree::below_guarded(offered, layer, all, &|name| empty.contains(name)).await;
        let below = below.at(place)?;
        if let Some(create) = layer.entry.create.filter(|_| !below.create) {
            let contents = if replace { Contents::Nothing } else { contents(layer, &below, &pairs).await };
            if contents != Contents::Empty {
                let give_up = replace || contents == Contents::LeftBehind;
                create(below.clone(), layer.options.clone(), give_up).await.at(place)?;
            }
        }
        step("attach: the devices are initialised");
        let built = layer.entry.build(below.clone(), &layer.options_where_served()).await.at(place)?;
        Ok(Ready { built, below, inner, components, pairs })
    }

    /// Builds the components that are new.
    pub(super) fn build_components(&self, offered: &Description<Offered>) -> Result<Components, LiveError> {
        let mut components = Components::new();
        for (name, component) in &offered.components {
            let Offered::New(live) = component else { continue };
            let number = self.numbers.borrow().len() as u32;
            let device = live.build(&self.reactor, name, number, &self.models)?;
            let component = Numbered::new(number, device, live.meter());
            self.numbers.borrow_mut().push(name.clone());
            components.insert(name.clone(), Rc::new(component));
        }
        Ok(tree::guarded(components))
    }

    /// Names of components that hold only zeroes when they are built.
    fn new_components(&self, offered: &Description<Offered>) -> BTreeSet<String> {
        let served = self.description.borrow();
        let is_new = |(name, component): &(&String, &Offered)| match component {
            Offered::New(live) => live.is_new(),
            Offered::Kept(_) => served.components.get(*name).is_some_and(Live::is_new),
        };
        offered.components.iter().filter(is_new).map(|(name, _)| name.clone()).collect()
    }

    /// Path of a component's file.
    fn path(&self, offered: &Description<Offered>, name: &str) -> Option<PathBuf> {
        let opened = offered.components.get(name).and_then(Offered::path);
        opened.or_else(|| self.description.borrow().components.get(name)?.path())
    }

    /// Has the volume file name a layer that is ready, and requests go to it.
    async fn put_in(
        self: &Rc<Self>,
        offered: Description<Offered>,
        text: String,
        new: &NewLayer,
        ready: Ready,
    ) -> Result<(), LiveError> {
        let (name, Ready { built, below, inner, components, pairs }) = (&new.name, ready);
        let outer = self.seams.borrow().switches.get(&new.over).cloned();
        let outer = outer.at(|| format!("{}: nothing can be attached there", new.over))?;
        outer.check(&*built.device)?;
        let bopt = Bopt::of(&*built.layer);
        pairs.set(name, bopt, false, self.environment);
        let replacement = self.prepare_text(&text).await?;
        step("attach: the new text is written");
        let change = async {
            step("attach: clients are held back");
            self.commit(&replacement)?;
            step("attach: the file is replaced");
            pairs.set(name, bopt, true, self.environment);
            step("attach: the host's record says newer");
            Ok(built.device.clone())
        };
        outer.swap(change).await.at(|| format!("layer.{name}"))?;
        step("attach: clients go on");
        let description = {
            let mut served = self.description.borrow_mut();
            offered::settle(offered, &mut served)
        };
        let layer = &description.layers[name];
        let (entry, over) = (layer.entry, below.one().at(|| format!("layer.{name}"))?);
        let build = tree::builder(entry, layer.options_where_served(), below);
        let topmost = Topmost::built(entry, over, built.layer, outer.clone(), build);
        {
            // Figures are those of the device below, by its name, also where another switch is above it now.
            inner.measure(outer.meter());
            outer.measure(Some(Rc::default()));
            let seams = &mut *self.seams.borrow_mut();
            if let Some(below) = seams.layers.get(&new.over) {
                below.lies_below(inner.clone());
            }
            seams.switches.insert(new.over.clone(), inner);
            seams.switches.insert(name.clone(), outer);
            seams.layers.insert(name.clone(), Rc::new(topmost));
        }
        self.warn_of_trouble(name);
        self.report_models(&description, name);
        self.reconfigure_periodically(&description, name);
        self.components.borrow_mut().extend(components);
        self.pairs.borrow_mut().extend(pairs);
        self.text.replace(text);
        self.description.replace(description);
        Ok(())
    }

    /// Forgets a layer that requests no longer go to.
    fn take_out(&self, name: &str, over: &str, offered: Description<Offered>, text: String) {
        let seams = &mut *self.seams.borrow_mut();
        seams.layers.remove(name);
        if let Some(outer) = seams.switches.remove(name) {
            if let Some(below) = seams.layers.get(over) {
                below.lies_below(outer.clone());
            }
            let inner = seams.switches.insert(over.to_owned(), outer.clone());
            outer.measure(inner.and_then(|inner| inner.meter()));
        }
        let description = {
            let mut served = self.description.borrow_mut();
            offered::settle(offered, &mut served)
        };
        self.components.borrow_mut().retain(|name, _| description.components.contains_key(name));
        self.text.replace(text);
        self.description.replace(description);
    }
}

/// What the devices of a layer hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    /// Nothing, or what the layer does not open.
    Nothing,
    /// Its metadata, which holds no page: as an interrupted attaching leaves it.
    Empty,
    /// Metadata that this host knows as that of the device below, without newer pages, as an interrupted detaching
    /// leaves it: nothing is lost with it.
    LeftBehind,
    /// Its metadata, with pages.
    Pages,
}

async fn contents(layer: &description::Layer, below: &Below, pairs: &Pairs) -> Contents {
    let Ok(Built { layer: found, .. }) = layer.entry.build(below.clone(), &layer.options).await else {
        return Contents::Nothing;
    };
    let known = pairs.clean_identity().is_some_and(|known| found.identity() == Some(known));
    match counter(&*found, "pages_mapped") {
        _ if found.identity().is_none() => Contents::Nothing,
        0 => Contents::Empty,
        _ if known && dirty_pages(&*found) == 0 => Contents::LeftBehind,
        _ => Contents::Pages,
    }
}
