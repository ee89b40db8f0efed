//! `seekless volume serve`: builds the volumes of a file and serves their exports by NBD.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use futures_util::future::{Either, select};
use seekless_core::runtime::{Runtime, sleep, spawn};
use seekless_core::{BlockDevice, Class, Hints, Layer, Lba, Nanos, PAGE_BYTES, SECTOR_BYTES, Size};
use seekless_serve::component::Numbered;
use seekless_serve::reactor::{Job, Kind, Memory, Op, Reactor};
use seekless_serve::server::{
    Address, AddressError, ByteAdapter, CLIENTS, Export, Home, Keys, Server, control,
};
use seekless_volume::description::{self, Description, Tls};
use seekless_volume::file;
use seekless_volume::tree::{Bytes, Tree, under};

use seekless_volume::component::beside;

use super::component::Live;
use super::ground::Ground;
use super::inputs;
use super::pairs::{self, Pairs};
use super::status::{self, Told};
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume serve home.toml
  seekless volume serve home.toml --io threads
  seekless volume serve home.toml --log-inputs home.inputs; seekless lab replay home.inputs

A volume file that serves a file, without layers:
  [component.disk]
  file = \"disk.img\"

  [[export]]
  top = \"disk\"
  nbd = \"unix:/tmp/disk.sock\"

Then:
  qemu-img info 'nbd+unix:///disk?socket=/tmp/disk.sock'";

/// Arguments of `volume serve`.
#[derive(Args)]
pub struct Arguments {
    /// Volume file
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// I/O backend [default: `io_uring` where the kernel allows it, otherwise threads]
    #[arg(long, value_name = "HOW")]
    io: Option<Io>,
    /// Allow unencrypted TCP to be reachable from other machines
    #[arg(long)]
    allow_plain_tcp: bool,
    /// Record all inputs in this file, for seekless lab replay; it contains the data, too
    #[arg(long, value_name = "FILE")]
    log_inputs: Option<PathBuf>,
}

/// Limit on draining a layer before it is stopped: service managers wait for 90 s.
const DRAINED_WITHIN: Nanos = Nanos::from_millis(60_000);
/// Interval of progress messages meanwhile.
const TOLD_EVERY: Nanos = Nanos::from_millis(2_000);

/// Seed of all random choices of a live volume.
const SEED: u64 = 1;

/// A server and its environment.
pub struct Serving<'a> {
    /// Path of the volume file.
    pub volume: &'a Path,
    /// Environment.
    pub ground: Ground,
    /// Process number.
    pub process: u32,
    /// The reactor.
    pub reactor: &'a Rc<Reactor>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Io {
    #[value(name = "io_uring")]
    Uring,
    Threads,
}

/// Serves until a signal.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wish = arguments.io.map(|io| match io {
        Io::Uring => Kind::Uring,
        Io::Threads => Kind::Threads,
    });
    let description: Description<Live> = file::read_of(&arguments.volume)?;
    let places = places(&description, arguments.allow_plain_tcp)?;
    let keys = keys(&description)?;
    let (mut reactor, refused) = Reactor::start(wish).context("io")?;
    let why = refused.map_or(String::new(), |error| format!(" (no io_uring: {error})"));
    output::complain(&format!("io: {}{why}", reactor.kind()));
    if let Some(file) = &arguments.log_inputs {
        if keys.is_some() || description.components.values().any(Live::is_encrypted) {
            bail!(
                "--log-inputs: found tls in {}, whose secrets no replay has; expected none",
                description.file
            );
        }
        let recorder = inputs::begin(file, &arguments.volume, &description, reactor.kind())?;
        reactor = reactor.recorded(recorder);
    }
    let reactor = Rc::new(reactor);
    let runtime = runtime(&reactor);
    let serving = Serving {
        volume: &arguments.volume,
        ground: Ground::Live,
        process: std::process::id(),
        reactor: &reactor,
    };
    let served = runtime.run_live(serve(&serving, &description, places, keys), &*reactor)?;
    reactor.end(runtime.event_hash());
    served
}

/// The runtime of a volume, live or replayed: offloaded work runs on the reactor's workers.
pub fn runtime(reactor: &Rc<Reactor>) -> Runtime {
    runtime_of(reactor, SEED)
}

/// As `runtime`, with another seed.
pub fn runtime_of(reactor: &Rc<Reactor>, seed: u64) -> Runtime {
    let (runtime, beside) = (Runtime::new(seed), reactor.clone());
    runtime.offload_to(Rc::new(move |work| beside.offload(work)));
    runtime
}

