//! The server's end of the control socket.

use std::rc::Rc;

use seekless_core::{Account, Hits, Layer, Meter, SECTOR_BYTES, Size, runtime};
use seekless_serve::server::{ControlReply, Server};
use serde_json::json;

use super::build::{bytes_of, is_read_only};
use super::component::Live;
use super::control::{DeviceStatus, HitStatus, LayerStatus, Question, QueueStatus, ServedExport, Status};
use super::error::LiveError;
use super::events::{Event, EventLine};
use super::history::{PastStatus, SpanStatus};
use super::metrics::metrics;
use super::models::ModelStatus;
use super::running::Running;
use super::stats::{AccessStats, IoStats};

/// See the file's header.
pub(super) struct Answerer {
    process: u32,
    server: Rc<Server>,
    running: Rc<Running>,
}

impl Answerer {
    /// Answers for this server.
    pub fn new(process: u32, server: &Rc<Server>, running: &Rc<Running>) -> Answerer {
        Answerer { process, server: server.clone(), running: running.clone() }
    }

    /// Answers a line.
    pub fn answer(&self, line: &str) -> ControlReply {
        let question = match Question::parse(line) {
            Ok(Question::Subscribe) => return self.events(),
            question => question,
        };
        let at_once = match question {
            Ok(Question::Status) => json!({ "status": self.status() }),
            Ok(Question::Metrics) => json!({ "metrics": self.metrics() }),
            _ => serde_json::Value::Null,
        };
        let running = self.running.clone();
        ControlReply::Once(Box::pin(async move {
            let done = |done: Result<(), LiveError>, what: &str| match done {
                Ok(()) => json!({ "done": what }),
                Err(error) => json!({ "error": error.to_string() }),
            };
            let answer = match question {
                Ok(Question::Tell { layer, command }) => {
                    done(running.command(&layer, &command).await, &command)
                }
                Ok(Question::Attach(attach)) => done(running.attach(attach).await, "attach"),
                Ok(Question::Detach { layer }) => done(running.detach(&layer).await, "detach"),
                Ok(Question::Replace(replace)) => match running.replace(replace).await {
                    Ok(replaced) => json!({ "replaced": replaced }),
                    Err(error) => json!({ "error": error.to_string() }),
                },
                Ok(Question::Resize { component }) => match running.resize(component.as_deref()) {
                    Ok(resized) => json!({ "resized": resized }),
                    Err(error) => json!({ "error": error.to_string() }),
                },
                Ok(Question::Snapshot { layer, what }) => {
                    match running.on_snapshot(layer.as_deref(), &what).await {
                        Ok(Some(all)) => json!({ "snapshots": all }),
                        other => done(other.map(drop), "snapshot"),
                    }
                }
                Ok(Question::Status | Question::Metrics | Question::Subscribe) => at_once,
                Err(error) => json!({ "error": error }),
            };
            answer.to_string()
        }))
    }

    /// Events from now on.
    fn events(&self) -> ControlReply {
        let first = Event::Subscribed { at_s: runtime::now().seconds() };
        let subscriber = self.running.log.events.subscribe(first);
        ControlReply::Each(Box::new(move || {
            let subscriber = subscriber.clone();
            Box::pin(
                async move { serde_json::to_string(&EventLine { event: subscriber.next().await? }).ok() },
            )
        }))
    }

    /// The status as metrics.
    pub fn metrics(&self) -> String {
        metrics(&self.status())
    }

    /// The status in a line, for a service manager.
    pub fn line(&self) -> String {
        let running = &self.running;
        let dirty: u64 = running.layers().keys().map(|layer| running.dirty_bytes(layer)).sum();
        let doing = running.doing();
        let doing =
            doing.iter().map(|doing| format!("; {} {} for {:.0} s", doing.what, doing.layer, doing.for_s));
        let doing: String = doing.collect();
        format!("{} clients, {} dirty{doing}", self.server.clients().0, Size(dirty))
    }

