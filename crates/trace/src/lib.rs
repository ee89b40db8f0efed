//! Block traces: formats in and out, and workload statistics.
//!
//! [`load`] reads a whole recording, [`Reader`] a stream; [`characterise`] computes the statistics of the papers'
//! tables and figures. Formats are in [`mod@format`], one file each.
//!
//! Malformed input of any kind gives an error or a warning with the place, the value found and the value expected.
//! Nothing here panics on it, and nothing depends on a hash map's order.

#![forbid(unsafe_code)]

pub mod compressed;
mod error;
pub mod format;
mod latency;
mod layering;
pub mod loaded;
mod merge;
mod options;
mod paths;
pub mod reader;
pub mod request_events;
pub mod stats;
mod surveyed;
mod volumes;
pub mod write;

pub use error::TraceError;
pub use format::{Columns, DESCRIBED, FORMATS, Fixed, Format, Sample};
pub use loaded::{DeviceUse, Trace, load, load_while};
pub use options::{OpenUnits, ReadOptions, TimeUnit};
pub use paths::expand;
pub use reader::Reader;
pub use stats::{Analysis, Intervals, MissRatio, Stats, StatsOptions, Survey, characterise};
pub use surveyed::Surveyed;
pub use volumes::{Naming, Volumes};
