//! The requests of an explored run, and their clients.
//!
//! They are a list, so that some can be left out: a failing case is reduced to the few that matter. Each client takes
//! the next of the list when its last is answered; after an error it goes on. Among the requests are commands to the
//! topmost layer: a client waits for one as for a request, while the others go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use seekless_core::device::unknown_command;
use seekless_core::runtime::{self, Rng, Runtime};
use seekless_core::{BlockDevice, Buffer, Extent, Flags, Hints, Nanos, Op, Zeroes};
use seekless_layers::{Topmost, topmost};

use super::conditions::Conditions;
use super::log::{Command, Event, Shared};
use super::named::{Change, Named};
use crate::LabError;
use crate::check::{self, Stamping, history};
use crate::null_device::NullDevice;
use crate::workload::Load;
use crate::workload::client::{self, Limit};
use seekless_volume::tree::Tree;

/// Pauses that a run with short ones waits at its end.
const PAUSES_AT_END: u64 = 4;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation.
    pub op: Op,
    /// Extent; empty for a flush.
    pub at: Extent,
    /// Whether it is FUA.
    pub fua: bool,
}

/// A step of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request.
    Ask(Request),
    /// A request that goes where the volume is at work (`meeting.rs`); to its own extent if nothing is known.
    Meet(Request),
    /// A request to the snapshot or clone with this number, if it is there and can have it.
    Within(u8, Request),
    /// A change of snapshots and clones, if that makes sense: a name that is free or taken.
    Change(Change),
    /// A command to the topmost layer: see [`seekless_layers::Topmost::command`].
    Do(&'static str),
}

impl Step {
    /// Extent of the request, if it is one.
    pub fn at(&self) -> Extent {
        match self {
            Step::Ask(request) | Step::Meet(request) | Step::Within(_, request) => request.at,
            Step::Do(_) | Step::Change(_) => Extent::default(),
        }
    }
}

/// The first `requests` requests of a workload, on a volume of `sectors` sectors.
pub fn of_workload(load: &Load, sectors: u64, seed: u64, requests: u64) -> Result<Vec<Request>, LabError> {
    load.fits(sectors)?;
    let device: Rc<dyn BlockDevice> = Rc::new(NullDevice { sectors });
    let limit = Limit { requests: Some(requests), time: None };
    let run = Runtime::new(seed).run(client::carry_out(load, device, limit, true))?.whole()?;
    let requests = run.records.iter().map(|record| Request {
        op: record.op,
        at: if record.op == Op::Flush { Extent::default() } else { record.extent },
        fua: record.flags.has(Flags::FUA),
    });
    Ok(requests.collect())
}

