//! Building the layer; and creation of a BOPT, where existing contents are not needed.
//!
//! Invariants: only zeroes and the rest of an interrupted creation are overwritten, unless replacing is requested; a
//! BOPT is valid only when complete. Faults: an interrupted creation is restarted.

use std::rc::Rc;

use seekless_core::{BlockDevice, Buffer, Extent, Hints, IoError, Layer};

use super::{Borg, Older, Options};
use crate::contents::{self, New};
use crate::registry::{Below, Built};

impl Borg {
    /// The layer over and beside the devices of a volume; a new one if `below` says so, and only to be read with the
    /// option `older`.
    ///
    /// # Errors
    /// As [`Borg::open`].
    pub async fn build(below: &Below, options: Options) -> Result<Built, IoError> {
        if options.older {
            return Ok(Built::new(Rc::new(Older::open(below, options).await?)));
        }
        let (origin, bopt) = (below.one()?, below.device("bopt")?);
        let borg = if below.create {
            Borg::open_creating(origin, bopt, options, below.timing_only).await?
        } else {
            Borg::open(origin, bopt, options, below.timing_only).await?
        };
        Ok(Built::new(borg))
    }

    /// Overwrites both ends of a BOPT that was given up, so that nothing is found there.
    pub(super) async fn blank_ends(&self) -> Result<(), IoError> {
        for at in contents::ends(&*self.bopt) {
            self.bopt.write(at, Buffer::zeroed(at.bytes()), Hints::default()).await?;
        }
        self.bopt.flush(Hints::default()).await
    }

    /// Upgrades a BOPT from version 1 to version 2, which older programs do not open. One of version 2 is unchanged.
    /// Fails as opening does, or with its devices' errors: then it is of either version, and can be opened and upgraded
    /// again.
    pub async fn upgrade(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
    ) -> Result<(), IoError> {
        let borg = Borg::open(origin, bopt, options, false).await?;
        if !borg.store.is_old() {
            return Ok(());
        }
        let how = Hints::default();
        borg.store.begin_mapping(&how).await?;
        Layer::stop(&*borg).await?;
        borg.store.upgrade(&how).await
    }

    /// Creates an empty BOPT for `origin` in `bopt`, and stops clean. Existing contents are refused, unless `replace`:
    /// then they are given up, even a BOPT with dirty pages. Returns the new identity.
    pub async fn format_new(
        origin: Rc<dyn BlockDevice>,
        bopt: Rc<dyn BlockDevice>,
        options: Options,
        replace: bool,
    ) -> Result<Option<u128>, IoError> {
        let how = Hints::default();
        let new = New { key: "bopt", device: &*bopt, metadata: Extent::new(0, 0), leaves: None };
        contents::claim(&[new], false, replace).await?;
        let borg = Borg::open_creating(origin, bopt, options, false).await?;
        borg.store.begin_mapping(&how).await?;
        Layer::stop(&*borg).await?;
        Ok(borg.identity())
    }
}
