//! The tree of a volume: slices on components, layers over those, and the top.
//!
//! Which function builds what, and for which caller:
//!
//! - [`build`]: a whole tree, for the laboratory and its explorations.
//! - [`build_with_seams`]: the tree of an export with switches, for a server that starts.
//! - [`below`]: the devices below one layer, for the tools and for creating layers.
//! - [`below_guarded`]: the same over devices that are being served, for a layer that is attached.
//! - [`leaf`]: one component or slice, for a layer that is attached over it or detached from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use seekless_core::{BlockDevice, ErrorKind, FlushGuard, IoError, Layer, Slice, Switch, Top};
use seekless_layers::Topmost;
use seekless_layers::registry::{Below, Building, Entry};

use crate::description::{self, Description};

/// Whether copies of layers carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They carry data.
    Real,
    /// Data that they copy has a length only: for runs that measure time.
    Hollow,
}

/// The tree that a description describes, without its components.
pub struct Tree {
    /// The name of the device that clients use.
    pub name: String,
    /// The device that clients use.
    pub top: Rc<dyn BlockDevice>,
    /// The topmost layer with the switch over it, if any layer is there.
    pub topmost: Option<Rc<Topmost>>,
    /// The layers as they were built, by name.
    pub layers: BTreeMap<String, Rc<dyn Layer>>,
}

/// Places of a served tree where layers are attached and detached.
#[derive(Default)]
pub struct Seams {
    /// The switch directly above each device that a layer is over or an export shows.
    pub switches: BTreeMap<String, Rc<Switch>>,
    /// The layers.
    pub layers: BTreeMap<String, Rc<Topmost>>,
}

/// Builds the tree of a checked description over these components. On-disk state of layers may be missing.
pub async fn build<C>(
    description: &Description<C>,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    bytes: Bytes,
) -> Result<Tree, IoError> {
    let (name, is_new) = (&description.top[..], &|_: &str| true);
    // Layers decide what a failed flush means; a bare component reports it to its clients once, as a disk does.
    let layered = description.layers.contains_key(name);
    let components = if layered { guarded(components) } else { components };
    let mut builder =
        Builder { description, components, bytes, is_new, layers: BTreeMap::new(), seams: None };
    let (top, topmost) = builder.top(name).await?;
    Ok(Tree { name: name.to_owned(), top: Rc::new(top), topmost, layers: builder.layers })
}

/// The devices that `layer` lies on. On-disk state of layers below it must exist, except on components for which
/// `is_new` holds.
pub async fn below<C>(
    description: &Description<C>,
    layer: &description::Layer,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    bytes: Bytes,
    is_new: &dyn Fn(&str) -> bool,
) -> Result<Below, IoError> {
    let components = guarded(components);
    Builder { description, components, bytes, is_new, layers: BTreeMap::new(), seams: None }
        .below(layer)
        .await
}

/// Builds the device `name` over these components, which are guarded if it is a layer ([`guarded`]), with a switch
/// wherever a layer can be attached later. `is_new` is as in [`below`]. The switches and layers are added to `seams`;
/// the topmost switch is returned.
pub async fn build_with_seams<C>(
    description: &Description<C>,
    name: &str,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    is_new: &dyn Fn(&str) -> bool,
    seams: &mut Seams,
) -> Result<Rc<Switch>, IoError> {
    let (bytes, layers) = (Bytes::Real, BTreeMap::new());
    let seams = Some(seams);
    Builder { description, components, bytes, is_new, layers, seams }.switched(name).await
}

/// The devices that `layer` lies on, over these components, which are guarded; a device above components is taken from
/// them too, if they have one of its name.
pub async fn below_guarded<C>(
    description: &Description<C>,
    layer: &description::Layer,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    is_new: &dyn Fn(&str) -> bool,
) -> Result<Below, IoError> {
    let (bytes, layers) = (Bytes::Real, BTreeMap::new());
    Builder { description, components, bytes, is_new, layers, seams: None }.below(layer).await
}

/// The component or slice of this name, over these components.
pub fn leaf<C>(
    description: &Description<C>,
    name: &str,
    components: &BTreeMap<String, Rc<dyn BlockDevice>>,
) -> Result<Rc<dyn BlockDevice>, IoError> {
    if let Some(component) = components.get(name) {
        return Ok(component.clone());
    }
    let window = description.slices.get(name).ok_or_else(|| refused(name, "there is no such device"))?;
    let of = components.get(&window.of).ok_or_else(|| refused(name, "the slice is of no component"))?;
    let slice = Slice::new(of.clone(), window.extent);
    Ok(Rc::new(slice.ok_or_else(|| refused(name, "the slice reaches past the end"))?))
}

