//! Layers in Python, in the laboratory: a class with `read`, `write` and `flush` over devices below.
//!
//! `class` makes an entry of the registry of a class, `task` follows a method from one request below to the next,
//! `request` carries out those requests, `data` is what they carry. This file is the device that others see.
//!
//! Requests of overlapping pages are ordered here, with range locks, so a method has its pages to itself. Invariants:
//! the interpreter's lock is held for a call only, never over an await. Fault model: a class may raise, return nonsense
//! or never answer: the first mistake ends the work with an exception that names the request, and from then on every
//! request of the layer fails.

mod class;
mod data;
mod error;
mod request;
mod task;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::ready;
use std::rc::{Rc, Weak};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use seekless_core::device::{Content, ExtentState, io};
use seekless_core::names::interned;
use seekless_core::runtime::{self, now};
use seekless_core::{
    Account, BlockDevice, Buffer, Class as Priority, Counters, ErrorKind, Extent, Geometry, Hints, IoError,
    IoFuture, Layer, Nanos, RangeLocks, Zeroes,
};

use crate::errors::LayerError;
use crate::signals;

pub use class::{Class, Traits, with};
pub use data::{Bell, Data};

/// What is called in Python.
#[derive(Clone, Debug)]
enum Call {
    Read(Extent),
    Write(Extent, Buffer),
    Discard(Extent),
    /// A method without arguments.
    Named(&'static str),
    /// Work that a method has left to itself: a generator or a coroutine.
    Spawned(Rc<Py<PyAny>>),
}

impl Call {
    fn method(&self) -> &'static str {
        match self {
            Call::Read(_) => "read",
            Call::Write(..) => "write",
            Call::Discard(_) => "discard",
            Call::Named(name) => name,
            Call::Spawned(_) => "spawned work",
        }
    }

    fn extent(&self) -> Option<Extent> {
        match self {
            Call::Read(at) | Call::Write(at, _) | Call::Discard(at) => Some(*at),
            Call::Named(_) | Call::Spawned(_) => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())?;
        match self.extent() {
            Some(at) => write!(f, " of {} sectors at {}", at.sectors, at.start.0),
            None => Ok(()),
        }
    }
}

/// A layer of a class in Python.
struct PythonLayer {
    name: &'static str,
    me: Weak<PythonLayer>,
    traits: Traits,
    /// The object.
    layer: Py<PyAny>,
    /// Its devices: that of `over`, and the others as the class lists them.
    devices: Vec<Rc<dyn BlockDevice>>,
    locks: RangeLocks,
    timing_only: bool,
    /// Requests so far.
    requests: Cell<u64>,
    /// Whether it made a mistake.
    failed: Cell<bool>,
}

thread_local! {
    /// Calls into layers of this thread that have not returned.
    static CALLED: Cell<u32> = const { Cell::new(0) };
    /// The first request that was given up without an answer, since this thread's work began.
    static LEFT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Counts that a rare place of the code was reached: one that the class lists in `edges`, which an exploration has to
/// reach.
#[pyfunction]
pub fn edge(name: &str) -> PyResult<()> {
    in_a_run()?;
    runtime::edge(interned(name));
    Ok(())
}

/// The virtual time in nanoseconds, within a method of a layer.
#[pyfunction]
pub fn now_ns() -> PyResult<u64> {
    in_a_run()?;
    Ok(now().0)
}

/// Calls into a layer.
fn called<T>(call: impl FnOnce(Python<'_>) -> T) -> T {
    CALLED.set(CALLED.get() + 1);
    let result = Python::attach(call);
    CALLED.set(CALLED.get() - 1);
    result
}

/// Refuses what is known in a run only.
fn in_a_run() -> PyResult<()> {
    if CALLED.get() > 0 {
        return Ok(());
    }
    Err(LayerError::new_err("found a call outside of a layer, expected one in a method of a layer"))
}

/// Forgets what was left without an answer.
pub fn forget() {
    LEFT.take();
}

/// The request that was left without an answer, if there is one.
pub fn left() -> Option<String> {
    LEFT.take()
}

/// Notes a request that is dropped before its answer.
struct Unanswered<'a> {
    layer: &'a PythonLayer,
    call: &'a Call,
    number: u64,
    since: Nanos,
    answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.answered {
            LEFT.with_borrow_mut(|left| {
                left.get_or_insert_with(|| self.layer.which(self.call, self.number, self.since));
            });
        }
    }
}

/// The error of the requests of a layer that made a mistake.
fn gone(name: &'static str) -> IoError {
    IoError::new(ErrorKind::Gone, name, None, "the layer has failed")
}

/// Ends the work: `error` was raised in this call, or is what is wrong with it.
fn raise(which: &str, error: PyErr) {
    Python::attach(|py| {
        // Ctrl-C stays what it is.
        if !error.is_instance_of::<PyException>(py) {
            return signals::raise(error);
        }
        if error.is_instance_of::<LayerError>(py) {
            return signals::raise(LayerError::new_err(format!("{which}: {}", error.value(py))));
        }
        let raised = LayerError::new_err(format!("{which}: {error}"));
        raised.set_cause(py, Some(error));
        signals::raise(raised);
    });
}

impl PythonLayer {
    /// A request, for people.
    fn which(&self, call: &Call, number: u64, since: Nanos) -> String {
        format!("the layer {}: {call} (request {number}, at {since})", self.name)
    }

