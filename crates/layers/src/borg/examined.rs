//! A BOPT opened to be examined: nothing is written, and damage need not keep it from opening.

use std::rc::Rc;

use seekless_core::{BlockDevice, IoError, PAGE_SECTORS};

use super::store::{Setup, Store};
use super::{Borg, Devices, Options};
use crate::Overlay;
use crate::registry::Below;

/// A BOPT that is only read; if `lenient`, open in spite of damage.
pub(super) async fn examined(below: &Below, options: Options, lenient: bool) -> Result<Rc<Borg>, IoError> {
    let overlay = |device| Rc::new(Overlay::new(device)) as Rc<dyn BlockDevice>;
    let (origin, bopt) = (overlay(below.one()?), overlay(below.device("bopt")?));
    let layout = Borg::layout_of(bopt.geometry().sectors / PAGE_SECTORS, &options)?;
    let devices = Devices::counted(origin, bopt);
    let setup = Setup { layout, timing_only: false, eager: false, canary: options.canary(), lenient };
    let store = Store::open(devices.origin.clone(), devices.bopt.clone(), setup).await?;
    Ok(Borg::over(devices, store, options, false))
}
