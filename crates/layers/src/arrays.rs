//! What layers over several members share: members that are initialised, replaced and rebuilt.

use std::cell::RefCell;
use std::collections::BTreeMap;

use seekless_core::device::Content;
use seekless_core::{
    BlockDevice, Buffer, Class, ErrorKind, Extent, Geometry, Hints, IoError, Nanos, Ticket, Zeroes, runtime,
};

use crate::contents;

/// How long requests of a rebuild wait for time that costs clients nothing.
const FREE: Nanos = Nanos::from_millis(50);

/// Has a line of text printed.
type Tell = Box<dyn Fn(&str)>;

/// Why members are out of service, for status and for the log of a server.
#[derive(Default)]
pub struct Trouble {
    why: RefCell<BTreeMap<usize, String>>,
    tell: RefCell<Option<Tell>>,
}

impl Trouble {
    /// The trouble that an opening found: a member, and why it is out of service.
    pub fn of(found: impl IntoIterator<Item = (usize, String)>) -> Trouble {
        Trouble { why: RefCell::new(found.into_iter().collect()), tell: RefCell::default() }
    }

    /// Has `tell` called for each member that goes out of service from now on.
    pub fn on(&self, tell: Tell) {
        self.tell.replace(Some(tell));
    }

    /// A member goes out of service.
    pub fn begins(&self, member: usize, why: &IoError) {
        self.why.borrow_mut().insert(member, why.to_string());
        self.tell(&self.text(member));
    }

    /// Passes a line on.
    pub fn tell(&self, line: &str) {
        if let Some(tell) = &*self.tell.borrow() {
            tell(line);
        }
    }

    /// What is to be said of these members, which are out of service; `None` without any.
    pub fn of_members(&self, members: impl Iterator<Item = usize>) -> Option<String> {
        let all: Vec<String> = members.map(|member| self.text(member)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn text(&self, member: usize) -> String {
        let why = self.why.borrow();
        let why = why.get(&member).map_or("as its labels say", String::as_str);
        format!(
            "member {member} is out of service ({why}): less redundancy until it, or another in its place, is rebuilt"
        )
    }
}

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

/// Hints of work that takes only time that costs clients nothing, for a while, and is background work then. The task
/// makes it so: keep it until the work has ended.
pub fn patient(how: &Hints) -> (Hints, runtime::Task<()>) {
    let ticket = Ticket::new();
    let promoted = ticket.clone();
    let waits = runtime::spawn(async move {
        runtime::sleep(FREE).await;
        promoted.promote(Class::Background);
    });
    (Hints { class: Class::Free, ticket: Some(ticket), fua: false, verify: false, ..how.clone() }, waits)
}
