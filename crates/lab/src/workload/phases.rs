//! *phases*: several workloads one after the other, cyclically: `phases:10m*oltp+1000*seq`.
//!
//! A phase lasts for a time or for a number of requests. Its clients are started once and wait during other phases, so
//! that a stream goes on where it was and an application keeps its sequence; think times go on meanwhile. A request of
//! one phase may be answered in the next. A member that has ended has no more phases; when all have, the workload has
//! ended.

use std::cell::Cell;
use std::rc::Rc;

use seekless_core::Nanos;
use seekless_core::runtime::{self, Task};

use super::client::{Client, Gate, together};
use seekless_volume::duration;

use super::keys::WorkloadError;
use super::spec::Member;
use super::{Entry, Load, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "phases",
    does: "one after the other, each for a time or a number of requests: phases:10m*oltp+1000*seq",
    source: "made of the others",
    options: &[],
    area: "all",
    make: None,
};

#[derive(Clone, Copy)]
enum Length {
    Time(Nanos),
    Requests(u64),
}

struct Phases {
    members: Vec<(Length, Load)>,
}

/// These, in turn.
pub fn of(members: Vec<Member<'_>>) -> Result<Rc<dyn Workload>, WorkloadError> {
    let timed = |member: Member| {
        let requests = member.factor.parse::<u64>().ok().map(Length::Requests);
        let length = requests.or_else(|| duration(member.factor).ok().map(Length::Time));
        let length = length.filter(|length| match length {
            Length::Time(time) => *time > Nanos::ZERO,
            Length::Requests(requests) => *requests > 0,
        });
        let place = format!("workload {}, the length of {}", ENTRY.name, member.load.name());
        let expected = "a time such as 10m, or a number of requests, then * and the workload";
        let invalid = || WorkloadError::new(place, format!("'{}'", member.factor), expected);
        Ok((length.ok_or_else(invalid)?, member.load))
    };
    let members = members.into_iter().map(timed).collect::<Result<_, _>>()?;
    Ok(Rc::new(Phases { members }))
}

impl Workload for Phases {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let turns = Rc::new(Turns {
            now: Cell::new(0),
            // No requests before the first turn is given.
            left: Cell::new(Some(0)),
            ended: self.members.iter().map(|_| Cell::new(false)).collect(),
        });
        let mut tasks: Vec<Running> = Vec::new();
        for (index, (_, load)) in self.members.iter().enumerate() {
            let member = client.behind(turns.clone(), index);
            let (work, turns) = (load.start(&member), turns.clone());
            tasks.push(Box::pin(async move {
                work.await;
                turns.ended[index].set(true);
                member.gates_changed();
            }));
        }
        tasks.push(Box::pin(direct(self, turns, client)));
        together(tasks)
    }

    fn needs(&self) -> u64 {
        self.members.iter().map(|(_, load)| load.needs()).max().unwrap_or(0)
    }

    fn is_open(&self) -> bool {
        self.members.iter().all(|(_, load)| load.is_open())
    }

    fn ends(&self) -> bool {
        self.members.iter().all(|(_, load)| load.ends())
    }
}

/// Which member's turn it is.
struct Turns {
    now: Cell<usize>,
    /// Requests left in a phase that is counted in requests.
    left: Cell<Option<u64>>,
    ended: Vec<Cell<bool>>,
}

impl Gate for Turns {
    fn may(&self, member: usize) -> bool {
        self.now.get() == member && self.left.get() != Some(0)
    }

    fn passed(&self, _member: usize) {
        self.left.set(self.left.get().map(|left| left - 1));
    }
}

/// Passes the turn on, until all members have ended.
async fn direct(phases: Rc<Phases>, turns: Rc<Turns>, client: Client) {
    while turns.ended.iter().any(|ended| !ended.get()) {
        for (index, (length, _)) in phases.members.iter().enumerate() {
            let ended = || turns.ended[index].get();
            if ended() {
                continue;
            }
            turns.now.set(index);
            match *length {
                Length::Requests(requests) => {
                    turns.left.set(Some(requests));
                    client.gates_changed();
                    client.at_gates(|| turns.left.get() == Some(0) || ended()).await;
                }
                Length::Time(time) => {
                    turns.left.set(None);
                    client.gates_changed();
                    let alarm = alarm(time, client.clone());
                    client.at_gates(|| alarm.is_finished() || ended()).await;
                }
            }
        }
    }
}

/// Ends after `time`, and wakes the waiting clients.
fn alarm(time: Nanos, client: Client) -> Task<()> {
    runtime::spawn(async move {
        runtime::sleep(time).await;
        // In a task of its own: this one has to have ended when the others check.
        runtime::spawn(async move { client.gates_changed() }).detach();
    })
}
