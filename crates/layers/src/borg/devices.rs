//! The devices below BORG, wrapped to count their traffic.
//!
//! Fault model: errors are passed on.

use std::cell::RefCell;
use std::rc::Rc;

use seekless_core::BlockDevice;

use crate::traffic::{Counted, Ledger};

/// The devices below, wrapped to count their traffic.
pub(super) struct Devices {
    pub origin: Rc<dyn BlockDevice>,
    pub bopt: Rc<dyn BlockDevice>,
    pub ledger: Rc<RefCell<Ledger>>,
}

impl Devices {
    /// Wraps the origin and the BOPT.
    pub fn counted(origin: Rc<dyn BlockDevice>, bopt: Rc<dyn BlockDevice>) -> Devices {
        let ledger = Rc::<RefCell<Ledger>>::default();
        let (origin, bopt) = (Counted::new(origin, 0, &ledger), Counted::new(bopt, 1, &ledger));
        Devices { origin, bopt, ledger }
    }
}
