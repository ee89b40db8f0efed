//! What layers over several members share: members that are initialised, replaced and rebuilt.

use seekless_core::device::Content;
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Geometry, Hints, IoError, Nanos, Ticket, Zeroes, runtime,
};

use crate::contents;

/// How long requests of a rebuild wait for time that costs clients nothing.
const FREE: Nanos = Nanos::from_millis(50);

/// The error of an invalid request to a layer: what was found, and what was expected.
pub fn refused(layer: &'static str, found: &str, expected: &str) -> IoError {
    IoError::new(ErrorKind::Invalid, layer, None, format!("found {found}, expected {expected}"))
}

/// Zeroes a device, except where it says that it is zero.
pub async fn zero(device: &dyn BlockDevice) -> Result<(), IoError> {
    let geometry = device.geometry();
    for part in Extent::new(0, geometry.sectors).split(geometry.largest_sectors) {
        for known in device.extents(part).await? {
            if !matches!(known.content, Content::Hole | Content::Zero) {
                let zeroes = Zeroes { may_unmap: true, only_if_fast: false };
                device.write_zeroes(known.extent, Hints::default(), zeroes).await?;
            }
        }
    }
    device.flush(Hints::default()).await
}

/// Makes a new member blank at both ends; a layer's labels are in the first.
///
/// # Errors
/// `Invalid` for contents, unless `overwrites`; those of the device.
pub async fn make_blank(
    layer: &'static str,
    device: &dyn BlockDevice,
    overwrites: bool,
) -> Result<(), IoError> {
    if let Some(found) = contents::found(device).await?.filter(|_| !overwrites) {
        return Err(refused(layer, found, "zeroes: --replace discards the present contents"));
    }
    let how = Hints::default();
    for at in contents::ends(device) {
        device.write(at, Buffer::zeroed(at.bytes()), how.clone()).await?;
    }
    device.flush(how).await
}

/// Fails unless the logical blocks of a new member fit into those of the array.
///
/// # Errors
/// `Invalid`.
pub fn check_blocks(layer: &'static str, new: &Geometry, array: &Geometry) -> Result<(), IoError> {
    if new.logical_sectors <= array.logical_sectors {
        return Ok(());
    }
    let found = format!("a device with blocks of {} sectors", new.logical_sectors);
    Err(refused(layer, &found, "smaller ones, as the array has"))
}

/// Hints of work that takes only time that costs clients nothing, for a while, and is background work then. The task makes
/// it so: keep it until the work has ended.
pub fn patient(how: &Hints) -> (Hints, runtime::Task<()>) {
    let ticket = Ticket::new();
    let promoted = ticket.clone();
    let waits = runtime::spawn(async move {
        runtime::sleep(FREE).await;
        promoted.promote(Class::Background);
    });
    (Hints { class: Class::Free, ticket: Some(ticket), fua: false, verify: false, ..how.clone() }, waits)
}
