//! A switch: a device whose child can be changed for another while clients use it. At the top of a volume it lets
//! a layer be put in and taken out.
//!
//! Invariants: while the child is changed nothing is in flight, and everything answered before is durable. What is
//! held meanwhile goes to the new child in the order in which it came. No request is lost, and none fails for the
//! change. Fault model: of a change that fails, or is dropped on its way, nothing remains: the old child stays, and
//! requests go on.

use std::cell::RefCell;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::device::{BlockDevice, ExtentState, Geometry, IoFuture, Place, View, Zeroes, io};
use crate::error::{ErrorKind, IoError};
use crate::gate::Gate;
use crate::request::Hints;
use crate::runtime::edge;
use crate::units::{Extent, Nanos};

/// The rare places of its code, which an exploration that changes layers has to reach.
pub const EDGES: &[&str] =
    &["the child changes while requests are held", "a change fails: the old child stays"];

/// The switch.
pub struct Switch {
    child: RefCell<Rc<dyn BlockDevice>>,
    gate: Gate,
}

impl Switch {
    /// With this child.
    pub fn new(child: Rc<dyn BlockDevice>) -> Switch {
        Switch { child: RefCell::new(child), gate: Gate::default() }
    }

    /// What it leads to now.
    pub fn child(&self) -> Rc<dyn BlockDevice> {
        self.child.borrow().clone()
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
        let _alone = self.gate.close().await;
        let old = self.child();
        let changed = async {
            old.flush(Hints::default()).await?;
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

impl BlockDevice for Switch {
    fn geometry(&self) -> Geometry {
        self.child.borrow().geometry()
    }

    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().read(at, into, how).await
        })
    }

    fn write(&self, at: Extent, from: Buffer, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().write(at, from, how).await
        })
    }

    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().flush(how).await
        })
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().discard(at, how).await
        })
    }

    fn write_zeroes(&self, at: Extent, how: Hints, zeroes: Zeroes) -> IoFuture<'_, ()> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().write_zeroes(at, how, zeroes).await
        })
    }

    fn extents(&self, at: Extent) -> IoFuture<'_, Vec<ExtentState>> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().extents(at).await
        })
    }

    fn prefetch(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            let _inside = self.gate.pass().await;
            self.child().prefetch(at, how).await
        })
    }

    fn places(&self, at: Extent, each: &mut dyn FnMut(Extent, Place)) {
        self.child().places(at, each);
    }

    fn estimate(&self, at: Extent, how: &Hints) -> Option<Nanos> {
        self.child.borrow().estimate(at, how)
    }

    fn views(&self) -> Vec<View> {
        self.child().views()
    }
}

#[cfg(test)]
mod tests;
