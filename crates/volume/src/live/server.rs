//! The server of a volume file, from its first component to its clean stop.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use seekless_core::runtime::{sleep, spawn};
use seekless_core::{Hints, Layer, Nanos, PAGE_BYTES, Size};
use seekless_layers::schedule::reconfigure_every;
use seekless_serve::reactor::{Job, Kind, Memory, Op, Reactor};
pub use seekless_serve::server::Address;
use seekless_serve::server::{AddressError, ByteAdapter, CLIENTS, Export, OriginPlace, Server, control};
use seekless_serve::wire::Keys;

use super::build::{bytes_of, components, is_read_only, runtime, trees};
use super::component::Live;
use super::control::{Answerer, control_path};
use super::environment::{Environment, Program};
use super::error::{At, LiveError};
use super::inputs;
use super::pairs::{self, Pairs};
use crate::component::existing_path;
use crate::description::{self, Description, Tls};
use crate::file;
use crate::tree::Tree;

/// Longest drain before a layer is stopped: service managers wait for 90 s.
const DRAIN_LIMIT: Nanos = Nanos::from_millis(60_000);
/// Interval of progress messages of a drain.
const PROGRESS_INTERVAL: Nanos = Nanos::from_millis(2_000);

/// A request to serve a volume file.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The volume file.
    pub volume: &'a Path,
    /// How to wait for files and sockets; `None`: `io_uring` where the kernel allows it.
    pub io: Option<Kind>,
    /// Allow TCP addresses without encryption that other machines can reach.
    pub allow_plain_tcp: bool,
    /// Record all inputs in this file.
    pub log_inputs: Option<&'a Path>,
}

/// A server and its environment.
#[derive(Clone, Copy)]
pub struct Serving<'a> {
    /// The volume file.
    pub volume: &'a Path,
    /// The environment.
    pub environment: Environment,
    /// Process number.
    pub process: u32,
    /// The reactor.
    pub reactor: &'a Rc<Reactor>,
}

/// Serves the exports of a volume file until a signal to stop arrives.
///
/// # Errors
/// A file that is no volume, a device in use, an address that cannot be bound, or a stop that was not clean.
pub fn serve_volume(request: &Request<'_>, program: Program) -> Result<(), LiveError> {
    let description: Description<Live> = file::read_of(request.volume)?;
    let addresses = addresses(&description, request.allow_plain_tcp)?;
    let keys = keys(&description)?;
    let (mut reactor, refused) = Reactor::start(request.io).at(|| "io")?;
    let why = refused.map_or(String::new(), |error| format!(" (no io_uring: {error})"));
    (program.print)(&format!("io: {}{why}", reactor.kind()));
    if let Some(file) = request.log_inputs {
        if keys.is_some() || description.components.values().any(Live::is_encrypted) {
            return Err(LiveError::new(format!(
                "--log-inputs: found tls in {}, whose secrets no replay has; expected none",
                description.file
            )));
        }
        let recorder = inputs::record(file, request.volume, &description, reactor.kind(), program.print)?;
        reactor = reactor.recorded(recorder);
    }
    let reactor = Rc::new(reactor);
    let runtime = runtime(&reactor);
    let serving = Serving {
        volume: request.volume,
        environment: Environment::Live(program),
        process: std::process::id(),
        reactor: &reactor,
    };
    let work = serve(&serving, &description, addresses, keys);
    let served = runtime.run_live(work, &*reactor).at(|| &description.file)?;
    reactor.end(runtime.event_hash());
    served
}

/// Reads certificates and keys, if the volume file names any.
fn keys(description: &Description<Live>) -> Result<Option<Keys>, LiveError> {
    let Some(Tls { certificate, key, clients }) = description.tls.clone() else { return Ok(None) };
    let [certificate, key, clients] =
        [certificate, key, clients].map(|path| existing_path(&description.file, path));
    let keys = Keys::read(&certificate, &key, &clients);
    keys.map(Some).map_err(|error| LiveError::new(format!("{}: tls.{error}", description.file)))
}

/// Addresses to listen at, each with the indices of its exports.
///
/// # Errors
/// An export without an address, an address that other machines reach without encryption unless `plain`, or two exports of
/// one name at one address.
pub fn addresses(
    description: &Description<Live>,
    plain: bool,
) -> Result<Vec<(Address, Vec<usize>)>, LiveError> {
    let mut addresses: Vec<(Address, Vec<usize>)> = Vec::new();
    for (number, export) in description.exports.iter().enumerate() {
        let key = format!("{}: export.{}", description.file, export.name);
        let Some(text) = &export.nbd else {
            return Err(LiveError::new(format!("{key}: found no nbd, expected where to listen for clients")));
        };
        let address = address(&description.file, text).at(|| format!("{key}.nbd"))?;
        if !address.is_local() && !plain && description.tls.is_none() {
            return Err(LiveError::new(format!(
                "{key}.nbd: found {address}, which other machines reach and anyone there may read and write; \
                 expected a loopback address, tls = {{...}} in the file, or --allow-plain-tcp"
            )));
        }
        let known = addresses.iter().position(|(other, _)| *other == address);
        let known = known.unwrap_or_else(|| {
            addresses.push((address, Vec::new()));
            addresses.len() - 1
        });
        let here = &mut addresses[known].1;
        if here.iter().any(|other| description.exports[*other].name == export.name) {
            return Err(LiveError::new(format!(
                "{key}: found two exports of this name at {text}, expected a name = \"...\" of its own for each"
            )));
        }
        here.push(number);
    }
    Ok(addresses)
}

