//! A switch: leads to a child that can be changed for another while clients use it. It is in the top of a volume
//! ([`crate::Top`]), so that a layer can be put in and taken out.
//!
//! Invariants: while the child is changed nothing is in flight, and everything answered before is durable. What is
//! held meanwhile goes to the new child in the order in which it came. No request is lost, and none fails for the
//! change. Fault model: of a change that fails, or is dropped on its way, nothing remains: the old child stays, and
//! requests go on.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use crate::device::{BlockDevice, Geometry};
use crate::error::{ErrorKind, IoError};
use crate::gate::{Gate, Inside};
use crate::mutant;
use crate::request::Hints;
use crate::runtime::edge;

/// The rare places of its code, which an exploration that changes layers has to reach.
pub const EDGES: &[&str] =
    &["the child changes while requests are held", "a change fails: the old child stays"];

/// The switch.
pub struct Switch {
    child: RefCell<Rc<dyn BlockDevice>>,
    gate: Gate,
}

/// Leave to have a request in flight, and the device for it.
pub struct InFlight<'a> {
    child: Rc<dyn BlockDevice>,
    _inside: Inside<'a>,
}

impl Deref for InFlight<'_> {
    type Target = dyn BlockDevice;

    fn deref(&self) -> &Self::Target {
        &*self.child
    }
}

impl Switch {
    /// With this child.
    pub fn new(child: Rc<dyn BlockDevice>) -> Switch {
        Switch { child: RefCell::new(child), gate: Gate::default() }
    }

    /// What its child is like now; never smaller than before.
    pub fn geometry(&self) -> Geometry {
        self.child.borrow().geometry()
    }

    /// What it leads to now: for what is answered at once.
    pub fn child(&self) -> Rc<dyn BlockDevice> {
        self.child.borrow().clone()
    }

    /// What it leads to now, which stays until this is dropped: for what takes time. Waits while the child changes.
    pub async fn enter(&self) -> InFlight<'_> {
        let inside = self.gate.pass().await;
        InFlight { child: self.child(), _inside: inside }
    }

    /// Holds what comes, waits for what is in flight, flushes the child, and then waits for `change`: what that
    /// gives is the child from then on. Another swap waits for this one.
    ///
    /// # Errors
    /// Those of the flush and of `change`; `Invalid` if the new child is smaller than the old one, or takes smaller
    /// requests or coarser ones.
    pub async fn swap(
        &self,
        change: impl Future<Output = Result<Rc<dyn BlockDevice>, IoError>>,
    ) -> Result<(), IoError> {
        let waits = !mutant::is("switch: the child changes under requests in flight");
        let _alone = if waits { Some(self.gate.close().await) } else { None };
        let old = self.child();
        let changed = async {
            if !mutant::is("switch: the old child is not flushed") {
                old.flush(Hints::default()).await?;
            }
            let new = change.await?;
            fits(&old.geometry(), &new.geometry())?;
            Ok(new)
        };
        let new = changed.await.inspect_err(|_| edge("a change fails: the old child stays"))?;
        if self.gate.is_waited_for() {
            edge("the child changes while requests are held");
        }
        self.child.replace(new);
        Ok(())
    }
}

/// Whether what clients know of the old child holds of the new one.
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
