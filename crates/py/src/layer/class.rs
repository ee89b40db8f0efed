//! Classes as entries of the registry of layers, for the work of one call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seekless::layers::registry::{self, Below, Building, Built, Entry};
use seekless_core::names::interned;
use seekless_core::{BlockDevice, ErrorKind, Hints, IoError, RangeLocks};

use super::{PythonLayer, called, gone, raise};
use crate::errors::UsageError;

/// Methods that a class may have besides `read`, `write` and `flush`.
const OPTIONAL: [&str; 3] = ["start", "stop", "discard"];

/// What a class says of its layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    pub transparent: bool,
    pub volatile: bool,
    /// Keys of devices besides `over`.
    devices: Vec<&'static str>,
    edges: Vec<&'static str>,
    has: [bool; OPTIONAL.len()],
}

impl Traits {
    /// Whether it has this method.
    pub fn has(&self, name: &str) -> bool {
        OPTIONAL.iter().zip(self.has).any(|(optional, has)| *optional == name && has)
    }

    fn of(name: &str, class: &Bound<'_, PyAny>) -> PyResult<Traits> {
        for method in ["read", "write", "flush"] {
            if !class.hasattr(method)? {
                let why = format!("layers: {name}: found no {method}(), expected read, write and flush");
                return Err(UsageError::new_err(why));
            }
        }
        let set = |attribute: &str| match class.getattr_opt(attribute)? {
            Some(value) => value.is_truthy(),
            None => Ok(false),
        };
        let names = |attribute: &str| match class.getattr_opt(attribute)? {
            Some(value) => {
                let names: Vec<String> = value.extract()?;
                Ok(names.iter().map(|name| interned(name)).collect())
            }
            None => Ok::<_, PyErr>(Vec::new()),
        };
        let mut has = [false; OPTIONAL.len()];
        for (has, optional) in has.iter_mut().zip(OPTIONAL) {
            *has = class.hasattr(optional)?;
        }
        let (transparent, volatile) = (set("transparent")?, set("volatile")?);
        Ok(Traits { transparent, volatile, devices: names("devices")?, edges: names("edges")?, has })
    }
}

/// A class that a call brings along.
#[derive(Clone)]
pub struct Class {
    name: &'static str,
    object: Rc<Py<PyAny>>,
    traits: Traits,
}

impl Class {
    pub fn of(name: &str, class: Bound<'_, PyAny>) -> PyResult<Class> {
        let traits = Traits::of(name, &class)?;
        Ok(Class { name: interned(name), object: Rc::new(class.unbind()), traits })
    }
}

thread_local! {
    /// The classes that are known now.
    static CLASSES: RefCell<Vec<Class>> = const { RefCell::new(Vec::new()) };
    /// The entries so far, which are kept for ever: one for each name and what its class says.
    static ENTRIES: RefCell<Vec<(Traits, &'static Entry)>> = const { RefCell::new(Vec::new()) };
}

/// Removes those added last, also after a panic.
struct Until(usize);

impl Drop for Until {
    fn drop(&mut self) {
        CLASSES.with_borrow_mut(|classes| classes.truncate(self.0));
    }
}

/// Does work that knows these classes as layers. A name that is taken is an error.
pub fn with<T>(classes: Vec<Class>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let entries: Vec<&'static Entry> = classes.iter().map(entry).collect();
    let _until = Until(CLASSES.with_borrow(Vec::len));
    CLASSES.with_borrow_mut(|known| known.extend(classes));
    registry::with(&entries, work).map_err(|refused| UsageError::new_err(format!("layers: {refused}")))?
}

/// The entry of a class.
fn entry(class: &Class) -> &'static Entry {
    let (name, traits) = (class.name, &class.traits);
    ENTRIES.with_borrow_mut(|entries| {
        if let Some((_, entry)) = entries.iter().find(|(of, entry)| entry.name == name && of == traits) {
            return *entry;
        }
        let given: &'static registry::Given =
            Box::leak(Box::new(move |below: Below, options: toml::Table| build(name, below, options)));
        let entry: &'static Entry = Box::leak(Box::new(Entry {
            transparent: traits.transparent,
            devices: Box::leak(traits.devices.clone().into_boxed_slice()),
            edges: Box::leak(traits.edges.clone().into_boxed_slice()),
            check: |_| Ok(()),
            given: Some(given),
            ..Entry::new(name, "a class in Python", |_, _| Box::pin(async { Err(unknown("a layer")) }))
        }));
        entries.push((traits.clone(), entry));
        entry
    })
}

fn unknown(name: &'static str) -> IoError {
    IoError::new(ErrorKind::Invalid, name, None, "found no class of this name, expected one of the call's")
}

/// Makes an object of the class of this name.
fn build(name: &'static str, below: Below, options: toml::Table) -> Building {
    Box::pin(async move {
        let found = CLASSES.with_borrow(|known| known.iter().rev().find(|class| class.name == name).cloned());
        let Class { object, traits, .. } = found.ok_or_else(|| unknown(name))?;
        let mut devices: Vec<Rc<dyn BlockDevice>> = vec![below.one()?];
        for key in &traits.devices {
            devices.push(below.device(key)?);
        }
        let made = called(|py| made(py, object.bind(py), name, &traits, &devices, &options));
        let layer = made.map_err(|error| {
            raise(&format!("the layer {name}: __init__()"), error);
            gone(name)
        })?;
        let layer = Rc::new_cyclic(|me| PythonLayer {
            name,
            me: me.clone(),
            traits,
            layer,
            devices,
            locks: RangeLocks::new(),
            timing_only: below.timing_only,
            requests: Cell::new(0),
            failed: Cell::new(false),
        });
        layer.call_if_there("start", &Hints::default()).await?;
        Ok(Built::new(layer))
    })
}

/// An object of the class, with its devices and its options as arguments.
fn made(
    py: Python<'_>,
    class: &Bound<'_, PyAny>,
    name: &str,
    traits: &Traits,
    devices: &[Rc<dyn BlockDevice>],
    options: &toml::Table,
) -> PyResult<Py<PyAny>> {
    let device = py.import("seekless._layer")?.getattr("Device")?;
    let text = serde_json::to_string(options);
    let text = text.map_err(|error| UsageError::new_err(format!("layers: {name}: {error}")))?;
    let keywords = py.import("json")?.call_method1("loads", (text,))?.cast_into::<PyDict>()?;
    let of = |number: usize, key: &str| device.call1((key, number, devices[number].geometry().sectors));
    for (number, key) in (1..).zip(&traits.devices) {
        keywords.set_item(key, of(number, key)?)?;
    }
    Ok(class.call((of(0, "over")?,), Some(&keywords))?.unbind())
}
