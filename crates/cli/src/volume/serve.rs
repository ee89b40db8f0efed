//! `seekless volume serve`: builds the volumes of a file and serves their exports by NBD.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use seekless_core::runtime::{Runtime, sleep, spawn};
use seekless_core::{Class, Hints, SECTOR_BYTES, Size};
use seekless_lab::description::Description;
use seekless_lab::volume::{Bytes, Tree, under};
use seekless_lab::volume_file;
use seekless_serve::reactor::{Job, Kind, Memory, Reactor, What};
use seekless_serve::server::{Address, Export, Listener, Server, control};
use seekless_serve::signals;

use super::component::Live;
use super::status::{self, Told};
use crate::output;

/// Examples.
pub const HELP: &str = "\
Examples:
  seekless volume serve home.toml
  seekless volume serve home.toml --io threads

A volume file that serves a file of yours, with nothing in between:
  [component.disk]
  file = \"disk.img\"

  [[export]]
  top = \"disk\"
  nbd = \"unix:/tmp/disk.sock\"

Then:
  qemu-img info 'nbd+unix:///disk?socket=/tmp/disk.sock'";

/// What is served, and how.
#[derive(Args)]
pub struct Arguments {
    /// The volume
    #[arg(value_name = "VOLUME.toml")]
    volume: PathBuf,
    /// How files and sockets are waited for; by default `io_uring` where the kernel allows it
    #[arg(long, value_name = "HOW")]
    io: Option<Io>,
    /// Lets TCP without encryption be reached from other machines
    #[arg(long)]
    allow_plain_tcp: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Io {
    #[value(name = "io_uring")]
    Uring,
    Threads,
}

/// Serves until it is told to stop.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let wish = arguments.io.map(|io| match io {
        Io::Uring => Kind::Uring,
        Io::Threads => Kind::Threads,
    });
    let description: Description<Live> = volume_file::read_of(&arguments.volume)?;
    let places = places(&description, arguments.allow_plain_tcp)?;
    let (reactor, refused) = Reactor::start(wish).context("io")?;
    let why = refused.map_or(String::new(), |error| format!(" (no io_uring: {error})"));
    output::complain(&format!("io: {}{why}", reactor.kind()));
    let runtime = Runtime::new(1);
    runtime.run_live(serve(arguments, &reactor, &description, places), &*reactor)?
}

