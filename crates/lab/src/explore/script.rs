//! The requests of a run that is explored, and who asks them.
//!
//! They are a list, so that some can be left out: what fails is reduced to the few that matter. A number of
//! clients take the next of the list when their last is answered; after an error they go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::runtime::{self, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Flags, Hints, Op, Zeroes};

use super::log::{Event, Shared};
use crate::LabError;
use crate::check::{self, history};
use crate::instant::Instant;
use crate::workload::Load;
use crate::workload::client::{self, Limit};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub op: Op,
    /// Where; nothing for a flush.
    pub at: Extent,
    /// Whether it is to be durable when it is answered.
    pub fua: bool,
}

/// So many requests of a workload, on a volume of so many sectors.
pub fn of_workload(load: &Load, sectors: u64, seed: u64, requests: u64) -> Result<Vec<Request>, LabError> {
    load.fits(sectors)?;
    let device: Rc<dyn BlockDevice> = Rc::new(Instant { sectors });
    let limit = Limit { requests: Some(requests), time: None };
    let seen = Runtime::new(seed).run(client::carry_out(load, device, limit, true))??;
    let requests = seen.records.iter().map(|record| Request {
        op: record.op,
        at: if record.op == Op::Flush { Extent::default() } else { record.extent },
        fua: record.flags.has(Flags::FUA),
    });
    Ok(requests.collect())
}

/// Writes of everything on a volume of so many sectors, and a flush.
pub fn fill(sectors: u64) -> Vec<Request> {
    /// As many as a file system writes at once.
    const AT_ONCE: u64 = 256;
    let starts = (0..sectors).step_by(AT_ONCE as usize);
    let writes = starts.map(|start| Extent::new(start, AT_ONCE.min(sectors - start)));
    let writes = writes.map(|at| Request { op: Op::Write, at, fua: false });
    writes.chain([Request { op: Op::Flush, at: Extent::default(), fua: false }]).collect()
}

/// Asks all of them; the first one's number is `first`.
pub async fn carry_out(
    requests: Rc<[Request]>,
    first: u64,
    clients: u64,
    top: Rc<dyn BlockDevice>,
    log: Shared,
) {
    let next = Rc::new(Cell::new(0));
    let clients = (0..clients.max(1)).map(|_| {
        let (requests, next, top, log) = (requests.clone(), next.clone(), top.clone(), log.clone());
        runtime::spawn(async move {
            while let Some(request) = requests.get(next.get()) {
                let id = first + next.get() as u64;
                next.set(next.get() + 1);
                ask(id, *request, &*top, &log).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await;
    }
}

async fn ask(id: u64, request: Request, top: &dyn BlockDevice, log: &RefCell<super::log::Log>) {
    let Request { op, at, fua } = request;
    let how = Hints { fua, ..Hints::default() };
    let begin = runtime::now();
    log.borrow_mut().events.push(Event::Client(history::Event::Issue { id, op, at, fua }));
    let mut found = Vec::new();
    let done = match op {
        Op::Read => top.read(at, Buffer::zeroed(at.bytes()), how).await.map(|buffer| {
            check::found(&buffer, |_, each| found.push(each));
        }),
        Op::Write => top.write(at, check::stamped(at, id), how).await,
        Op::Flush => top.flush(how).await,
        Op::Discard => top.discard(at, how).await,
        Op::WriteZeroes => top.write_zeroes(at, how, Zeroes::default()).await,
    };
    let mut log = log.borrow_mut();
    log.longest = log.longest.max(runtime::now().since(begin));
    log.events.push(Event::Client(match (done, op) {
        (Ok(()), Op::Read) => history::Event::Read { id, found },
        (Ok(()), _) => history::Event::Done { id },
        (Err(_), _) => history::Event::Failed { id },
    }));
}
