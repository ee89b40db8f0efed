//! What passes between the layer and a function: requests one way, actions the other, and their bytes in the memory of
//! a module. Numbers are little-endian; decision 52 has the tables.
//!
//! Fault model: the bytes of an action may be anything. Each is checked against the volume before it is carried out,
//! and the first one that is wrong is an error that says where, what was found and what was expected.

use seekless_core::{Class, Extent, Hints, Nanos, Op, Origin};

/// Version of the interface: that of a module must be the same.
pub const VERSION: u32 = 1;
/// Bytes of a request in a module's memory.
pub const REQUEST_BYTES: usize = 48;
/// Bytes of an action.
pub const ACTION_BYTES: usize = 32;
/// Most actions that a module may answer at once.
pub const MOST_ACTIONS: u32 = 65_536;

/// A request that passes, as a function sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived: time since the volume was started.
    pub at: Nanos,
    /// What it does.
    pub op: Op,
    /// Its sectors; of a flush, none.
    pub extent: Extent,
    /// How urgent it is.
    pub class: Class,
    /// Whether it is durable when answered.
    pub fua: bool,
    /// Its origin.
    pub origin: Origin,
}

impl Request {
    /// A request that arrives now.
    pub fn arriving(at: Nanos, op: Op, extent: Extent, how: &Hints) -> Request {
        Request { at, op, extent, class: how.effective_class(), fua: how.fua, origin: how.origin }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        let longs = [self.at.0, self.extent.start.0, self.extent.sectors];
        for (place, number) in bytes.chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let Origin { process, name, stream } = self.origin;
        let words = [self.op as u32, self.class as u32, process.0, name.0, stream.0, u32::from(self.fua)];
        for (place, number) in bytes[24..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// What a function wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Have these sectors in memory.
    Fetch {
        /// The sectors.
        extent: Extent,
        /// The class of the read, unless the layer's is less urgent.
        class: Class,
    },
    /// These sectors are not needed in memory any more.
    Drop {
        /// The sectors.
        extent: Extent,
    },
}

const FETCH: u32 = 1;
const DROP: u32 = 2;

/// The action of these bytes, on a volume of this many sectors.
///
/// # Errors
/// What was found where, and what was expected.
pub fn decode(bytes: &[u8; ACTION_BYTES], sectors: u64) -> Result<Action, String> {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let (start, count) = (long(8), long(16));
    let end = start.checked_add(count).filter(|end| count > 0 && *end <= sectors);
    if end.is_none() {
        return Err(format!(
            "found {count} sectors from sector {start} on, expected 1 or more that end by sector {sectors}"
        ));
    }
    if long(24) != 0 {
        return Err(format!("found {} in its last 8 bytes, expected 0", long(24)));
    }
    let (extent, class) = (Extent::new(start, count), word(4));
    match word(0) {
        FETCH => {
            let found = Class::ALL.get(class as usize).copied();
            let class = found.ok_or_else(|| format!("found class {class}, expected 0 to 3"))?;
            Ok(Action::Fetch { extent, class })
        }
        DROP if class != 0 => Err(format!("found class {class} of a drop, expected 0")),
        DROP => Ok(Action::Drop { extent }),
        kind => Err(format!("found kind {kind}, expected 1 (fetch) or 2 (drop)")),
    }
}

/// All actions of these bytes; those of an action that is cut short do not count.
///
/// # Errors
/// As [`decode`], with the number of the action.
pub fn decode_all(bytes: &[u8], sectors: u64) -> Result<Vec<Action>, String> {
    let all = bytes.chunks_exact(ACTION_BYTES).enumerate().map(|(number, bytes)| {
        let bytes = std::array::from_fn(|byte| bytes[byte]);
        decode(&bytes, sectors).map_err(|error| format!("action {number}: {error}"))
    });
    all.collect()
}