/// Certificates and keys, if configured.
fn keys(description: &Description<Live>) -> anyhow::Result<Option<Keys>> {
    let Some(Tls { certificate, key, clients }) = description.tls.clone() else { return Ok(None) };
    let [certificate, key, clients] = [certificate, key, clients].map(|path| beside(&description.file, path));
    let keys = Keys::read(&certificate, &key, &clients);
    keys.map(Some).map_err(|error| anyhow::anyhow!("{}: tls.{error}", description.file))
}

/// The addresses to listen at, each with the indices of its exports.
pub fn places(description: &Description<Live>, plain: bool) -> anyhow::Result<Vec<(Address, Vec<usize>)>> {
    let mut places: Vec<(Address, Vec<usize>)> = Vec::new();
    for (number, export) in description.exports.iter().enumerate() {
        let key = format!("{}: export.{}", description.file, export.name);
        let Some(text) = &export.nbd else {
            bail!("{key}: found no nbd, expected where to listen for clients")
        };
        let address = address(&description.file, text).with_context(|| format!("{key}.nbd"))?;
        if !address.is_local() && !plain && description.tls.is_none() {
            bail!(
                "{key}.nbd: found {address}, which other machines reach and anyone there may read and write; \
                 expected a loopback address, tls = {{...}} in the file, or --allow-plain-tcp"
            );
        }
        let known = places.iter().position(|(other, _)| *other == address);
        let known = known.unwrap_or_else(|| {
            places.push((address, Vec::new()));
            places.len() - 1
        });
        let here = &mut places[known].1;
        if here.iter().any(|other| description.exports[*other].name == export.name) {
            bail!(
                "{key}: found two exports of this name at {text}, expected a name = \"...\" of its own for each"
            );
        }
        here.push(number);
    }
    Ok(places)
}

/// Serves until a signal.
pub async fn serve(
    serving: &Serving<'_>,
    description: &Description<Live>,
    places: Vec<(Address, Vec<usize>)>,
    keys: Option<Keys>,
) -> anyhow::Result<()> {
    let Serving { ground, reactor, .. } = *serving;
    let signals = ground.signals().context("signals")?;
    let pairs = pairs::look(serving.volume, description, ground)?;
    let trees = trees(serving, description).await?;
    trees.values().try_for_each(|tree| pairs.check(&description.file, &tree.layers))?;
    for tree in trees.values() {
        pairs.write(&tree.layers, ground);
        tree.layers.iter().for_each(|(name, layer)| tell_of_copies(description, name, &**layer, ground));
    }
    let trees = Rc::new(trees);
    for tree in trees.values() {
        reconfigure_in_time(description, tree, ground);
    }
    let clients = description.clients.map_or(CLIENTS, |clients| clients.get() as usize);
    ground.room_for(clients);
    let server = Server::new(reactor, clients, move |line| ground.say(line));
    let place = status::socket(serving.volume, description.control.as_deref());
    let told = Told::new(serving, description, &server, &trees);
    control(reactor, ground.listen(&Address::Unix(place))?, move |line| told.answer(&line));
    listen(serving, description, &server, places, keys.as_ref(), &trees)?;
    let uri = description.exports.first().and_then(|export| {
        Some(address(&description.file, export.nbd.as_ref()?).ok()?.uri(&export.name, keys.is_some()))
    });
    ground.say(&format!("try: nbdinfo '{}'; stop with Ctrl-C", uri.unwrap_or_default()));
    signal(reactor, &signals).await;
    ground.say("stopping; a second signal ends it at once");
    spawn(at_once(reactor.clone(), signals, ground)).detach();
    server.stop().await;
    for tree in trees.values() {
        stop(description, tree, &pairs, ground).await?;
    }
    let served = server.served();
    ground.say(&format!(
        "stopped: {} requests answered, {} of them with an error; {} read, {} written",
        served.requests,
        served.failed,
        Size(served.read_bytes),
        Size(served.written_bytes)
    ));
    Ok(())
}