    fn status(&self) -> Status {
        let running = &self.running;
        let (served, (clients, clients_so_far)) = (self.server.served(), self.server.clients());
        let description = running.description.borrow();
        let blocks = |traffic: seekless_core::Traffic| traffic.blocks_read + traffic.blocks_written;
        let layer = |(name, layer): (&String, &Rc<dyn Layer>)| {
            let history = layer.history();
            LayerStatus {
                name: name.clone(),
                is: description.layers.get(name).map_or("", |layer| layer.entry.name).to_owned(),
                dirty_bytes: running.dirty_bytes(name),
                hits: layer.hits().map(|Hits { lookups, hit }| HitStatus { lookups, hit }),
                background_bytes: layer
                    .traffic(Account::default())
                    .map(|traffic| blocks(traffic.background) * SECTOR_BYTES),
                stats: self.meter(name).map(|meter| IoStats::of(&meter)),
                counters: layer
                    .counters()
                    .into_iter()
                    .map(|(name, count)| (name.to_owned(), count))
                    .collect(),
                trouble: layer.trouble(),
                history: history.past.iter().map(PastStatus::of).collect(),
                recent: SpanStatus::all(&history.spans),
            }
        };
        Status {
            file: description.file.clone(),
            process: self.process,
            io: running.reactor.kind().to_string(),
            up_s: runtime::now().seconds(),
            clients,
            clients_so_far,
            requests: served.requests,
            failed: served.failed,
            read_bytes: served.read_bytes,
            written_bytes: served.written_bytes,
            turns: running.reactor.turns(),
            components: running.numbers.borrow().clone(),
            devices: self.devices(),
            exports: self.exports(),
            layers: running.layers().iter().map(layer).collect(),
            doing: running.doing(),
        }
    }

    /// What measures the requests to a layer or device.
    fn meter(&self, name: &str) -> Option<Rc<Meter>> {
        let component = self.running.description.borrow().components.get(name).and_then(Live::meter);
        component.or_else(|| self.running.seams.borrow().switches.get(name)?.meter())
    }

    /// The components and slices that are measured.
    fn devices(&self) -> Vec<DeviceStatus> {
        let description = self.running.description.borrow();
        let names = description.components.keys().chain(description.slices.keys());
        let status = |name: &String| {
            let component = description.components.get(name);
            let queue = component.and_then(Live::queue).map(|queue| QueueStatus::of(&queue));
            let model = component.and_then(Live::model).map(ModelStatus::of);
            let stats = IoStats::of(&*self.meter(name)?);
            Some(DeviceStatus { name: name.clone(), stats, queue, model })
        };
        names.filter_map(status).collect()
    }

    fn exports(&self) -> Vec<ServedExport> {
        let description = self.running.description.borrow();
        let mut all = Vec::new();
        for (number, (export, shown)) in description.exports.iter().zip(&self.running.shown).enumerate() {
            let top = self.running.tops.get(shown);
            let sectors = top.map_or(0, |top| top.geometry().sectors);
            let (bytes, made_of) = (sectors * SECTOR_BYTES, description.line_of(&export.top));
            let served = |name: String, bytes, read_only, made_of, number: Option<usize>| ServedExport {
                name,
                nbd: export.nbd.clone().unwrap_or_default(),
                // Snapshots and clones have none.
                vhost: number.and_then(|_| export.vhost.clone()),
                bytes,
                read_only,
                made_of,
                stats: number
                    .and_then(|number| self.running.meters.get(number))
                    .map(|meter| IoStats::of(meter)),
                accesses: number
                    .and_then(|number| self.running.accesses.get(number))
                    .map(|accesses| AccessStats::of(accesses)),
            };
            let size = bytes_of(&description, &export.top, bytes);
            all.push(served(
                export.name.clone(),
                size,
                is_read_only(&description, export),
                made_of.clone(),
                Some(number),
            ));
            for view in top.map_or_else(Vec::new, |top| top.views()) {
                let name = format!("{}@{}", export.name, view.name);
                let kind = if view.is_clone { "clone" } else { "snapshot" };
                let read_only = !view.is_clone || is_read_only(&description, export);
                all.push(served(name, bytes, read_only, format!("a {kind} of {made_of}"), None));
            }
        }
        all
    }
}
