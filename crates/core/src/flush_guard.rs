//! A guard over a component below layers: once a flush of it failed, all later ones fail.
//!
//! A system may drop what it could not write, and let the next flush succeed. A layer that relied on that flush would
//! report lost data as durable. Fault model: any flush of the component fails; what was written since the last
//! successful one may be lost, and reads may still return it until the power fails.

use std::cell::RefCell;
use std::rc::Rc;

use crate::device::io;
use crate::{BlockDevice, ErrorKind, Hints, IoError, IoFuture, mutant};

/// See the file's header.
pub struct FlushGuard {
    component: Rc<dyn BlockDevice>,
    failed: RefCell<Option<IoError>>,
}

impl FlushGuard {
    /// A guard over a component without failed flushes so far.
    pub fn new(component: Rc<dyn BlockDevice>) -> FlushGuard {
        FlushGuard { component, failed: RefCell::default() }
    }

    fn check(&self) -> Result<(), IoError> {
        let failed = self.failed.borrow();
        failed.as_ref().map_or(Ok(()), |error| {
            let why = format!("a flush failed before, and what was written may be lost: {error}");
            Err(IoError::new(ErrorKind::Medium, "flush", None, why))
        })
    }
}

impl BlockDevice for FlushGuard {
    fn flush(&self, how: Hints) -> IoFuture<'_, ()> {
        io(async move {
            self.check()?;
            let flushed = self.component.flush(how).await;
            if let Err(error) = &flushed {
                if !mutant::is("flush guard: a failed flush is forgotten") && !mutant::forgets_flushes() {
                    self.failed.borrow_mut().get_or_insert_with(|| error.clone());
                }
            }
            // Another one may have failed meanwhile.
            flushed.and_then(|()| self.check())
        })
    }

    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(&*self.component)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use super::*;
    use crate::runtime::Runtime;
    use crate::{Buffer, Extent, Geometry};

    /// A component whose first flush fails, and no other.
    #[derive(Default)]
    struct FailsOnce(Cell<bool>);

    impl BlockDevice for FailsOnce {
        fn geometry(&self) -> Geometry {
            Geometry::of_memory(8)
        }

        fn read(&self, _: Extent, into: Buffer, _: Hints) -> IoFuture<'_, Buffer> {
            io(ready(Ok(into)))
        }

        fn write(&self, _: Extent, _: Buffer, _: Hints) -> IoFuture<'_, ()> {
            io(ready(Ok(())))
        }

        fn flush(&self, _: Hints) -> IoFuture<'_, ()> {
            let failed = self.0.replace(true);
            io(ready(if failed {
                Ok(())
            } else {
                Err(IoError::new(ErrorKind::Medium, "fails once", None, ""))
            }))
        }

        fn discard(&self, _: Extent, _: Hints) -> IoFuture<'_, ()> {
            io(ready(Ok(())))
        }
    }

    #[test]
    fn no_flush_succeeds_after_a_failed_one() {
        let flushed = async {
            let guard = FlushGuard::new(Rc::new(FailsOnce::default()));
            let first = guard.flush(Hints::default()).await;
            (first, guard.flush(Hints::default()).await, guard.flush(Hints::default()).await)
        };
        let (first, second, third) = Runtime::new(1).run(flushed).unwrap();
        assert!(first.is_err() && third.is_err());
        assert!(second.unwrap_err().to_string().contains("a flush failed before"), "and says so");
    }
}