/// Listens at all addresses, or at the sockets of socket activation, and prints the exports.
fn listen(
    Serving { ground, .. }: &Serving<'_>,
    description: &Description<Live>,
    server: &Rc<Server>,
    places: Vec<(Address, Vec<usize>)>,
    keys: Option<&Keys>,
    trees: &BTreeMap<String, Tree>,
) -> anyhow::Result<()> {
    let mut given = ground.given().context("the sockets that were given (LISTEN_FDS)")?;
    if !given.is_empty() && given.len() != places.len() {
        bail!(
            "found {} sockets given (LISTEN_FDS), expected one for each address: {}",
            given.len(),
            places.len()
        );
    }
    let tops = trees.iter().map(|(name, tree)| (name, ByteAdapter::new(tree.top.clone())));
    let tops: BTreeMap<_, _> = tops.collect();
    for (address, numbers) in places {
        let listener = if given.is_empty() { ground.listen(&address)? } else { given.remove(0) };
        let (mut exports, mut lines) = (Vec::new(), Vec::new());
        for number in numbers {
            let asked = &description.exports[number];
            let export = offered(description, asked, &tops[&asked.top]);
            let (bytes, line) = (Size(export.info.bytes), &export.info.description);
            let how = if export.read_only { ", read-only" } else { "" };
            let uri = address.uri(&asked.name, keys.is_some());
            lines.push(format!("serving {} ({bytes}{how}, {line}) at {uri}", asked.name));
            exports.push(export);
        }
        server.listen(listener, exports, keys.cloned());
        for line in &lines {
            ground.say(line);
        }
    }
    Ok(())
}

/// The address of an export's `nbd`; a relative path is relative to the volume file.
fn address(file: &str, text: &str) -> Result<Address, AddressError> {
    Ok(match text.parse()? {
        Address::Unix(path) => Address::Unix(at(Path::new(file), &path)),
        tcp @ Address::Tcp(_) => tcp,
    })
}

/// A path in a volume file that need not exist yet: a relative one is relative to the file.
pub fn at(volume: &Path, path: &Path) -> PathBuf {
    volume.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
}

/// An export as offered to clients.
fn offered(description: &Description<Live>, asked: &description::Export, device: &Rc<ByteAdapter>) -> Export {
    let line = description.line_of(&asked.top);
    let mut export = Export::new(&asked.name, &line, device, is_read_only(description, asked));
    export.info.bytes = bytes_of(description, &asked.top, export.info.bytes);
    Export { home: home(description, &asked.top), class: asked.class, ..export }
}

/// Whether an export is read-only: by the volume file, because a component below is, or because a layer below is opened
/// in an older state.
pub fn is_read_only(description: &Description<Live>, export: &description::Export) -> bool {
    let below = description.leaves(&export.top);
    export.read_only
        || description.is_older(&export.top)
        || below.iter().filter_map(|name| description.components.get(name)).any(Live::is_read_only)
}

/// Bytes of a device of `bytes` bytes in whole sectors: at the beginning of another server's export, and of its size,
/// it ends within a sector where that does.
pub fn bytes_of(description: &Description<Live>, top: &str, bytes: u64) -> u64 {
    let (home, start) = description.home_of(top);
    let component = description.components.get(&home).filter(|_| start == Lba(0));
    let exact = component.map_or(bytes, Live::bytes);
    if exact.next_multiple_of(SECTOR_BYTES) == bytes { exact } else { bytes }
}

/// The components by name, built.
pub fn components(
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
) -> anyhow::Result<BTreeMap<String, Rc<dyn BlockDevice>>> {
    let mut components = BTreeMap::new();
    for (number, (name, component)) in (0..).zip(&description.components) {
        let component = Numbered::new(number, component.build(reactor, name, number)?);
        components.insert(name.clone(), Rc::new(component) as Rc<dyn BlockDevice>);
    }
    Ok(components)
}

/// A tree for each device that is exported.
async fn trees(
    Serving { ground, reactor, .. }: &Serving<'_>,
    description: &Description<Live>,
) -> anyhow::Result<BTreeMap<String, Tree>> {
    if description.components.values().any(Live::is_direct) {
        if let Err(error) = reactor.register() {
            ground.say(&format!("io: without registered buffers ({error}), which is slower; see ulimit -l"));
        }
    }
    let components = components(reactor, description)?;
    let mut trees = BTreeMap::new();
    for export in &description.exports {
        if !trees.contains_key(&export.top) {
            let new = |name: &str| description.components.get(name).is_some_and(Live::is_new);
            let tree = under(description, &export.top, components.clone(), Bytes::Real, &new).await;
            let tree = tree.with_context(|| format!("{}: {}", description.file, export.top))?;
            trees.insert(export.top.clone(), tree);
        }
    }
    Ok(trees)
}

