//! The topmost layer of a volume: carries out commands, and is detached and attached while clients continue.
//!
//! Invariants: no command reaches a detached layer, and none is running when it detaches. A layer is detached once
//! everything it holds is on the origin. Fault model: a failed operation leaves the volume as it was, and in use.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::device::unknown_command;
use seekless_core::{Account, BlockDevice, Gate, Hints, IoError, Layer, SECTOR_BYTES, Switch};

use crate::registry::{self, Building, Entry};
use crate::split::{self, Split};
use crate::units::Bytes;

/// Commands of every topmost layer, the last two only if it is transparent.
const COMMANDS: [&str; 3] = ["stop", "remove", "insert"];

/// The topmost layer, attached or detached.
pub struct Topmost {
    entry: &'static Entry,
    /// The switch directly above it.
    switch: RefCell<Rc<Switch>>,
    /// The device below, which gets whole requests in order of arrival: a component promises no order.
    over: Rc<dyn BlockDevice>,
    build: Box<dyn Fn(bool) -> Building>,
    /// `None` while detached.
    layer: RefCell<Option<Rc<dyn Layer>>>,
    /// Passed by commands; closed for attaching and detaching.
    gate: Gate,
}

impl Topmost {
    /// Builds the layer over `over`, and a switch above it. `build` is called again to attach the layer, with `true`:
    /// its on-disk state may be missing then.
    pub async fn new(
        entry: &'static Entry,
        over: Rc<dyn BlockDevice>,
        build: impl Fn(bool) -> Building + 'static,
    ) -> Result<Topmost, IoError> {
        let built = build(false).await?;
        let switch = Rc::new(Switch::new(built.device.clone()));
        Ok(Topmost::built(entry, over, built.layer, switch, build))
    }

    /// The layer `layer`, built over `over`; its device is the child of `switch`.
    pub fn built(
        entry: &'static Entry,
        over: Rc<dyn BlockDevice>,
        layer: Rc<dyn Layer>,
        switch: Rc<Switch>,
        build: impl Fn(bool) -> Building + 'static,
    ) -> Topmost {
        let over = in_order(over);
        let (switch, layer) = (RefCell::new(switch), RefCell::new(Some(layer)));
        Topmost { entry, switch, over, build: Box::new(build), layer, gate: Gate::default() }
    }

    /// The kind of layer.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The switch directly above it.
    pub fn switch(&self) -> Rc<Switch> {
        self.switch.borrow().clone()
    }

    /// From now on `switch` is directly above it: its child is the layer's device.
    pub fn lies_below(&self, switch: Rc<Switch>) {
        self.switch.replace(switch);
    }

    /// The layer, if attached.
    pub fn layer(&self) -> Option<Rc<dyn Layer>> {
        self.layer.borrow().clone()
    }

    /// Carries out a command by name: `stop`, after which everything acknowledged is durable; `remove` and `insert`, if
    /// the layer is transparent; or one of its own. Commands for a detached layer do nothing, nor do `remove` and
    /// `insert` in the respective state.
    ///
    /// # Errors
    /// `Unsupported` if there is no such command, otherwise the layer's error.
    pub async fn command(&self, name: &str, how: Hints) -> Result<(), IoError> {
        if !knows(&commands(self.entry), name) {
            return Err(unknown_command(self.entry.name, name, &commands(self.entry)));
        }
        match name {
            "remove" => self.remove().await,
            "insert" => self.insert().await,
            _ => {
                let _inside = self.gate.pass().await;
                match (self.layer(), name) {
                    (Some(layer), "stop") => layer.stop().await,
                    (Some(layer), _) => layer.command(name, how).await,
                    (None, "stop") => self.switch().enter().await.flush(how).await,
                    (None, _) => Ok(()),
                }
            }
        }
    }

    /// Detaches the layer: it is emptied mostly while clients continue, completely while they are held back.
    pub async fn remove(&self) -> Result<(), IoError> {
        {
            let _inside = self.gate.pass().await;
            let Some(layer) = self.layer() else { return Ok(()) };
            // Fails if clients write as fast as it is emptied; retried below without them.
            let _ = layer.detach().await;
        }
        let _alone = self.gate.close().await;
        let Some(layer) = self.layer() else { return Ok(()) };
        let detached = async {
            layer.detach().await?;
            Ok(self.over.clone())
        };
        self.switch().swap(detached).await?;
        self.layer.replace(None);
        Ok(())
    }