/// The requests, with random commands among them, one in `every` steps. The last step of every other script is to stop.
/// Without commands, only the requests.
pub fn with_commands(requests: Vec<Request>, commands: &[&'static str], every: u64, seed: u64) -> Vec<Step> {
    if commands.is_empty() || every == 0 {
        return requests.into_iter().map(Step::Ask).collect();
    }
    // A stream of its own: the requests are those of a run without commands.
    let mut rng = Rng::seeded(!seed);
    let mut out = false;
    let mut steps = Vec::new();
    for request in requests {
        // Requests come between commands, however many of those there are.
        while rng.chance(1, every.max(2)) {
            // While the layer is detached, nothing else makes sense.
            let drawn = if out { "insert" } else { commands[rng.below(commands.len() as u64) as usize] };
            out = drawn == "remove";
            steps.push(Step::Do(drawn));
        }
        steps.push(Step::Ask(request));
    }
    if rng.chance(1, 2) {
        steps.push(Step::Do("stop"));
    }
    steps
}

/// The steps, a share of whose requests go where the volume is at work: `meets` in 100.
pub fn with_meetings(steps: Vec<Step>, meets: u64, rng: &mut Rng) -> Vec<Step> {
    let meeting = |step| match step {
        Step::Ask(request) if request.op != Op::Flush && rng.chance(meets, 100) => Step::Meet(request),
        step => step,
    };
    steps.into_iter().map(meeting).collect()
}

/// Writes of a whole volume of `sectors` sectors, and a flush.
pub fn fill(sectors: u64) -> Vec<Request> {
    /// Sectors of a write: as many as a file system writes at once.
    const AT_ONCE: u64 = 256;
    let starts = (0..sectors).step_by(AT_ONCE as usize);
    let writes = starts.map(|start| Extent::new(start, AT_ONCE.min(sectors - start)));
    let writes = writes.map(|at| Request { op: Op::Write, at, fua: false });
    writes.chain([Request { op: Op::Flush, at: Extent::default(), fua: false }]).collect()
}

/// Carries out these steps; the first one's number is `first`. Where sectors may be weak
/// and the topmost layer can verify, every other read is followed by a verifying one. That is not ordered with writes:
/// what it returns is not judged. In every other run a stop at the end waits until all requests are answered.
pub async fn carry_out(
    steps: Rc<[Step]>,
    first: u64,
    Conditions { clients, seed, weak, pause, .. }: Conditions,
    tree: &Tree,
    stamping: Stamping,
    log: Shared,
) {
    let next = Rc::new(Cell::new(0));
    let stops_last = seed % 2 == 0 && steps.last() == Some(&Step::Do("stop"));
    let end = steps.len() - usize::from(stops_last);
    let can_verify = |topmost: &Rc<Topmost>| topmost::commands(topmost.entry()).contains(&"verify");
    let verifies = weak > 0 && tree.topmost.as_ref().is_some_and(can_verify);
    let durable = is_durable_at_once(&steps, tree);
    let named = Rc::new(Named::of(tree.topmost.as_ref().and_then(|topmost| topmost.layer()), &log));
    let clients = (0..clients.max(1)).map(|_| {
        let (steps, next, log) = (steps.clone(), next.clone(), log.clone());
        let (top, topmost, named) = (tree.top.clone(), tree.topmost.clone(), named.clone());
        runtime::spawn(async move {
            loop {
                let passed = named.gate.pass().await;
                let Some(step) = steps[..end].get(next.get()) else { break };
                let id = first + next.get() as u64;
                let verify = verifies && id % 2 == 0;
                next.set(next.get() + 1);
                let volume = Target { device: &*top, number: None, stamping, durable };
                match step {
                    Step::Ask(request) => ask(id, *request, verify, volume, &log).await,
                    Step::Within(number, request) => {
                        if let Some(device) = named.device(*number, request.op) {
                            let of =
                                Target { device: &*device, number: Some(*number), stamping, durable: false };
                            ask(id, *request, false, of, &log).await;
                        }
                    }
                    Step::Change(change) => {
                        drop(passed);
                        named.change(*change, &log).await;
                    }
                    Step::Meet(request) => {
                        let at = log.borrow().at_work.meet(request.at, id, top.geometry().sectors);
                        ask(id, Request { at, ..*request }, verify, volume, &log).await;
                    }
                    Step::Do(command) => carry_out_command(id, command, topmost.as_deref(), &log).await,
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await;
    }
    if stops_last {
        carry_out_command(first + end as u64, "stop", tree.topmost.as_deref(), &log).await;
    }
    // What layers do in pauses meets power cuts too.
    if pause > 0 {
        runtime::sleep(Nanos::from_micros(PAUSES_AT_END * pause)).await;
    }
}

/// Executes a command. For the checker, a stop is a flush: all acknowledged writes are durable after it.
async fn carry_out_command(
    id: u64,
    command: &'static str,
    topmost: Option<&Topmost>,
    log: &RefCell<super::log::Log>,
) {
    let (begin, stops) = (runtime::now(), command == "stop");
    log.borrow_mut().events.push(Event::Command(command));
    if stops {
        let flush = history::Event::Issue { id, op: Op::Flush, at: Extent::default(), fua: false };
        log.borrow_mut().events.push(Event::Client(flush));
    }
    let done = match topmost {
        Some(topmost) => topmost.command(command, Hints::default()).await,
        None => Err(unknown_command("volume", command, &[])),
    };
    let mut log = log.borrow_mut();
    if stops {
        let failed = history::Event::Failed { id };
        log.events.push(Event::Client(done.as_ref().map_or(failed, |()| history::Event::Done { id })));
    }
    let number = log.commands.len();
    log.commands.push(Command { name: command, took: runtime::now().since(begin), error: done.err() });
    log.events.push(Event::CommandDone(number));
}

/// Whether the topmost layer says that it has no volatile write cache, and stays.
fn is_durable_at_once(steps: &[Step], tree: &Tree) -> bool {
    let changes = steps.iter().any(|step| matches!(step, Step::Do("remove" | "insert")));
    let uncached = |topmost: &Rc<Topmost>| !topmost.switch().child().geometry().volatile_cache;
    !changes && tree.topmost.as_ref().is_some_and(uncached)
}

/// The volume, or a snapshot or clone.
#[derive(Clone, Copy)]
struct Target<'a> {
    device: &'a dyn BlockDevice,
    /// Number of the snapshot or clone.
    number: Option<u8>,
    stamping: Stamping,
    /// Whether what it answered is durable.
    durable: bool,
}

async fn ask(id: u64, request: Request, verify: bool, target: Target<'_>, log: &RefCell<super::log::Log>) {
    let Request { op, at, fua } = request;
    let Target { device: top, number, stamping, durable } = target;
    let event = |event| match number {
        Some(number) => Event::Within(number, event),
        None => Event::Client(event),
    };
    let how = Hints { fua, ..Hints::default() };
    let begin = runtime::now();
    let fua = fua || durable && !matches!(op, Op::Read | Op::Flush);
    log.borrow_mut().events.push(event(history::Event::Issue { id, op, at, fua }));
    let mut found = Vec::new();
    let done = match op {
        Op::Read => top.read(at, Buffer::zeroed(at.bytes()), how).await.map(|buffer| {
            check::classify(&buffer, |index, each| found.push(stamping.found(at.start.0 + index, each)));
        }),
        Op::Write => top.write(at, stamping.stamped(at, id), how).await,
        Op::Flush => top.flush(how).await,
        Op::Discard => top.discard(at, how).await,
        Op::WriteZeroes => top.write_zeroes(at, how, Zeroes::default()).await,
    };
    {
        let mut log = log.borrow_mut();
        log.longest = log.longest.max(runtime::now().since(begin));
        log.failed.extend(done.as_ref().err().map(|error| (id, error.clone())));
        if done.is_err() && number.is_none() && !matches!(op, Op::Read | Op::Flush) {
            log.at_work.note_failed(at);
        }
        log.events.push(event(match (done, op) {
            (Ok(()), Op::Read) => history::Event::Read { id, found },
            (Ok(()), _) => history::Event::Done { id },
            (Err(_), _) => history::Event::Failed { id },
        }));
    }
    if verify && op == Op::Read {
        let how = Hints { verify, ..Hints::default() };
        drop(top.read(at, Buffer::zeroed(at.bytes()), how).await);
    }
}