/// Where the sectors of a device would be without layers.
fn home(description: &Description<Live>, top: &str) -> Option<Home> {
    let (component, start) = description.home_of(top);
    let number = description.components.keys().position(|name| *name == component)?;
    Some(Home { component: number as u32, start })
}

/// Starts the periodic reconfigurations of layers.
fn reconfigure_in_time(description: &Description<Live>, tree: &Tree, ground: Ground) {
    for (name, layer) in &tree.layers {
        let every = description.layers.get(name).and_then(|layer| layer.reconfigure);
        let Some(every) = every else { continue };
        let (name, layer) = (name.clone(), layer.clone());
        spawn(async move {
            loop {
                sleep(every).await;
                let how = Hints { class: Class::Background, ..Hints::default() };
                if let Err(error) = layer.command("reconfigure", how).await {
                    ground.say(&format!("layer.{name}: not reconfigured: {error}"));
                }
            }
        })
        .detach();
    }
}

/// A layer's counter of this name.
fn counted(layer: &dyn Layer, name: &str) -> u64 {
    layer.counters().iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}

/// Number of pages that a layer holds and the device below it does not.
fn newer_pages(layer: &dyn Layer) -> u64 {
    counted(layer, "pages_dirty")
}

/// Reports whether existing copies are served without verification.
fn tell_of_copies(description: &Description<Live>, name: &str, layer: &dyn Layer, ground: Ground) {
    let options = description.layers.get(name).map(|layer| &layer.options);
    let copies = counted(layer, "copies_not_compared");
    if copies > 0 {
        ground.say(&format!(
            "layer.{name}: nothing proves that what it lies over was not written without it: \
             {copies} copies are compared with that before they are served"
        ));
    }
    if options.and_then(|options| options.get("trust_origin")).and_then(toml::Value::as_bool) == Some(true) {
        ground.say(&format!(
            "layer.{name}: trust_origin: copies are served without a look at what they are copies of"
        ));
    }
}

/// Drains a layer, with progress messages.
async fn drain(name: &str, layer: &Rc<dyn Layer>, ground: Ground) {
    let mut drained = layer.drain_to_stop(DRAINED_WITHIN);
    loop {
        match select(drained, Box::pin(sleep(TOLD_EVERY))).await {
            Either::Left((Ok(()), _)) => return,
            // The remainder is reported when it has stopped.
            Either::Left((Err(error), _)) => {
                return ground.say(&format!("layer.{name}: not drained: {error}"));
            }
            Either::Right(((), going_on)) => {
                let left = newer_pages(&**layer);
                ground.say(&format!("layer.{name}: {left} pages ({}) to go home", Size(left * PAGE_BYTES)));
                drained = going_on;
            }
        }
    }
}

/// Stops the layers from the top down: everything acknowledged becomes durable.
async fn stop(
    description: &Description<Live>,
    tree: &Tree,
    pairs: &Pairs,
    ground: Ground,
) -> anyhow::Result<()> {
    let mut failed = None;
    for name in description.downwards(&tree.name) {
        let Some(layer) = tree.layers.get(&name) else { continue };
        drain(&name, layer, ground).await;
        let stopped = layer.stop().await;
        let left = newer_pages(&**layer);
        if left == 0 && stopped.is_ok() {
            pairs.is_home(&name, &**layer, ground);
        } else if stopped.is_ok() {
            ground.say(&format!(
                "layer.{name}: {left} pages ({}) are in this layer's own device alone: \
                 what is below it is old data without that",
                Size(left * PAGE_BYTES)
            ));
        }
        if let Err(error) = stopped {
            ground.say(&format!("layer.{name}: {error}"));
            failed = Some(error);
        }
    }
    tree.top.flush(Hints::default()).await.context("the last flush")?;
    failed.map_or(Ok(()), |error| Err(error).context("the volume did not stop clean"))
}

async fn signal(reactor: &Rc<Reactor>, signals: &Arc<OwnedFd>) {
    let _ = reactor.submit(Job::new(Op::Receive, signals, Memory::of(vec![0]))).await;
}

/// Ends the program at the next signal.
async fn at_once(reactor: Rc<Reactor>, signals: Arc<OwnedFd>, ground: Ground) {
    signal(&reactor, &signals).await;
    ground.end_at_once();
}