/// These components for layers: after a failed flush, all later ones fail.
pub fn guarded(components: BTreeMap<String, Rc<dyn BlockDevice>>) -> BTreeMap<String, Rc<dyn BlockDevice>> {
    let guarded = |component| Rc::new(FlushGuard::new(component)) as Rc<dyn BlockDevice>;
    components.into_iter().map(|(name, component)| (name, guarded(component))).collect()
}

/// A switch with this child, which counts and times requests.
pub fn metered(child: Rc<dyn BlockDevice>) -> Rc<Switch> {
    let switch = Switch::new(child);
    switch.measure(Some(Rc::default()));
    Rc::new(switch)
}

struct Builder<'a, C> {
    description: &'a Description<C>,
    components: BTreeMap<String, Rc<dyn BlockDevice>>,
    bytes: Bytes,
    is_new: &'a dyn Fn(&str) -> bool,
    layers: BTreeMap<String, Rc<dyn Layer>>,
    /// `None`: without switches.
    seams: Option<&'a mut Seams>,
}

fn refused(name: &str, why: impl Into<Cow<'static, str>>) -> IoError {
    IoError::new(ErrorKind::Invalid, name.to_owned(), None, why)
}

impl<C> Builder<'_, C> {
    /// The top, and the layer below it if there is one.
    async fn top(&mut self, name: &str) -> Result<(Top, Option<Rc<Topmost>>), IoError> {
        let Some(layer) = self.description.layers.get(name) else {
            return Ok((Top::new(self.device(name).await?), None));
        };
        let below = self.below(layer).await?;
        let (over, build) = (below.one()?, builder(layer.entry, layer.options.clone(), below));
        let topmost = Rc::new(Topmost::new(layer.entry, over, build).await?);
        self.layers.extend(topmost.layer().map(|layer| (name.to_owned(), layer)));
        Ok((Top::over(topmost.switch()), Some(topmost)))
    }

    /// Builds the device `name`. Errors in the description were reported before; here they are errors still.
    async fn device(&mut self, name: &str) -> Result<Rc<dyn BlockDevice>, IoError> {
        let layer = self.description.layers.get(name).filter(|_| !self.components.contains_key(name));
        let Some(layer) = layer else { return leaf(self.description, name, &self.components) };
        let below = self.below(layer).await?;
        let options = if self.seams.is_some() { layer.options_where_served() } else { layer.options.clone() };
        let (over, build) = (below.one()?, builder(layer.entry, options, below));
        let built = build(false).await?;
        let Some(seams) = &mut self.seams else {
            self.layers.insert(name.to_owned(), built.layer);
            return Ok(built.device);
        };
        let switch = metered(built.device);
        let topmost = Topmost::built(layer.entry, over, built.layer, switch.clone(), build);
        seams.switches.insert(name.to_owned(), switch.clone());
        seams.layers.insert(name.to_owned(), Rc::new(topmost));
        Ok(switch)
    }

    /// As `device`, with a switch above it.
    async fn switched(&mut self, name: &str) -> Result<Rc<Switch>, IoError> {
        let device = self.device(name).await?;
        let seams = self.seams.as_mut().ok_or_else(|| refused(name, "the tree has no switches"))?;
        let switch = seams.switches.entry(name.to_owned()).or_insert_with(|| metered(device));
        Ok(switch.clone())
    }

    /// Builds several devices.
    async fn devices(&mut self, names: &[String]) -> Result<Vec<Rc<dyn BlockDevice>>, IoError> {
        let mut built = Vec::new();
        for name in names {
            built.push(self.device(name).await?);
        }
        Ok(built)
    }

    async fn below(&mut self, layer: &description::Layer) -> Result<Below, IoError> {
        let mut over: Vec<Rc<dyn BlockDevice>> = Vec::new();
        for device in &layer.over {
            over.push(match self.seams {
                Some(_) => Box::pin(self.switched(device)).await?,
                None => Box::pin(self.device(device)).await?,
            });
        }
        let mut devices = BTreeMap::new();
        for (key, pieces) in &layer.devices {
            devices.insert(key.clone(), Box::pin(self.devices(pieces)).await?);
        }
        let mut leaves = layer.metadata_on().flat_map(|device| self.description.leaves(device));
        let create = leaves.all(|component| (self.is_new)(&component));
        Ok(Below { over, devices, create, timing_only: self.bytes == Bytes::Hollow })
    }
}

/// Builds a layer with these options each time it is called.
pub fn builder(
    entry: &'static Entry,
    options: toml::Table,
    below: Below,
) -> impl Fn(bool) -> Building + 'static {
    move |create| {
        let below = Below { create: below.create || create, ..below.clone() };
        entry.build(below, &options)
    }
}
