//! The server of a volume file, from its first component to its clean stop.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use seekless_core::runtime::{Task, now, sleep, spawn};
use seekless_core::{Nanos, Size};
use seekless_serve::reactor::{Job, Kind, Memory, Op, Reactor};
pub use seekless_serve::server::Address;
use seekless_serve::server::{
    AddressError, ByteAdapter, CLIENTS, Export, Listener, OriginPlace, Server, control, metrics,
};
use seekless_serve::wire::Keys;
use seekless_serve::{notify, signals};

use super::answerer::Answerer;
use super::build::{bytes_of, drawn_seed, is_read_only, runtime_of};
use super::component::Live;
use super::control::control_path;
use super::environment::Environment;
use super::error::{At, LiveError};
use super::events::Event;
use super::inputs;
use super::machines;
use super::pairs;
use super::running::Running;
use crate::component::existing_path;
use crate::description::{self, Description, Tls};
use crate::file;

/// Messages to a watchdog in the time after which it gives the program up.
const WATCHDOG_MESSAGES: u64 = 3;

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
    /// Whether its inputs are recorded.
    pub recorded: bool,
}

/// Where clients and signals to stop arrive.
pub(super) struct Doors {
    /// Addresses, each with the indices of its exports.
    pub addresses: Vec<(Address, Vec<usize>)>,
    /// Sockets for virtual machines, each with the index of its export.
    pub machines: Vec<(Address, usize)>,
    pub keys: Option<Keys>,
    /// Sockets for the addresses that were passed to the process; none: they are made.
    pub sockets: Vec<Listener>,
    /// Receives a byte for each signal.
    pub signals: Arc<OwnedFd>,
}

/// A volume file that was read, and nothing opened.
pub(super) struct Prepared<'a> {
    request: Request<'a>,
    description: Description<Live>,
    text: String,
    pub doors: Doors,
}

/// Reads a volume file; signals are kept for it from now on.
pub(super) fn prepare<'a>(request: &Request<'a>) -> Result<Prepared<'a>, LiveError> {
    let (description, text): (Description<Live>, _) = file::read_text_of(request.volume)?;
    let addresses = addresses(&description, request.allow_plain_tcp)?;
    let machines = machines::sockets(&description, &addresses)?;
    let keys = keys(&description)?;
    let signals = signals::listen().at(|| "signals")?;
    let doors = Doors { addresses, machines, keys, sockets: Vec::new(), signals };
    Ok(Prepared { request: *request, description, text, doors })
}

impl Prepared<'_> {
    /// Serves its exports in this thread until a signal to stop arrives.
    pub fn serve(self, environment: Environment) -> Result<(), LiveError> {
        let Prepared { request, description, text, doors } = self;
        let seed = drawn_seed().at(|| "/dev/urandom")?;
        let (mut reactor, refused) = Reactor::start(request.io).at(|| "io")?;
        let why = refused.map_or(String::new(), |error| format!(" (no io_uring: {error})"));
        environment.info(&format!("io: {}{why}", reactor.kind()));
        if let Some(file) = request.log_inputs {
            if doors.keys.is_some() || description.components.values().any(Live::is_encrypted) {
                return Err(LiveError::new(format!(
                    "--log-inputs: found tls in {}, whose secrets no replay has; expected none",
                    description.file
                )));
            }
            if let Some((address, _)) = doors.machines.first() {
                return Err(LiveError::new(format!(
                    "--log-inputs: found a virtual machine's socket, {address}, in {}; no replay has the memory of a \
                     machine, expected none",
                    description.file
                )));
            }
            let lost = move |line: &str| environment.error(line);
            let recorder = inputs::record(file, request.volume, &description, (reactor.kind(), seed), lost)?;
            reactor = reactor.recorded(recorder);
        }
        let reactor = Rc::new(reactor);
        let runtime = runtime_of(&reactor, seed);
        let serving = Serving {
            volume: request.volume,
            environment,
            process: std::process::id(),
            reactor: &reactor,
            recorded: request.log_inputs.is_some(),
        };
        let work = serve(&serving, description, text, doors);
        let served = runtime.run_live(work, &*reactor).at(|| request.volume.display())?;
        reactor.end(runtime.event_hash());
        served
    }
}

