//! The checker: whether a device's answers are allowed. It knows nothing of layers.
//!
//! Writes are stamped ([`stamped`]), content that is read is classified (`found`), and a register for each sector
//! ([`Registers`]) knows which versions may be read, and which a crash may leave. Events can be written as text and
//! checked again ([`history`]).

mod alike;
pub mod history;
mod judge;
mod page;
mod register;
mod registers;
mod stamp;
#[cfg(test)]
mod tests;
mod violation;

pub use alike::Stamping;
pub use judge::{Judged, LocatedViolation, judge};
pub use registers::Registers;
pub use stamp::{STAMP_BYTES, SectorContent, Stamp, classify, room, stamped};
pub use violation::{About, Kind, Violation};
