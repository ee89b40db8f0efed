//! Layers: block devices made of block devices, one folder each.

mod below;
pub mod borg;
mod bytes;
pub mod cache;
mod canary;
pub mod cdp;
mod contents;
mod destage;
pub mod dispatcher;
mod durable;
pub mod fault;
pub mod hybrid;
mod joined;
pub mod launch;
mod list;
pub mod lld;
pub mod mapper;
mod overlay;
pub mod pattern;
pub mod proximal;
pub mod raid4;
mod refused;
pub mod registry;
pub mod replay;
pub mod schedule;
pub mod scrub;
pub mod split;
pub mod tools;
pub mod topmost;
pub mod traffic;
#[cfg(test)]
mod under_test;
mod units;

pub use borg::Borg;
pub use cache::Cache;
pub use hybrid::Hybrid;
pub use joined::Joined;
pub use lld::Lld;
pub use mapper::Mapper;
pub use overlay::Overlay;
pub use proximal::Proximal;
pub use raid4::Raid;
pub use refused::Refused;
pub use split::Split;
pub use topmost::Topmost;
pub use units::Bytes;