/// Reads certificates and keys, if the volume file names any.
fn keys(description: &Description<Live>) -> Result<Option<Keys>, LiveError> {
    let Some(Tls { certificate, key, clients }) = description.tls.clone() else { return Ok(None) };
    let [certificate, key, clients] =
        [certificate, key, clients].map(|path| existing_path(&description.file, path));
    let keys = Keys::read(&certificate, &key, &clients);
    keys.map(Some).map_err(|error| LiveError::new(format!("{}: tls.{error}", description.file)))
}

/// Where metrics are served over HTTP, if anywhere.
fn metrics_address(description: &Description<Live>) -> Result<Option<Address>, LiveError> {
    let Some(text) = &description.metrics else { return Ok(None) };
    let key = || format!("{}: metrics", description.file);
    let address = address(&description.file, text).at(key)?;
    if !address.is_local() {
        return Err(LiveError::new(format!(
            "{}: found {address}, which other machines reach without a password, expected a loopback address such as \
             tcp:127.0.0.1:9464",
            key()
        )));
    }
    Ok(Some(address))
}

/// Addresses to listen at, each with the indices of its exports.
///
/// # Errors
/// An export without an address and without a socket for a virtual machine, an address that other machines reach
/// without encryption unless `plain`, or two exports of one name at one address.
pub fn addresses(
    description: &Description<Live>,
    plain: bool,
) -> Result<Vec<(Address, Vec<usize>)>, LiveError> {
    let mut addresses: Vec<(Address, Vec<usize>)> = Vec::new();
    for (number, export) in description.exports.iter().enumerate() {
        let key = format!("{}: export.{}", description.file, export.name);
        let Some(text) = &export.nbd else {
            if export.vhost.is_some() {
                continue;
            }
            return Err(LiveError::new(format!(
                "{key}: found no nbd and no vhost, expected where to listen for clients"
            )));
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
    description: Description<Live>,
    text: String,
    doors: Doors,
) -> Result<(), LiveError> {
    let Serving { environment, reactor, .. } = *serving;
    let (signals, encrypted) = (doors.signals.clone(), doors.keys.is_some());
    let pairs = pairs::look(serving.volume, &description, environment)?;
    let (exports, clients) = (description.exports.clone(), description.clients);
    let control_at = control_path(serving.volume, description.control.as_deref());
    let metrics_at = metrics_address(&description)?;
    let file = description.file.clone();
    let running = Running::open(serving, description, text, pairs).await?;
    let clients = clients.map_or(CLIENTS, |clients| clients.get() as usize);
    environment.room_for(clients);
    let server = Server::new(reactor, clients, move |line| environment.warn(line));
    let answerer = Rc::new(Answerer::new(serving.process, &server, &running));
    let listener = environment.listen(&Address::Unix(control_at))?;
    control(reactor, listener, {
        let answerer = answerer.clone();
        move |line| answerer.answer(&line)
    });
    if let Some(address) = metrics_at {
        let (listener, answerer) = (environment.listen(&address)?, answerer.clone());
        metrics(reactor, listener, move || answerer.metrics());
        environment.info(&format!("metrics at {address}"));
    }
    listen(serving, &running, &server, doors)?;
    let uri = exports
        .first()
        .and_then(|export| Some(address(&file, export.nbd.as_ref()?).ok()?.uri(&export.name, encrypted)));
    let try_it = uri.map_or(String::new(), |uri| format!("try: nbdinfo '{uri}'; "));
    environment.info(&format!("{try_it}stop with Ctrl-C"));
    environment.notify(&format!("READY=1\nSTATUS={}", answerer.line()));
    let alive = watchdog(reactor, environment, &answerer);
    signal(reactor, &signals).await;
    environment.notify("STOPPING=1\nSTATUS=stopping: dirty pages are drained");
    environment.info("stopping; a second signal ends it at once");
    spawn(abort_at_signal(reactor.clone(), signals, environment)).detach();
    running.log.events.put(&Event::Stopping { at_s: now().seconds() });
    server.stop().await;
    running.stop().await?;
    drop(alive);
    let served = server.served();
    environment.info(&format!(
        "stopped: {} requests answered, {} of them with an error; {} read, {} written",
        served.requests,
        served.failed,
        Size(served.read_bytes),
        Size(served.written_bytes)
    ));
    Ok(())
}

/// Listens at all addresses, on passed sockets if there are any, and reports each export.
fn listen(
    Serving { environment, .. }: &Serving<'_>,
    running: &Running,
    server: &Rc<Server>,
    Doors { addresses, machines, keys, sockets, .. }: Doors,
) -> Result<(), LiveError> {
    let mut sockets = sockets.into_iter();
    let description = &*running.description.borrow();
    let tops = running.tops.iter().map(|(name, top)| (name, ByteAdapter::new(top.clone())));
    let tops: BTreeMap<_, _> = tops.collect();
    let metered = |number: usize| {
        let described = &description.exports[number];
        let export = export(description, described, &tops[&described.top]);
        let (meter, accesses) = (running.meters[number].clone(), running.accesses[number].clone());
        Export { meter, accesses, ..export }
    };
    for (address, numbers) in addresses {
        let listener = sockets.next().map_or_else(|| environment.listen(&address), Ok)?;
        let (mut exports, mut lines) = (Vec::new(), Vec::new());
        for number in numbers {
            let export = metered(number);
            let uri = address.uri(&export.info.name, keys.is_some());
            lines.push(format!("serving {} at {uri}", line(&export)));
            exports.push(export);
        }
        server.listen(listener, exports, keys.clone());
        for line in &lines {
            environment.info(line);
        }
    }
    for (address, number) in machines {
        let (listener, export) = (environment.listen(&address)?, metered(number));
        let line = format!("serving {} to a virtual machine at {address}", line(&export));
        server.listen_for_machine(listener, export);
        environment.info(&line);
    }
    Ok(())
}

/// An export in a line.
fn line(export: &Export) -> String {
    let (info, how) = (&export.info, if export.read_only { ", read-only" } else { "" });
    format!("{} ({}{how}, {})", info.name, Size(info.bytes), info.description)
}

/// The address of an export's `nbd` or `vhost` key; a relative path is relative to the volume file.
pub(super) fn address(file: &str, text: &str) -> Result<Address, AddressError> {
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
    let (component, start) = description.origin_of(top)?;
    let number = description.components.keys().position(|name| *name == component)?;
    Some(OriginPlace { component: number as u32, start })
}

/// Tells the service manager that the volume's thread is alive and what it does, as often as the manager wants to hear
/// it, until it is dropped.
fn watchdog(reactor: &Rc<Reactor>, environment: Environment, answerer: &Rc<Answerer>) -> Option<Task<()>> {
    let wanted = || notify::watchdog().map_or(0, |interval| interval.as_nanos() as u64);
    let wanted = reactor.observe(|| wanted().to_le_bytes().to_vec());
    let interval = wanted.try_into().map_or(0, u64::from_le_bytes) / WATCHDOG_MESSAGES;
    let answerer = answerer.clone();
    (interval > 0).then(|| {
        spawn(async move {
            loop {
                environment.notify(&format!("WATCHDOG=1\nSTATUS={}", answerer.line()));
                sleep(Nanos(interval)).await;
            }
        })
    })
}

async fn signal(reactor: &Rc<Reactor>, signals: &Arc<OwnedFd>) {
    let _ = reactor.submit(Job::new(Op::Receive, signals, Memory::of(vec![0]))).await;
}

/// Ends the process at the next signal.
async fn abort_at_signal(reactor: Rc<Reactor>, signals: Arc<OwnedFd>, environment: Environment) {
    signal(&reactor, &signals).await;
    environment.abort();
}