    /// Detaches the layer, so that `below` takes its place, and `commit` decides it: a crash before `commit` has ended
    /// is to open the volume with the layer, a later one without. Everything is written back when `commit` is awaited,
    /// the first part of it while clients continue; what follows on the layer's own devices delays no request.
    ///
    /// # Errors
    /// Those of the layer and of `commit`: it stays in use. One of giving up the layer's devices is the second part of
    /// the result: it is detached.
    pub async fn detach(
        &self,
        below: Rc<dyn BlockDevice>,
        commit: impl Future<Output = Result<(), IoError>>,
    ) -> Result<Result<(), IoError>, IoError> {
        {
            let _inside = self.gate.pass().await;
            let Some(layer) = self.layer() else { return Ok(Ok(())) };
            // Fails if clients write as fast as it is written back; retried below without them.
            let _ = layer.write_back(Account::default()).await;
        }
        let _alone = self.gate.close().await;
        let Some(layer) = self.layer() else { return Ok(Ok(())) };
        let detached = async {
            if self.entry.holds_newer {
                layer.write_back(Account::default()).await?;
            } else {
                layer.detach().await?;
            }
            below.flush(Hints::default()).await?;
            commit.await?;
            Ok(below.clone())
        };
        self.switch().swap(detached).await?;
        self.layer.replace(None);
        Ok(layer.give_up().await)
    }

    /// Attaches the layer. Requests are held back while it opens.
    pub async fn insert(&self) -> Result<(), IoError> {
        let _alone = self.gate.close().await;
        if self.layer.borrow().is_some() {
            return Ok(());
        }
        let mut layer = None;
        let built = async {
            let built = (self.build)(true).await?;
            layer = Some(built.layer);
            Ok(built.device)
        };
        self.switch().swap(built).await?;
        self.layer.replace(layer);
        Ok(())
    }
}

/// A component, with whole requests that take effect in order of arrival, as those of layers do.
pub fn in_order(component: Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    let largest = Bytes(component.geometry().sectors * SECTOR_BYTES);
    Rc::new(Split::new(component, &split::Options { largest }))
}

/// Commands of a topmost layer of this kind.
pub fn commands(entry: &Entry) -> Vec<&'static str> {
    let general = if entry.transparent { &COMMANDS[..] } else { &COMMANDS[..1] };
    entry.commands.iter().chain(general).copied().collect()
}

/// Whether a command is one of these, whatever its value.
pub fn knows(commands: &[&str], command: &str) -> bool {
    commands.iter().any(|known| verb(known) == verb(command))
}

/// A command without its value: of `size=64KiB` that is `size=`.
fn verb(command: &str) -> &str {
    command.split_inclusive('=').next().unwrap_or(command)
}