    /// Ends the work, as [`raise`] does.
    fn fail(&self, which: &str, error: PyErr) -> IoError {
        self.failed.set(true);
        raise(which, error);
        gone(self.name)
    }

    /// Calls a method that the class may lack, which then does nothing.
    async fn call_if_there(&self, method: &'static str, how: &Hints) -> Result<bool, IoError> {
        if !self.traits.has(method) {
            return Ok(false);
        }
        self.call(Call::Named(method), how).await.map(|_| true)
    }

    async fn call(&self, call: Call, how: &Hints) -> Result<task::Got, IoError> {
        if self.failed.get() {
            return Err(gone(self.name));
        }
        self.requests.set(self.requests.get() + 1);
        let (number, since) = (self.requests.get(), now());
        // No client waits for spawned work, which may go on until the end of the run.
        let answered = matches!(call, Call::Spawned(_));
        let mut unanswered = Unanswered { layer: self, call: &call, number, since, answered };
        let done = task::follow(self, &call, how).await;
        unanswered.answered = true;
        done.map_err(|fault| match fault {
            task::Fault::Io(error) => error,
            task::Fault::Raised(error) => self.fail(&self.which(&call, number, since), error),
        })
    }

    /// Lets work go on beside all requests, as background work of its own account; its mistakes end the run.
    fn spawn(&self, work: Rc<Py<PyAny>>) {
        let Some(layer) = self.me.upgrade() else { return };
        let how = Hints { class: Priority::Background, ..Hints::default() };
        runtime::spawn(async move {
            if let Err(error) = layer.call(Call::Spawned(work), &how).await {
                if !layer.failed.get() {
                    let error = LayerError::new_err(format!("spawned work failed: {error}"));
                    layer.fail(&format!("the layer {}", layer.name), error);
                }
            }
        })
        .detach();
    }

    /// Calls `stop`, or `flush` if the class has none.
    async fn stop_as(&self, how: Hints) -> Result<(), IoError> {
        if self.call_if_there("stop", &how).await? { Ok(()) } else { self.flush(how).await }
    }

    async fn write_data(&self, at: Extent, from: Buffer, mut how: Hints) -> Result<(), IoError> {
        let durable = std::mem::take(&mut how.fua);
        {
            let _held = self.locks.exclusive(at.whole_pages(), &how).await;
            // The client may change its memory once it has the answer, while the layer still has it.
            let from = if from.is_hollow() { from } else { Buffer::from_vec(from.to_vec()) };
            self.call(Call::Write(at, from), &how).await?;
        }
        if durable { self.flush(how).await } else { Ok(()) }
    }
}

impl BlockDevice for PythonLayer {
    fn geometry(&self) -> Geometry {
        let geometry = self.devices[0].geometry();
        let volatile_cache =
            self.traits.volatile || self.devices.iter().any(|device| device.geometry().volatile_cache);
        Geometry { volatile_cache, ..geometry }
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _held = self.locks.shared(at.whole_pages(), &how).await;
            if let task::Got::Data(data) = self.call(Call::Read(at), &how).await? {
                data.for_each(|offset, _, bytes| into.put(offset, bytes.unwrap_or_default()));
            }
            Ok(into)
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(self.write_data(at, from, how))
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move { self.call(Call::Named("flush"), &how).await.map(drop) })
    }

    /// Sectors read as before, unless the class does more.
    fn discard(&self, at: Extent, mut how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let durable = std::mem::take(&mut how.fua);
            if self.traits.has("discard") {
                let _held = self.locks.exclusive(at.whole_pages(), &how).await;
                self.call(Call::Discard(at), &how).await?;
            }
            if durable { self.flush(how).await } else { Ok(()) }
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        if zeroes.only_if_fast {
            let why = "no fast zeroes here";
            return io(ready(Err(IoError::new(ErrorKind::Unsupported, self.name, Some(at), why))));
        }
        io(self.write_data(at, self.new_buffer(at), how))
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(ready(Ok(vec![ExtentState { extent: at, content: Content::Unknown }])))
    }
}

impl Layer for PythonLayer {
    /// Those in the dictionary `counters` of the object, if it has one.
    fn counters(&self) -> Counters {
        if self.failed.get() {
            return Counters::new();
        }
        let counted: PyResult<Vec<(String, u64)>> = Python::attach(|py| {
            let Some(counters) = self.layer.bind(py).getattr_opt("counters")? else { return Ok(Vec::new()) };
            counters.call_method0("items")?.try_iter()?.map(|item| item?.extract()).collect()
        });
        match counted {
            Ok(counted) => counted.into_iter().map(|(name, value)| (interned(&name), value)).collect(),
            Err(error) => {
                self.fail(&format!("the layer {}: counters", self.name), error);
                Counters::new()
            }
        }
    }

    fn stop(&self) -> IoFuture<'_, ()> {
        io(self.stop_as(Hints::default()))
    }

    fn end_run(&self, account: Account) -> IoFuture<'_, ()> {
        io(self.stop_as(Hints { account, ..Hints::default() }))
    }

    fn detach(&self) -> IoFuture<'_, ()> {
        if self.traits.transparent {
            return self.stop();
        }
        let why = "it is not transparent: to give it up, copy the data to another volume";
        io(ready(Err(IoError::new(ErrorKind::Unsupported, self.name, None, why))))
    }
}
