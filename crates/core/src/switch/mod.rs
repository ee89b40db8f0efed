//! A switch: its child can be replaced while clients use it. It is in the top of a volume ([`crate::Top`]), and in a
//! served volume below layers, so that a layer can be attached and detached.
//!
//! Invariants: while the child is replaced nothing is in flight, and everything answered before is durable. Requests
//! held meanwhile go to the new child in order of arrival. No request is lost, and none fails because of the swap. A
//! write that failed is not carried out after the swap (`failed_writes`).
//! Fault model: a swap that fails, or is dropped, has no effect: the old child stays, and requests continue.

mod device;
mod failed_writes;

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use crate::device::{BlockDevice, Geometry};
use crate::error::{ErrorKind, IoError};
use crate::failed_writes::FailedWrites;
use crate::gate::{Gate, GateGuard};
use crate::meter::{Meter, Timed};
use crate::mutant;
use crate::request::{Hints, Op};
use crate::runtime::edge;

/// Rare places of this code, which an exploration that changes layers has to reach.
pub const EDGES: &[&str] = &[
    "the child changes while requests are held",
    "a change fails: the old child stays",
    "a page of which a write failed is rewritten before the child changes",
];

/// The switch.
pub struct Switch {
    child: RefCell<Rc<dyn BlockDevice>>,
    gate: Gate,
    /// Counts and times requests, if that is wanted.
    meter: RefCell<Option<Rc<Meter>>>,
    failed_writes: FailedWrites,
}

/// A request that arrived, until it is answered or dropped. Not a future around the request's own, which would hold
/// that twice and copy it.
pub(crate) struct Arrived(Option<Timed>);

impl Arrived {
    /// It is answered with this.
    pub(crate) fn answered<T>(self, answer: Result<T, IoError>) -> Result<T, IoError> {
        if let Some(timed) = self.0 {
            timed.end(answer.is_err());
        }
        answer
    }
}

/// Permission to have a request in flight, and the device for it.
pub struct InFlight<'a> {
    child: Rc<dyn BlockDevice>,
    _guard: GateGuard<'a>,
}

impl Deref for InFlight<'_> {
    type Target = dyn BlockDevice;

    fn deref(&self) -> &Self::Target {
        &*self.child
    }
}

impl Switch {
    /// A switch with this child.
    pub fn new(child: Rc<dyn BlockDevice>) -> Switch {
        Switch {
            child: RefCell::new(child),
            gate: Gate::default(),
            meter: RefCell::default(),
            failed_writes: FailedWrites::default(),
        }
    }

    /// Counts and times requests from now on with `meter`.
    pub fn measure(&self, meter: Option<Rc<Meter>>) {
        self.meter.replace(meter);
    }

    /// What counts and times requests, if anything does.
    pub fn meter(&self) -> Option<Rc<Meter>> {
        self.meter.borrow().clone()
    }

    /// Counts and times a request that arrives now, if that is wanted.
    pub(crate) fn arrive(&self, op: Op, bytes: u64) -> Arrived {
        Arrived(self.meter().map(|meter| meter.begin(op, bytes)))
    }

    /// The child's current geometry; never smaller than before. Its write cache counts as volatile, since another
    /// child's may be, and the devices above look only once.
    pub fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.child.borrow().geometry() }
    }

    /// The current child, for calls that return at once.
    pub fn child(&self) -> Rc<dyn BlockDevice> {
        self.child.borrow().clone()
    }

    /// The current child, which stays until this is dropped, for requests. Waits while the child is replaced.
    pub async fn enter(&self) -> InFlight<'_> {
        let guard = self.gate.pass().await;
        InFlight { child: self.child(), _guard: guard }
    }

    /// Whether the child can be replaced by this one.
    ///
    /// # Errors
    /// `Invalid` if it is smaller than the child, or takes smaller requests or coarser ones.
    pub fn check(&self, new: &dyn BlockDevice) -> Result<(), IoError> {
        fits(&self.geometry(), &new.geometry())
    }

    /// Holds new requests, waits for those in flight, rewrites pages of which a write failed, flushes the child, and
    /// awaits `change`, which returns the new child. Swaps are serialized.
    ///
    /// # Errors
    /// Those of rewriting, of the flush and of `change`; `Invalid` if the new child is smaller than the old one, or
    /// takes smaller requests or coarser ones.
    pub async fn swap(
        &self,
        change: impl Future<Output = Result<Rc<dyn BlockDevice>, IoError>>,
    ) -> Result<(), IoError> {
        let waits = !mutant::is("switch: the child changes under requests in flight");
        let _alone = if waits { Some(self.gate.close().await) } else { None };
        let old = self.child();
        let changed = async {
            if !mutant::is("switch: failed writes are left behind") {
                self.rewrite_failed(&*old).await?;
            }
            if !mutant::is("switch: the old child is not flushed") {
                old.flush(Hints::default()).await?;
            }
            let new = change.await?;
            fits(&old.geometry(), &new.geometry())?;
            Ok(new)
        };
        let new = changed.await.inspect_err(|_| edge("a change fails: the old child stays"))?;
        if self.gate.has_waiters() {
            edge("the child changes while requests are held");
        }
        self.child.replace(new);
        Ok(())
    }
}

/// Checks that the new child satisfies what clients know of the old one.
fn fits(old: &Geometry, new: &Geometry) -> Result<(), IoError> {
    let invalid = |why: String| Err(IoError::new(ErrorKind::Invalid, "switch", None, why));
    if new.sectors < old.sectors {
        return invalid(format!(
            "found a child of {} sectors, expected {} or more",
            new.sectors, old.sectors
        ));
    }
    if new.largest_sectors < old.largest_sectors {
        let (found, expected) = (new.largest_sectors, old.largest_sectors);
        return invalid(format!("found requests of at most {found} sectors, expected {expected} or more"));
    }
    if old.logical_sectors % new.logical_sectors != 0 {
        let (found, expected) = (new.logical_sectors, old.logical_sectors);
        return invalid(format!("found blocks of {found} sectors, expected {expected} or a part of that"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