/// A command of any layer by name, with static lifetime.
pub fn command(name: &str) -> Option<&'static str> {
    let all = registry::all().flat_map(|entry| entry.commands).chain(&COMMANDS);
    all.copied().find(|command| *command == name)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use seekless_core::runtime::{Runtime, sleep, spawn};
    use seekless_core::{Buffer, Counters, ErrorKind, Extent, IoFuture, Nanos, Top, device::io};
    use seekless_drive::{Disk, QueueOptions, spec};

    use super::*;
    use crate::registry::{self, Built};

    /// A layer that holds nothing, logs its calls, and takes a while for each.
    struct Logged {
        over: Rc<dyn BlockDevice>,
        notes: Rc<RefCell<Vec<&'static str>>>,
        stays: Rc<Cell<bool>>,
    }

    impl Logged {
        async fn note(&self, what: &'static str) -> Result<(), IoError> {
            self.notes.borrow_mut().push(what);
            sleep(Nanos::from_millis(50)).await;
            self.notes.borrow_mut().push("done");
            Ok(())
        }
    }

    impl BlockDevice for Logged {
        fn below(&self) -> Option<&dyn BlockDevice> {
            Some(&*self.over)
        }
    }

    impl Layer for Logged {
        fn counters(&self) -> Counters {
            Counters::default()
        }

        fn command(&self, _: &str, _: Hints) -> IoFuture<'_, ()> {
            io(self.note("command"))
        }

        fn stop(&self) -> IoFuture<'_, ()> {
            io(self.note("stop"))
        }

        fn detach(&self) -> IoFuture<'_, ()> {
            io(async {
                self.note("detach").await?;
                let stays =
                    || IoError::new(ErrorKind::Medium, "told", None, "it cannot be written to the origin");
                if self.stays.get() { Err(stays()) } else { Ok(()) }
            })
        }
    }

    struct Volume {
        topmost: Rc<Topmost>,
        notes: Rc<RefCell<Vec<&'static str>>>,
        /// Whether the layer refuses to go, and whether it opens no more.
        stays: Rc<Cell<bool>>,
        closed: Rc<Cell<bool>>,
    }

    impl Volume {
        async fn new() -> Volume {
            let over: Rc<dyn BlockDevice> =
                Rc::new(Disk::new(0, &spec::find("wd2500aaks").unwrap(), QueueOptions::default()));
            let (notes, stays, closed): (Rc<RefCell<_>>, Rc<Cell<bool>>, Rc<Cell<bool>>) = Default::default();
            let build = {
                let (over, notes, stays, closed) =
                    (over.clone(), notes.clone(), stays.clone(), closed.clone());
                move |_: bool| {
                    let (over, notes, stays) = (over.clone(), notes.clone(), stays.clone());
                    let error = IoError::new(ErrorKind::Corrupt, "told", None, "it is no layer");
                    let built = Ok(Built::new(Rc::new(Logged { over, notes, stays })));
                    let opened = if closed.get() { Err(error) } else { built };
                    Box::pin(std::future::ready(opened)) as Building
                }
            };
            let topmost = Topmost::new(registry::find("borg").unwrap(), over, build).await.unwrap();
            Volume { topmost: Rc::new(topmost), notes, stays, closed }
        }

        async fn command(&self, name: &str) -> Result<(), IoError> {
            self.topmost.command(name, Hints::default()).await
        }

        /// The calls since this was last called.
        fn calls(&self) -> Vec<&'static str> {
            self.notes.take()
        }

        async fn write(&self) -> Result<(), IoError> {
            let at = Extent::new(0, 8);
            Top::over(self.topmost.switch()).write(at, Buffer::zeroed(at.bytes()), Hints::default()).await
        }
    }

    fn run(test: impl AsyncFnOnce(Volume)) {
        Runtime::new(1).run(async { test(Volume::new().await).await }).expect("nobody waits for ever");
    }

    #[test]
    fn a_detached_layer_gets_no_commands() {
        run(async |volume| {
            volume.command("insert").await.unwrap();
            volume.command("drain").await.unwrap();
            volume.command("stop").await.unwrap();
            assert_eq!(volume.calls(), ["command", "done", "stop", "done"]);
            volume.command("remove").await.unwrap();
            assert_eq!(volume.calls(), ["detach", "done", "detach", "done"], "under load, and again without");
            for command in ["remove", "drain", "reconfigure", "stop"] {
                volume.command(command).await.unwrap();
            }
            volume.write().await.unwrap();
            assert!(volume.calls().is_empty() && volume.topmost.layer().is_none());
            volume.command("insert").await.unwrap();
            volume.command("reconfigure").await.unwrap();
            assert_eq!(volume.calls(), ["command", "done"]);
        });
    }

    #[test]
    fn a_layer_goes_when_its_commands_have_ended_and_later_ones_find_it_gone() {
        run(async |volume| {
            let command_later = |name| {
                let topmost = volume.topmost.clone();
                spawn(async move { topmost.command(name, Hints::default()).await })
            };
            let (remove, first) = (command_later("remove"), command_later("drain"));
            sleep(Nanos::from_millis(30)).await;
            let second = command_later("reconfigure");
            sleep(Nanos::from_millis(30)).await;
            let late = command_later("drain");
            for task in [first, second, remove, late] {
                task.await.unwrap();
            }
            let calls = volume.calls();
            assert_eq!(calls, ["detach", "command", "command", "done", "done", "done", "detach", "done"]);
        });
    }

    #[test]
    fn a_layer_that_cannot_go_stays_in_use_and_one_that_does_not_open_stays_out() {
        run(async |volume| {
            volume.stays.set(true);
            assert_eq!(volume.command("remove").await.unwrap_err().kind(), ErrorKind::Medium);
            volume.write().await.unwrap();
            volume.calls();
            volume.command("drain").await.unwrap();
            assert_eq!(volume.calls(), ["command", "done"]);
            volume.stays.set(false);
            volume.closed.set(true);
            volume.command("remove").await.unwrap();
            assert_eq!(volume.command("insert").await.unwrap_err().kind(), ErrorKind::Corrupt);
            assert!(volume.topmost.layer().is_none());
            volume.write().await.unwrap();
            volume.closed.set(false);
            volume.command("insert").await.unwrap();
            assert!(volume.topmost.layer().is_some());
        });
    }

    #[test]
    fn what_is_no_command_is_refused_with_those_that_are() {
        run(async |volume| {
            let error = volume.command("dance").await.unwrap_err();
            let text = "found the command 'dance', expected reconfigure or drain or verify or stop or remove or insert";
            assert!(error.to_string().contains(text), "{error}");
        });
        assert_eq!(
            commands(registry::find("mapper").unwrap()),
            ["stop"],
            "it owns the order of what is below"
        );
        assert_eq!(command("drain"), Some("drain"));
        assert_eq!(command("dance"), None);
    }
}