/// The addresses to listen at, each with the numbers of its exports.
fn places(description: &Description<Live>, plain: bool) -> anyhow::Result<Vec<(Address, Vec<usize>)>> {
    let mut places: Vec<(Address, Vec<usize>)> = Vec::new();
    for (number, export) in description.exports.iter().enumerate() {
        let key = format!("{}: export.{}", description.file, export.name);
        let Some(text) = &export.nbd else {
            bail!("{key}: found no nbd, expected where to listen for clients")
        };
        let address: Address = text.parse().with_context(|| format!("{key}.nbd"))?;
        if !address.is_local() && !plain {
            bail!(
                "{key}.nbd: found {address}, which other machines reach and anyone there may read and write; \
                 expected a loopback address, or --allow-plain-tcp"
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

async fn serve(
    arguments: &Arguments,
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
    places: Vec<(Address, Vec<usize>)>,
) -> anyhow::Result<()> {
    let signals = signals::listen().context("signals")?;
    let trees = trees(reactor, description).await?;
    let trees = Rc::new(trees);
    for tree in trees.values() {
        reconfigure_in_time(description, tree);
    }
    let server = Server::new(reactor, output::complain);
    let place = status::socket(&arguments.volume, description.control.as_deref());
    let told = Told::new(reactor, description, &server, &trees);
    control(reactor, Listener::bind(&Address::Unix(place))?, move |line| told.answer(&line));
    let mut given = Listener::activated().context("the sockets that were given (LISTEN_FDS)")?;
    if !given.is_empty() && given.len() != places.len() {
        bail!(
            "found {} sockets given (LISTEN_FDS), expected one for each address: {}",
            given.len(),
            places.len()
        );
    }
    for (address, numbers) in places {
        let mut exports = Vec::new();
        for number in numbers {
            let export = &description.exports[number];
            let line = description.line_of(&export.top);
            let device = trees[&export.top].top.clone();
            let bytes = Size(device.geometry().sectors * SECTOR_BYTES);
            exports.push(Export::new(&export.name, &line, device, export.read_only));
            output::complain(&format!(
                "serving {} ({bytes}, {line}) at {}",
                export.name,
                address.uri(&export.name)
            ));
        }
        let listener = if given.is_empty() { Listener::bind(&address)? } else { given.remove(0) };
        server.listen(listener, exports);
    }
    let uri = description
        .exports
        .first()
        .and_then(|export| Some(export.nbd.as_ref()?.parse::<Address>().ok()?.uri(&export.name)));
    output::complain(&format!("try: nbdinfo '{}'; stop with Ctrl-C", uri.unwrap_or_default()));
    signal(reactor, &signals).await;
    output::complain("stopping; a second signal ends it at once");
    spawn(at_once(reactor.clone(), signals)).detach();
    server.stop().await;
    for tree in trees.values() {
        stop(description, tree).await?;
    }
    let served = server.served();
    output::complain(&format!(
        "stopped: {} requests answered, {} of them with an error; {} read, {} written",
        served.requests,
        served.failed,
        Size(served.read_bytes),
        Size(served.written_bytes)
    ));
    Ok(())
}

/// A tree for each device that clients see.
async fn trees(
    reactor: &Rc<Reactor>,
    description: &Description<Live>,
) -> anyhow::Result<BTreeMap<String, Tree>> {
    let mut components = BTreeMap::new();
    for ((name, component), number) in description.components.iter().zip(0..) {
        components.insert(name.clone(), component.build(reactor, name, number)?);
    }
    let mut trees = BTreeMap::new();
    for export in &description.exports {
        if !trees.contains_key(&export.top) {
            let tree = under(description, &export.top, components.clone(), Bytes::Real).await;
            let tree = tree.with_context(|| format!("{}: {}", description.file, export.top))?;
            trees.insert(export.top.clone(), tree);
        }
    }
    Ok(trees)
}

/// Layers that are to be reconfigured every so often are.
fn reconfigure_in_time(description: &Description<Live>, tree: &Tree) {
    for (name, layer) in &tree.layers {
        let every = description.layers.get(name).and_then(|layer| layer.reconfigure);
        let Some(every) = every else { continue };
        let (name, layer) = (name.clone(), layer.clone());
        spawn(async move {
            loop {
                sleep(every).await;
                let how = Hints { class: Class::Background, ..Hints::default() };
                if let Err(error) = layer.command("reconfigure", how).await {
                    output::complain(&format!("layer.{name}: not reconfigured: {error}"));
                }
            }
        })
        .detach();
    }
}

/// Everything acknowledged is durable, layer by layer from the top down.
async fn stop(description: &Description<Live>, tree: &Tree) -> anyhow::Result<()> {
    let mut failed = None;
    for name in description.downwards(&tree.name) {
        let stopped = match tree.layers.get(&name) {
            Some(layer) => layer.stop().await,
            None => continue,
        };
        if let Err(error) = stopped {
            output::complain(&format!("layer.{name}: {error}"));
            failed = Some(error);
        }
    }
    tree.top.flush(Hints::default()).await.context("the last flush")?;
    failed.map_or(Ok(()), |error| Err(error).context("the volume did not stop clean"))
}

async fn signal(reactor: &Rc<Reactor>, signals: &Arc<OwnedFd>) {
    let _ = reactor.ask(Job::new(What::Receive, signals, Memory::of(vec![0]))).await;
}

/// Ends the program at the next signal.
async fn at_once(reactor: Rc<Reactor>, signals: Arc<OwnedFd>) {
    signal(&reactor, &signals).await;
    output::complain("stopped at once: what was not flushed may be lost, as in a crash");
    std::process::exit(1);
}
