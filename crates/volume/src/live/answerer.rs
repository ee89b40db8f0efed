//! The server's end of the control socket.

use std::rc::Rc;

use seekless_core::{SECTOR_BYTES, runtime};
use seekless_serve::server::{ControlReply, Server};
use serde_json::json;

use super::build::{bytes_of, is_read_only};
use super::control::{LayerStatus, Question, ServedExport, Status};
use super::error::LiveError;
use super::events::Event;
use super::running::Running;

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
        let status = matches!(question, Ok(Question::Status)).then(|| json!({ "status": self.status() }));
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
                Ok(Question::Snapshot { layer, what }) => {
                    match running.on_snapshot(layer.as_deref(), &what).await {
                        Ok(Some(all)) => json!({ "snapshots": all }),
                        other => done(other.map(drop), "snapshot"),
                    }
                }
                Ok(Question::Status | Question::Subscribe) => status.unwrap_or_default(),
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
            Box::pin(async move { Some(json!({ "event": subscriber.next().await? }).to_string()) })
        }))
    }

    fn status(&self) -> Status {
        let running = &self.running;
        let (served, (clients, clients_so_far)) = (self.server.served(), self.server.clients());
        let description = running.description.borrow();
        let layer = |(name, layer): (&String, &Rc<dyn seekless_core::Layer>)| LayerStatus {
            name: name.clone(),
            is: description.layers.get(name).map_or("", |layer| layer.entry.name).to_owned(),
            dirty_bytes: running.dirty_bytes(name),
            counters: layer.counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
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
            exports: self.exports(),
            layers: running.layers().iter().map(layer).collect(),
            doing: running.log.all(|layer| running.dirty_bytes(layer)),
        }
    }

    fn exports(&self) -> Vec<ServedExport> {
        let description = self.running.description.borrow();
        let mut all = Vec::new();
        for (export, shown) in description.exports.iter().zip(&self.running.shown) {
            let top = self.running.tops.get(shown);
            let sectors = top.map_or(0, |top| top.geometry().sectors);
            let (bytes, made_of) = (sectors * SECTOR_BYTES, description.line_of(&export.top));
            let served = |name: String, bytes, read_only, made_of| ServedExport {
                name,
                nbd: export.nbd.clone().unwrap_or_default(),
                bytes,
                read_only,
                made_of,
            };
            let size = bytes_of(&description, &export.top, bytes);
            all.push(served(export.name.clone(), size, is_read_only(&description, export), made_of.clone()));
            for view in top.map_or_else(Vec::new, |top| top.views()) {
                let name = format!("{}@{}", export.name, view.name);
                all.push(served(name, bytes, true, format!("a snapshot of {made_of}")));
            }
        }
        all
    }
}
