//! A served volume as it is now: its description, components and layers, which attaching and detaching change
//! ([`super::change`]).
//!
//! Invariant: between changes, the text of the volume file describes the layers in use.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use futures_util::future::{Either, select};
use seekless_core::device::unknown_command;
use seekless_core::names::perhaps;
use seekless_core::runtime::{self, sleep, spawn};
use seekless_core::{
    Accesses, BlockDevice, Class, ErrorKind, Hints, IoError, Layer, Meter, Nanos, PAGE_BYTES, SECTOR_BYTES,
    Size, Top,
};
use seekless_layers::schedule::Schedule;
use seekless_layers::{Topmost, topmost};
use seekless_serve::reactor::Reactor;

use super::build::{Components, components, is_new};
use super::component::Live;
use super::doing::{Doing, Log, Now};
use super::environment::Environment;
use super::error::{At, LiveError};
use super::history::PastStatus;
use super::models::{ModelStatus, Models};
use super::pairs::{Bopt, Pairs};
use super::server::Serving;
use crate::description::{Description, Export, Layer as Described, Leaf};
use crate::tree::{self, Seams};

/// Longest drain before a layer is stopped: service managers wait for 90 s.
const DRAIN_LIMIT: Nanos = Nanos::from_millis(60_000);
/// Interval of progress messages of a drain.
const PROGRESS_INTERVAL: Nanos = Nanos::from_millis(2_000);

/// See the file's header.
pub(super) struct Running {
    pub environment: Environment,
    pub reactor: Rc<Reactor>,
    /// The volume file.
    pub file: PathBuf,
    /// Its text.
    pub text: RefCell<String>,
    pub description: RefCell<Description<Live>>,
    /// Components by name, as layers use them.
    pub components: RefCell<Components>,
    /// Names of components by number; those that are gone keep theirs.
    pub numbers: RefCell<Vec<String>>,
    /// The models of its disks.
    pub models: Models,
    pub seams: RefCell<Seams>,
    pub pairs: RefCell<Pairs>,
    pub log: Rc<Log>,
    /// The devices that exports show, by the names that they had at the start.
    pub tops: BTreeMap<String, Rc<dyn BlockDevice>>,
    /// The name at the start of the device of each export.
    pub shown: Vec<String>,
    /// What measures the requests of each export.
    pub meters: Vec<Rc<Meter>>,
    /// What counts the accesses of each export by address.
    pub accesses: Vec<Rc<Accesses>>,
    /// Whether layers cannot be attached and detached, since the server's inputs are recorded or replayed.
    pub fixed: bool,
}

impl Running {
    /// Opens the components and builds what exports show; `text` is the volume file's.
    pub async fn open(
        serving: &Serving<'_>,
        description: Description<Live>,
        text: String,
        pairs: Pairs,
    ) -> Result<Rc<Running>, LiveError> {
        let Serving { environment, reactor, .. } = *serving;
        if description.components.values().any(Live::is_direct) {
            if let Err(error) = reactor.register() {
                environment.warn(&format!(
                    "io: without registered buffers ({error}), which is slower; see ulimit -l"
                ));
            }
        }
        for error in description.components.values().filter_map(Live::missing) {
            environment.warn(&format!("{error}: it is done without"));
        }
        let (models, mut seams, mut tops) = (Models::default(), Seams::default(), BTreeMap::new());
        let bare = components(reactor, &description, &models)?;
        let guarded = tree::guarded(bare.clone());
        for export in &description.exports {
            if tops.contains_key(&export.top) {
                continue;
            }
            // Layers decide what a failed flush means; a bare component reports it to its clients once, as a disk does.
            let layered = description.layers.contains_key(&export.top);
            let components = if layered { &guarded } else { &bare };
            let (is_new, top) = (is_new(&description), &export.top);
            let switch =
                tree::build_with_seams(&description, top, components.clone(), &is_new, &mut seams).await;
            let switch = switch.map_err(|error| {
                let hint = hint(&error, &description);
                LiveError::new(format!("{}: {}: {error}{hint}", description.file, export.top))
            })?;
            tops.insert(export.top.clone(), Rc::new(Top::over(switch)) as Rc<dyn BlockDevice>);
        }
        let numbers = description.components.keys().cloned().collect();
        let shown = description.exports.iter().map(|export| export.top.clone()).collect();
        let meters = description.exports.iter().map(|_| Rc::default()).collect();
        let bytes =
            |export: &Export| tops.get(&export.top).map_or(0, |top| top.geometry().sectors * SECTOR_BYTES);
        let accesses =
            description.exports.iter().map(|export| Rc::new(Accesses::new(bytes(export)))).collect();
        let running = Rc::new(Running {
            environment,
            reactor: reactor.clone(),
            file: serving.volume.to_owned(),
            text: RefCell::new(text),
            description: RefCell::new(description),
            components: RefCell::new(guarded),
            numbers: RefCell::new(numbers),
            models,
            seams: RefCell::new(seams),
            pairs: RefCell::new(pairs),
            log: Rc::default(),
            tops,
            shown,
            meters,
            accesses,
            fixed: serving.recorded || environment.is_replay(),
        });
        running.begin()?;
        Ok(running)
    }

