//! An export: a device, and its description for clients.

use std::rc::Rc;

use seekless_core::device::View;
use seekless_core::{Accesses, Class, Extent, Meter, SECTOR_BYTES};

use super::byte_adapter::ByteAdapter;
use super::status::OriginPlace;
use crate::nbd::{self, Context, constants as c};

/// A device as clients see it.
#[derive(Clone)]
pub struct Export {
    /// Its description.
    pub info: nbd::Export,
    /// The top device of its volume.
    pub device: Rc<ByteAdapter>,
    /// Whether clients may not write.
    pub read_only: bool,
    /// Class of its requests.
    pub class: Class,
    /// Where its data would be without layers, if that is one place.
    pub origin: Option<OriginPlace>,
    /// Counts and times its requests.
    pub meter: Rc<Meter>,
    /// Counts its reads and writes by address.
    pub accesses: Rc<Accesses>,
}

impl Export {
    /// An export of `device`. Exports of the same device share a [`ByteAdapter`].
    pub fn new(name: &str, description: &str, device: &Rc<ByteAdapter>, read_only: bool) -> Export {
        let geometry = device.device().geometry();
        // All clients share one volume without caches per client: a flush by one covers all (multi-conn).
        let mut flags = c::FLAG_HAS_FLAGS | c::FLAG_SEND_FLUSH | c::FLAG_SEND_FUA | c::FLAG_CAN_MULTI_CONN;
        flags |= c::FLAG_SEND_DF | c::FLAG_SEND_CACHE | c::FLAG_BLOCK_STAT_PAYLOAD;
        if geometry.rotational {
            flags |= c::FLAG_ROTATIONAL;
        }
        flags |= if read_only {
            c::FLAG_READ_ONLY
        } else {
            c::FLAG_SEND_TRIM | c::FLAG_SEND_WRITE_ZEROES | c::FLAG_SEND_FAST_ZERO
        };
        let bytes = |sectors: u64| (sectors * SECTOR_BYTES) as u32;
        let mut contexts = vec![Context::Allocation, Context::Place];
        if device.device().heat(Extent::new(0, 1), &mut |_, _| {}) {
            contexts.push(Context::Heat);
        }
        if device.device().unreadable(Extent::new(0, 1), &mut |_, _| {}) {
            contexts.push(Context::Unreadable);
        }
        let info = nbd::Export {
            name: name.to_owned(),
            description: description.to_owned(),
            bytes: geometry.sectors * SECTOR_BYTES,
            flags,
            // Partial blocks are read, modified and written.
            smallest: 1,
            preferred: bytes(geometry.physical_sectors.max(8)),
            largest: bytes(geometry.largest_sectors),
            contexts,
        };
        let (class, meter, accesses) = (Class::Foreground, Rc::default(), Rc::new(Accesses::new(info.bytes)));
        Export { info, device: device.clone(), read_only, class, origin: None, meter, accesses }
    }

    /// Size in bytes now: a device may grow. Another server's export may end within a sector.
    pub fn bytes(&self) -> u64 {
        let whole = self.device.device().geometry().sectors * SECTOR_BYTES;
        if self.info.bytes.next_multiple_of(SECTOR_BYTES) == whole { self.info.bytes } else { whole }
    }

    /// It with its size of now, for a client that connects.
    pub fn now(&self) -> Export {
        let info = nbd::Export { bytes: self.bytes(), ..self.info.clone() };
        Export { info, ..self.clone() }
    }

    /// The snapshots and clones of its device as exports of their own, NAME@SNAPSHOT; only clones can be written, and
    /// only if it can be.
    pub fn snapshots(&self) -> Vec<Export> {
        let snapshot = |(view, device): (View, Rc<ByteAdapter>)| {
            let (name, line) = (format!("{}@{}", self.info.name, view.name), &self.info.description);
            let (kind, read_only) = (if view.is_clone { "clone" } else { "snapshot" }, !view.is_clone);
            let export =
                Export::new(&name, &format!("a {kind} of {line}"), &device, read_only || self.read_only);
            Export { class: self.class, ..export }
        };
        self.device.views().into_iter().map(snapshot).collect()
    }
}
