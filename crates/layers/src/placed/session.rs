//! Sessions of a volume on two devices: see [`crate::durable::session`].
//!
//! The number is the generation of the super page on the first device, and lies in the label's page on the other.
//!
//! Fault model: as of the volume; of the label's page any one sector may rot. A device that was never written in such a
//! session has no number, and is accepted.

use seekless_core::{Buffer, Extent, Hints, IoError};

use super::Placed;
use super::format;
use crate::durable::session::{self, Number, Side};

/// Numbers of the last session, as found on the devices.
#[derive(Clone, Copy, Debug)]
pub struct LastSession {
    pub first: Number,
    pub second: Number,
}

impl LastSession {
    /// Numbers of a new volume.
    pub fn of_new(number: u64) -> LastSession {
        LastSession { first: Number::of(number, false), second: Number::of(number, false) }
    }

    /// The newest number on either device.
    pub fn newest(&self) -> u64 {
        self.first.most.max(self.second.most)
    }

    /// Of which device the contents are old, if of any: `fast` or `over`.
    pub fn old(&self) -> Option<&'static str> {
        session::old(self.first, self.second).map(|side| match side {
            Side::First => "fast",
            Side::Second => "over",
        })
    }
}

impl Placed {
    /// Begins the session, before the first change. Runs that only measure time, and volumes on one device, have none.
    ///
    /// # Errors
    /// Those of the devices; then the next change tries again.
    pub(super) async fn begin(&self, how: &Hints) -> Result<(), IoError> {
        let (Some(second), Some(label)) = (&self.devices.second, self.kind.label) else { return Ok(()) };
        if self.timing_only {
            return Ok(());
        }
        let write = async |number: u64, how: &Hints| {
            self.write_number(number, how).await?;
            let page = format::encode_label(label, self.identity, number);
            second.write(Extent::of_pages(0, 1), Buffer::from_vec(page), how.clone()).await?;
            second.flush(how.clone()).await
        };
        self.session.begin(how, write).await
    }

    /// Writes the super page with the number of a session, durably.
    async fn write_number(&self, number: u64, how: &Hints) -> Result<(), IoError> {
        let first = &*self.devices.first;
        let (copy, shape) = (number % 2, self.map.borrow().shape);
        let page = format::encode_super(self.kind, &shape, self.identity, copy, number);
        first.write(format::super_at(copy), Buffer::from_vec(page), how.clone()).await?;
        first.flush(how.clone()).await
    }
}