/// Serves until a signal to stop arrives.
pub(super) async fn serve(
    serving: &Serving<'_>,
    description: &Description<Live>,
    addresses: Vec<(Address, Vec<usize>)>,
    keys: Option<Keys>,
) -> Result<(), LiveError> {
    let Serving { environment, reactor, .. } = *serving;
    let signals = environment.signals().at(|| "signals")?;
    let pairs = pairs::look(serving.volume, description, environment)?;
    let trees = open(serving, description).await?;
    trees.values().try_for_each(|tree| pairs.check(&description.file, &tree.layers))?;
    for tree in trees.values() {
        pairs.write(&tree.layers, environment);
        let report = |(name, layer): (&String, &Rc<dyn Layer>)| {
            report_copies(description, name, &**layer, environment);
        };
        tree.layers.iter().for_each(report);
    }
    let trees = Rc::new(trees);
    for tree in trees.values() {
        reconfigure_periodically(description, tree, environment);
    }
    let clients = description.clients.map_or(CLIENTS, |clients| clients.get() as usize);
    environment.room_for(clients);
    let server = Server::new(reactor, clients, move |line| environment.print(line));
    let path = control_path(serving.volume, description.control.as_deref());
    let answerer = Answerer::new(serving, description, &server, &trees);
    let listener = environment.listen(&Address::Unix(path))?;
    control(reactor, listener, move |line| answerer.answer(&line));
    listen(serving, description, &server, addresses, keys.as_ref(), &trees)?;
    let uri = description.exports.first().and_then(|export| {
        Some(address(&description.file, export.nbd.as_ref()?).ok()?.uri(&export.name, keys.is_some()))
    });
    environment.print(&format!("try: nbdinfo '{}'; stop with Ctrl-C", uri.unwrap_or_default()));
    signal(reactor, &signals).await;
    environment.print("stopping; a second signal ends it at once");
    spawn(abort_at_signal(reactor.clone(), signals, environment)).detach();
    server.stop().await;
    for tree in trees.values() {
        stop(description, tree, &pairs, environment).await?;
    }
    let served = server.served();
    environment.print(&format!(
        "stopped: {} requests answered, {} of them with an error; {} read, {} written",
        served.requests,
        served.failed,
        Size(served.read_bytes),
        Size(served.written_bytes)
    ));
    Ok(())
}

/// Opens the components and builds a tree for each device that clients see.
async fn open(
    Serving { environment, reactor, .. }: &Serving<'_>,
    description: &Description<Live>,
) -> Result<BTreeMap<String, Tree>, LiveError> {
    if description.components.values().any(Live::is_direct) {
        if let Err(error) = reactor.register() {
            environment
                .print(&format!("io: without registered buffers ({error}), which is slower; see ulimit -l"));
        }
    }
    let components = components(reactor, description)?;
    trees(description, &components).await
}

/// Listens at all addresses, on passed sockets if there are any, and reports each export.
fn listen(
    Serving { environment, .. }: &Serving<'_>,
    description: &Description<Live>,
    server: &Rc<Server>,
    addresses: Vec<(Address, Vec<usize>)>,
    keys: Option<&Keys>,
    trees: &BTreeMap<String, Tree>,
) -> Result<(), LiveError> {
    let mut given = environment.activated_sockets().at(|| "the inherited sockets (LISTEN_FDS)")?;
    if !given.is_empty() && given.len() != addresses.len() {
        return Err(LiveError::new(format!(
            "found {} sockets given (LISTEN_FDS), expected one for each address: {}",
            given.len(),
            addresses.len()
        )));
    }
    let tops = trees.iter().map(|(name, tree)| (name, ByteAdapter::new(tree.top.clone())));
    let tops: BTreeMap<_, _> = tops.collect();
    for (address, numbers) in addresses {
        let listener = if given.is_empty() { environment.listen(&address)? } else { given.remove(0) };
        let (mut exports, mut lines) = (Vec::new(), Vec::new());
        for number in numbers {
            let described = &description.exports[number];
            let export = export(description, described, &tops[&described.top]);
            let (bytes, line) = (Size(export.info.bytes), &export.info.description);
            let how = if export.read_only { ", read-only" } else { "" };
            let uri = address.uri(&described.name, keys.is_some());
            lines.push(format!("serving {} ({bytes}{how}, {line}) at {uri}", described.name));
            exports.push(export);
        }
        server.listen(listener, exports, keys.cloned());
        for line in &lines {
            environment.print(line);
        }
    }
    Ok(())
}

