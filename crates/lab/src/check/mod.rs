//! The checker: whether what a device answered is what a device may answer. It knows nothing of layers.
//!
//! Writes are stamped ([`stamped`]), what is read is looked at ([`found`]), and a register for each sector
//! ([`Registers`]) knows which versions may be read, and which may be left by a crash. What happened can be kept as text and judged again ([`history`]).

pub mod history;
mod judge;
mod page;
mod register;
mod registers;
mod stamp;
#[cfg(test)]
mod tests;
mod violation;

pub use judge::{Judged, Wrong, judge};
pub use registers::Registers;
pub use stamp::{Found, STAMP_BYTES, Stamp, found, room, stamped};
pub use violation::{About, Kind, Violation};