    /// Checks and records which BOPTs are used, reports on copies, and starts periodic reconfigurations.
    fn begin(self: &Rc<Self>) -> Result<(), LiveError> {
        let layers = self.layers();
        let (pairs, description) = (self.pairs.borrow(), self.description.borrow());
        pairs.check(&description.file, &layers)?;
        pairs.write(&layers, self.environment);
        for (name, layer) in &layers {
            self.report_copies(name, &**layer);
            self.warn_of_trouble(name);
            self.report_models(&description, name);
            self.reconfigure_periodically(&description, name);
        }
        Ok(())
    }

    /// Reports what a layer that tries its plans takes the components below it for.
    pub(super) fn report_models(&self, description: &Description<Live>, layer: &str) {
        if !description.layers.get(layer).is_some_and(|layer| layer.entry.models) {
            return;
        }
        for name in description.leaves(layer) {
            let Some(live) = description.components.get(&name) else { continue };
            let Some(model) = live.model() else { continue };
            let line = format!("component.{name}: {}", ModelStatus::of(model));
            // A model that is named is one that is missed.
            if model.is_err() && live.names_model() {
                self.environment.warn(&line);
            } else {
                self.environment.info(&line);
            }
        }
    }

    /// The layers in use, by name.
    pub fn layers(&self) -> BTreeMap<String, Rc<dyn Layer>> {
        let seams = self.seams.borrow();
        seams.layers.iter().filter_map(|(name, layer)| Some((name.clone(), layer.layer()?))).collect()
    }

