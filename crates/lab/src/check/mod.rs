//! The checker: whether what a device answered is what a device may answer. It knows nothing of layers.
//!
//! Writes are stamped ([`stamped`]), what is read is looked at ([`found`]), and a register for each sector
//! ([`Registers`]) knows which versions may be read, and which may be left by a crash.

mod register;
mod registers;
mod stamp;
#[cfg(test)]
mod tests;
mod violation;

pub use registers::Registers;
pub use stamp::{Found, STAMP_BYTES, Stamp, found, room, stamped};
pub use violation::{Kind, Violation};
