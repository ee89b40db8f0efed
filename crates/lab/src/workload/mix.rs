//! *mix*: several workloads at once, by weight: `mix:3*oltp+1*seq`.
//!
//! The weights are shares of the requests: of four, three are oltp's. Each member runs with its own clients and think
//! times, and the one that is ahead of its share waits for the others: the mixture goes as fast as its slowest member
//! allows.
//!
//! Invariant: with positive weights, the member that is furthest behind may always issue a request, so a mixture never
//! stalls; a member that has ended counts no more.

use std::cell::RefCell;
use std::rc::Rc;

use super::client::{Client, Gate, together};
use super::keys::WorkloadError;
use super::spec::Member;
use super::{Entry, Load, Running, Workload};

/// Entry in the registry.
pub const ENTRY: Entry = Entry {
    name: "mix",
    does: "several at once, by their share of the requests: mix:3*oltp:mpl=10+1*seq",
    source: "made of the others",
    options: &[],
    area: "all",
    make: None,
};

struct Mix {
    members: Vec<(u64, Load)>,
}

/// A mixture of these.
pub fn of(members: Vec<Member<'_>>) -> Result<Rc<dyn Workload>, WorkloadError> {
    let weighted = |member: Member| {
        let weight = if member.factor.is_empty() { Some(1) } else { member.factor.parse::<u64>().ok() };
        let weight = weight.filter(|weight| (1..=1_000_000).contains(weight));
        let place = format!("workload {}, the weight of {}", ENTRY.name, member.load.name());
        let invalid = || WorkloadError::new(place, format!("'{}'", member.factor), "1 to 1000000");
        Ok((weight.ok_or_else(invalid)?, member.load))
    };
    let members = members.into_iter().map(weighted).collect::<Result<_, _>>()?;
    Ok(Rc::new(Mix { members }))
}

impl Workload for Mix {
    fn run(self: Rc<Self>, client: Client) -> Running {
        let shares =
            self.members.iter().map(|(weight, _)| Share { weight: *weight, issued: 0, ended: false });
        let gate = Rc::new(Shares(RefCell::new(shares.collect())));
        together(self.members.iter().enumerate().map(|(index, (_, load))| -> Running {
            let member = client.behind(gate.clone(), index);
            let (work, gate) = (load.start(&member), gate.clone());
            Box::pin(async move {
                work.await;
                gate.0.borrow_mut()[index].ended = true;
                member.gates_changed();
            })
        }))
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

struct Share {
    weight: u64,
    issued: u64,
    ended: bool,
}

struct Shares(RefCell<Vec<Share>>);

impl Gate for Shares {
    fn may(&self, member: usize) -> bool {
        let shares = self.0.borrow();
        let me = &shares[member];
        // issued / weight, without dividing.
        let ahead = |other: &Share| {
            u128::from(me.issued) * u128::from(other.weight)
                > u128::from(other.issued) * u128::from(me.weight)
        };
        !shares.iter().any(|other| !other.ended && ahead(other))
    }

    fn passed(&self, member: usize) {
        self.0.borrow_mut()[member].issued += 1;
    }
}
