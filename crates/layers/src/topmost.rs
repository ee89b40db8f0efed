//! The topmost layer of a volume: told what to do, taken out from under its clients, and put in again.
//!
//! Invariants: no command reaches a layer that is out, and none is still at work in one that goes. A layer goes out
//! when all that it holds is home. Fault model: what fails leaves the volume as it was, and in use.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::device::unknown_command;
use seekless_core::{BlockDevice, Gate, Hints, IoError, Layer, Switch};

use crate::registry::{Building, Built, Entry};

/// The commands that any topmost layer has, and those of one that is transparent.
const COMMANDS: [&str; 3] = ["stop", "remove", "insert"];

/// The topmost layer, in or out.
pub struct Topmost {
    entry: &'static Entry,
    switch: Rc<Switch>,
    over: Rc<dyn BlockDevice>,
    build: Box<dyn Fn() -> Building>,
    /// Not here while it is out.
    layer: RefCell<Option<Rc<dyn Layer>>>,
    /// Commands pass; who puts the layer in or out is alone.
    gate: Gate,
}

impl Topmost {
    /// Builds the layer over `over`, and a switch over it. `build` is called again whenever it is put in.
    pub async fn new(
        entry: &'static Entry,
        over: Rc<dyn BlockDevice>,
        build: impl Fn() -> Building + 'static,
    ) -> Result<Topmost, IoError> {
        let Built { device, layer } = build().await?;
        let (switch, layer) = (Rc::new(Switch::new(device)), RefCell::new(Some(layer)));
        Ok(Topmost { entry, switch, over, build: Box::new(build), layer, gate: Gate::default() })
    }

    /// The switch above it.
    pub fn switch(&self) -> Rc<Switch> {
        self.switch.clone()
    }

    /// The layer, if it is in.
    pub fn layer(&self) -> Option<Rc<dyn Layer>> {
        self.layer.borrow().clone()
    }

    /// Carries out a command by name: `stop`; `remove` and `insert`, if the layer is transparent; or one of its own.
    /// Those that make no sense now, since the layer is out or in already, do nothing.
    ///
    /// # Errors
    /// `Unsupported` if there is no such command, else what the layer says.
    pub async fn command(&self, name: &str, how: Hints) -> Result<(), IoError> {
        if !commands(self.entry).contains(&name) {
            return Err(unknown_command(self.entry.name, name, &commands(self.entry)));
        }
        match name {
            "remove" => self.remove().await,
            "insert" => self.insert().await,
            _ => {
                let _inside = self.gate.pass().await;
                let Some(layer) = self.layer() else { return Ok(()) };
                if name == "stop" { layer.stop().await } else { layer.command(name, how).await }
            }
        }
    }

    /// Takes the layer out: most of what it holds goes home while clients go on, the rest while they are held.
    pub async fn remove(&self) -> Result<(), IoError> {
        {
            let _inside = self.gate.pass().await;
            let Some(layer) = self.layer() else { return Ok(()) };
            // Clients that write as fast as it empties itself may keep it from its end; it is tried again without them.
            let _ = layer.detach().await;
        }
        let _alone = self.gate.close().await;
        let Some(layer) = self.layer() else { return Ok(()) };
        let detached = async {
            layer.detach().await?;
            Ok(self.over.clone())
        };
        self.switch.swap(detached).await?;
        self.layer.replace(None);
        Ok(())
    }

    /// Puts the layer in. Its opening sees what it lies over hold still.
    pub async fn insert(&self) -> Result<(), IoError> {
        let _alone = self.gate.close().await;
        if self.layer.borrow().is_some() {
            return Ok(());
        }
        let mut layer = None;
        let built = async {
            let built = (self.build)().await?;
            layer = Some(built.layer);
            Ok(built.device)
        };
        self.switch.swap(built).await?;
        self.layer.replace(layer);
        Ok(())
    }
}

/// What a topmost layer of this kind can be told to do.
pub fn commands(entry: &Entry) -> Vec<&'static str> {
    let general = if entry.transparent { &COMMANDS[..] } else { &COMMANDS[..1] };
    entry.commands.iter().chain(general).copied().collect()
}