/// The address of an export's `nbd` key; a relative path is relative to the volume file.
fn address(file: &str, text: &str) -> Result<Address, AddressError> {
    Ok(match text.parse()? {
        Address::Unix(path) => Address::Unix(relative_path(Path::new(file), &path)),
        tcp @ Address::Tcp(_) => tcp,
    })
}

/// A path in a volume file to something that need not exist yet; relative to the file.
pub(super) fn relative_path(volume: &Path, path: &Path) -> PathBuf {
    volume.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
}

/// An export as clients see it.
fn export(
    description: &Description<Live>,
    described: &description::Export,
    device: &Rc<ByteAdapter>,
) -> Export {
    let line = description.line_of(&described.top);
    let mut export = Export::new(&described.name, &line, device, is_read_only(description, described));
    export.info.bytes = bytes_of(description, &described.top, export.info.bytes);
    Export { origin: place_without_layers(description, &described.top), class: described.class, ..export }
}

/// Where the sectors of a device would be without layers.
fn place_without_layers(description: &Description<Live>, top: &str) -> Option<OriginPlace> {
    let (component, start) = description.origin_of(top);
    let number = description.components.keys().position(|name| *name == component)?;
    Some(OriginPlace { component: number as u32, start })
}

/// Starts the periodic reconfiguration of layers that have an interval.
fn reconfigure_periodically(description: &Description<Live>, tree: &Tree, environment: Environment) {
    for (name, layer) in &tree.layers {
        let interval = description.layers.get(name).and_then(|layer| layer.reconfigure);
        let Some(interval) = interval else { continue };
        let name = name.clone();
        let report = move |result: Result<_, _>| {
            if let Err(error) = result {
                environment.print(&format!("layer.{name}: not reconfigured: {error}"));
            }
        };
        reconfigure_every(layer.clone(), interval, report).detach();
    }
}

/// Value of a layer's counter; 0 if it has none of this name.
fn counter(layer: &dyn Layer, name: &str) -> u64 {
    layer.counters().iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
}

/// Number of pages whose only current version the layer holds.
fn dirty_pages(layer: &dyn Layer) -> u64 {
    counter(layer, "pages_dirty")
}

/// Reports clean copies that are compared before use, or that are trusted unseen.
fn report_copies(description: &Description<Live>, name: &str, layer: &dyn Layer, environment: Environment) {
    let options = description.layers.get(name).map(|layer| &layer.options);
    let copies = counter(layer, "copies_not_compared");
    if copies > 0 {
        environment.print(&format!(
            "layer.{name}: the device below may have been written without this layer: \
             {copies} copies are compared with it before they are served"
        ));
    }
    if options.and_then(|options| options.get("trust_origin")).and_then(toml::Value::as_bool) == Some(true) {
        environment.print(&format!("layer.{name}: trust_origin: copies are served without being compared"));
    }
}

/// Drains a layer before it is stopped, and reports progress.
async fn drain(name: &str, layer: &Rc<dyn Layer>, environment: Environment) {
    let mut drained = layer.drain_to_stop(DRAIN_LIMIT);
    loop {
        match select(drained, Box::pin(sleep(PROGRESS_INTERVAL))).await {
            Either::Left((Ok(()), _)) => return,
            // The stop reports what remains.
            Either::Left((Err(error), _)) => {
                return environment.print(&format!("layer.{name}: not drained: {error}"));
            }
            Either::Right(((), going_on)) => {
                let left = dirty_pages(&**layer);
                let bytes = Size(left * PAGE_BYTES);
                environment.print(&format!("layer.{name}: {left} dirty pages ({bytes}) left to drain"));
                drained = going_on;
            }
        }
    }
}

/// Stops the layers of a tree, from the top down: everything acknowledged is durable afterwards.
async fn stop(
    description: &Description<Live>,
    tree: &Tree,
    pairs: &Pairs,
    environment: Environment,
) -> Result<(), LiveError> {
    let mut failed = None;
    for name in description.downwards(&tree.name) {
        let Some(layer) = tree.layers.get(&name) else { continue };
        drain(&name, layer, environment).await;
        let stopped = layer.stop().await;
        let left = dirty_pages(&**layer);
        if left == 0 && stopped.is_ok() {
            pairs.set_clean(&name, &**layer, environment);
        } else if stopped.is_ok() {
            environment.print(&format!(
                "layer.{name}: {left} pages ({}) are on this layer's own device only: \
                 without it, the device below holds stale data",
                Size(left * PAGE_BYTES)
            ));
        }
        if let Err(error) = stopped {
            environment.print(&format!("layer.{name}: {error}"));
            failed = Some(error);
        }
    }
    tree.top.flush(Hints::default()).await.at(|| "the last flush")?;
    failed.map_or(Ok(()), |error| Err(error).at(|| "the volume did not stop clean"))
}

async fn signal(reactor: &Rc<Reactor>, signals: &Arc<OwnedFd>) {
    let _ = reactor.submit(Job::new(Op::Receive, signals, Memory::of(vec![0]))).await;
}

/// Ends the process at the next signal.
async fn abort_at_signal(reactor: Rc<Reactor>, signals: Arc<OwnedFd>, environment: Environment) {
    signal(&reactor, &signals).await;
    environment.abort();
}
