//! Which reads settle a sector. After a power cut the first read of a sector settles it for good: what survived is
//! durable. After the end of a process whose components kept their caches, a read may have found content that is only
//! in a cache, until a flush is answered: up to then it settles nothing.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use seekless_core::Op;

use super::run::Plan;
use crate::check::history::Event;

/// Which of a run's reads settle something.
#[derive(Default)]
pub struct Settling {
    /// Whether none do.
    caches: bool,
    flushes: FxHashSet<u64>,
}

impl Settling {
    /// For the reads of this run.
    pub fn new(plan: &Plan) -> Settling {
        Settling { caches: !plan.cached.is_empty(), flushes: FxHashSet::default() }
    }

    /// The event as the registers get it.
    pub fn effective<'a>(&mut self, event: &'a Event) -> Cow<'a, Event> {
        match event {
            Event::Issue { id, op: Op::Flush, .. } => drop(self.flushes.insert(*id)),
            Event::Done { id } if self.flushes.contains(id) => self.caches = false,
            Event::Read { id, .. } if self.caches => return Cow::Owned(Event::Failed { id: *id }),
            _ => {}
        }
        Cow::Borrowed(event)
    }
}