    /// The layer of this name.
    pub fn layer(&self, name: &str) -> Result<Rc<Topmost>, LiveError> {
        let seams = self.seams.borrow();
        seams.layers.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = seams.layers.keys().map(String::as_str).collect();
            let perhaps = perhaps(name, known.iter().copied());
            let known = if known.is_empty() { "none: there is none".to_owned() } else { known.join(" or ") };
            LiveError::new(format!("found the layer '{name}', expected {known}{perhaps}"))
        })
    }

    /// Carries out a command of a layer.
    pub async fn command(&self, name: &str, command: &str) -> Result<(), LiveError> {
        let layer = self.layer(name)?;
        let entry = layer.entry();
        if !topmost::knows(entry.commands, command) {
            return Err(unknown_command(entry.name, command, entry.commands).into());
        }
        let going = self.log.begin(command, name, self.dirty_bytes(name), false);
        let how = Hints { class: Class::Background, ..Hints::default() };
        going.result(layer.command(command, how).await)?;
        if command == "reconfigure" {
            report_reconfiguration(name, &layer, self.environment);
        }
        Ok(())
    }

    /// What is going on, with progress.
    pub fn doing(&self) -> Vec<Doing> {
        self.log.all(|name| {
            let layer = self.seams.borrow().layers.get(name).and_then(|layer| layer.layer());
            let done = layer.as_ref().map_or(0, |layer| counter(&**layer, "pages_done_in_round"));
            let progress = layer.and_then(|layer| layer.history().progress);
            Now { dirty_bytes: self.dirty_bytes(name), written_bytes: done * PAGE_BYTES, progress }
        })
    }

    /// Bytes whose only current version the layer holds.
    pub fn dirty_bytes(&self, name: &str) -> u64 {
        let layer = self.seams.borrow().layers.get(name).and_then(|layer| layer.layer());
        layer.map_or(0, |layer| dirty_pages(&*layer) * PAGE_BYTES)
    }

    /// Prints it when a part of a layer is turned off, or was at the start.
    pub fn warn_of_trouble(&self, name: &str) {
        let layer = self.seams.borrow().layers.get(name).and_then(|layer| layer.layer());
        let (name, environment) = (name.to_owned(), self.environment);
        if let Some(layer) = layer {
            if let Some(why) = layer.trouble() {
                environment.warn(&format!("layer.{name}: {why}"));
            }
            layer.on_trouble(Box::new(move |why| environment.warn(&format!("layer.{name}: {why}"))));
        }
    }

    /// Starts to reconfigure a layer by its schedule, until it is detached.
    pub fn reconfigure_periodically(&self, description: &Description<Live>, name: &str) {
        let of = |layer: &Described| layer.reconfigure.unwrap_or(layer.entry.served);
        let schedule = description.layers.get(name).map(of);
        let layer = self.seams.borrow().layers.get(name).cloned();
        let Some((schedule, topmost)) = schedule.zip(layer) else { return };
        let (name, environment, log) = (name.to_owned(), self.environment, self.log.clone());
        if let Schedule::Times(_) = schedule {
            environment.warn(&format!(
                "layer.{name}: reconfigure = \"{schedule}\" is for runs of known length: here on command only"
            ));
            return;
        }
        // A layer that is detached leaves its devices at once, not at the next time.
        let topmost = Rc::downgrade(&topmost);
        let work = async move {
            let mut start = runtime::now();
            while schedule.due(start, || Some(topmost.upgrade()?.layer()?.readiness())).await {
                let Some(topmost) = topmost.upgrade() else { return };
                start = runtime::now();
                let going = log.begin("reconfigure", &name, 0, false);
                match going.result(topmost.command("reconfigure", Hints::default()).await) {
                    Ok(()) => report_reconfiguration(&name, &topmost, environment),
                    Err(error) => environment.error(&format!("layer.{name}: not reconfigured: {error}")),
                }
            }
        };
        spawn(work).detach();
    }

    /// Reports clean copies that are compared before use, or that are trusted unseen.
    fn report_copies(&self, name: &str, layer: &dyn Layer) {
        let description = self.description.borrow();
        let options = description.layers.get(name).map(|layer| &layer.options);
        let copies = counter(layer, "copies_not_compared");
        if copies > 0 {
            self.environment.warn(&format!(
                "layer.{name}: the device below may have been written without this layer: \
                 {copies} copies are compared with it before they are served"
            ));
        }
        if options.and_then(|options| options.get("trust_origin")).and_then(toml::Value::as_bool)
            == Some(true)
        {
            self.environment
                .warn(&format!("layer.{name}: trust_origin: copies are served without being compared"));
        }
    }

    /// Stops the layers, from the top down: everything acknowledged is durable afterwards.
    pub async fn stop(&self) -> Result<(), LiveError> {
        let mut failed = None;
        for name in self.downwards() {
            let Ok(layer) = self.layer(&name) else { continue };
            if let Err(error) = self.stop_layer(&name, &layer).await {
                self.environment.error(&format!("layer.{name}: {error}"));
                failed = Some(error);
            }
        }
        for top in self.tops.values() {
            top.flush(Hints::default()).await.at(|| "the last flush")?;
        }
        failed.map_or(Ok(()), |error| Err(error).at(|| "the volume did not stop clean"))
    }

    /// Names of all layers, each before those below it.
    fn downwards(&self) -> Vec<String> {
        let description = self.description.borrow();
        let mut names = Vec::new();
        for name in description.exports.iter().flat_map(|export| description.downwards(&export.top)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    async fn stop_layer(&self, name: &str, topmost: &Topmost) -> Result<(), IoError> {
        let Some(layer) = topmost.layer() else { return Ok(()) };
        self.drain(name, &layer).await;
        let stopped = topmost.command("stop", Hints::default()).await;
        if stopped.is_err() && holds_nothing_newer(&*layer) && layer.flush(Hints::default()).await.is_ok() {
            // Its own device is gone, and the device below has everything.
            self.pairs.borrow().set_clean(name, &*layer, self.environment);
        }
        stopped?;
        let left = dirty_pages(&*layer);
        if left > 0 {
            self.environment.warn(&format!(
                "layer.{name}: {left} pages ({}) are on this layer's own device only: \
                 without it, the device below holds stale data",
                Size(left * PAGE_BYTES)
            ));
            self.pairs.borrow().set(name, Bopt::of(&*layer), true, self.environment);
        } else if topmost.layer().is_some() {
            self.pairs.borrow().set_clean(name, &*layer, self.environment);
        }
        Ok(())
    }

    /// Drains a layer before it is stopped, and reports progress.
    async fn drain(&self, name: &str, layer: &Rc<dyn Layer>) {
        let mut drained = layer.drain_to_stop(DRAIN_LIMIT);
        loop {
            match select(drained, Box::pin(sleep(PROGRESS_INTERVAL))).await {
                Either::Left((Ok(()), _)) => return,
                // The stop reports what remains.
                Either::Left((Err(error), _)) => {
                    return self.environment.error(&format!("layer.{name}: not drained: {error}"));
                }
                Either::Right(((), going_on)) => {
                    let left = dirty_pages(&**layer);
                    let bytes = Size(left * PAGE_BYTES);
                    self.environment
                        .info(&format!("layer.{name}: {left} dirty pages ({bytes}) left to drain"));
                    let more = DRAIN_LIMIT.0 / 1_000;
                    self.environment.notify(&format!(
                        "EXTEND_TIMEOUT_USEC={more}\nSTATUS=stopping: {name}: {bytes} left to drain"
                    ));
                    drained = going_on;
                }
            }
        }
    }
}

/// Prints the last reconfiguration of a layer, if it keeps them.
fn report_reconfiguration(name: &str, topmost: &Topmost, environment: Environment) {
    let last = topmost.layer().and_then(|layer| layer.history().past.pop());
    if let Some(last) = last {
        environment.info(&format!("layer.{name}: {}", PastStatus::of(&last).line()));
    }
}

/// Value of a layer's counter; 0 if it has none of this name.
pub(super) fn counter(layer: &dyn Layer, name: &str) -> u64 {
    layer.counters().iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}

/// Number of pages whose only current version the layer holds.
pub(super) fn dirty_pages(layer: &dyn Layer) -> u64 {
    counter(layer, "pages_dirty")
}

/// Whether a layer knows that no start would find newer pages on its own device, whatever became of that.
fn holds_nothing_newer(layer: &dyn Layer) -> bool {
    let counters = layer.counters();
    let is_zero = |name: &str| counters.iter().any(|(counter, count)| *counter == name && *count == 0);
    is_zero("pages_dirty") && is_zero("pages_in_failed_batches")
}

/// What helps where a layer does not open.
fn hint(error: &IoError, description: &Description<Live>) -> &'static str {
    let can_repair = description.layers.values().any(|layer| layer.entry.tools.can_repair());
    match error.kind() {
        ErrorKind::Corrupt if can_repair => {
            "; seekless volume check tells more, seekless volume repair what can be saved"
        }
        ErrorKind::Corrupt => "; seekless volume check tells more",
        _ => "",
    }
}
