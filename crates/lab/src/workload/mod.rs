//! Workloads: synthetic loads, seeded, each an async client of a block device.
//!
//! One array lists them, with their options and defaults; `spec` parses their descriptions. A workload sees its
//! [`Client`] and the clock, and nothing of what is below: the same code loads a simulated drive and a
//! tree of layers.
//!
//! The same seed gives the same requests. A closed workload waits for answers, so its arrivals depend on the device; an
//! open one has arrival times of its own.

pub mod answers;
mod arrivals;
mod blocks;
mod cache;
mod churn;
pub mod client;
mod distribution;
mod file_system;
pub mod keys;
mod mix;
mod oltp;
mod phases;
mod postmark;
mod random;
mod sequential;
mod serial;
mod spec;
mod startup;
mod zipf;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use client::Client;
use keys::{Keys, WorkloadError};
pub use spec::{defaulted, parse};

/// A running workload; ends when it has no more requests.
pub type Running = Pin<Box<dyn Future<Output = ()>>>;

/// A load with all its parameters, except for the device.
pub trait Workload {
    /// Issues requests, until it ends or is dropped.
    fn run(self: Rc<Self>, client: Client) -> Running;

    /// The smallest window that it runs in, in sectors.
    fn needs(&self) -> u64;

    /// Whether its arrivals do not wait for answers.
    fn is_open(&self) -> bool {
        false
    }

    /// Whether it ends by itself.
    fn ends(&self) -> bool {
        false
    }
}

/// An option of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Key, before the `=`.
    pub key: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Description.
    pub what: &'static str,
}

/// Description of a workload.
#[derive(Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub does: &'static str,
    /// Its origin.
    pub source: &'static str,
    /// Its own options; every workload but a mixture also has those of [`WINDOW`].
    pub options: &'static [Opt],
    /// Default part of the volume: a size, or `all`.
    pub area: &'static str,
    /// Constructor; `None` for mixtures, which consist of others.
    make: Option<Make>,
}

/// Constructor of a workload from its options.
type Make = fn(&Keys) -> Result<Rc<dyn Workload>, WorkloadError>;

/// The options for the part of the volume that a workload uses.
pub const WINDOW: [Opt; 2] = [
    Opt { key: "at", default: "0", what: "start of its part of the volume" },
    Opt { key: "area", default: "all", what: "size of that part, or all that remains" },
];

/// All workloads, in the order of the list.
pub const WORKLOADS: [&Entry; 10] = [
    &random::ENTRY,
    &oltp::ENTRY,
    &serial::ENTRY,
    &postmark::ENTRY,
    &zipf::ENTRY,
    &startup::ENTRY,
    &sequential::ENTRY,
    &churn::ENTRY,
    &mix::ENTRY,
    &phases::ENTRY,
];

/// A workload, and its part of the volume.
pub struct Load {
    name: &'static str,
    workload: Rc<dyn Workload>,
    /// The first sector.
    at: u64,
    /// Number of sectors; `None` for all from `at` on.
    area: Option<u64>,
}

impl Load {
    /// Its name in [`WORKLOADS`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The smallest volume that it runs on, in sectors.
    pub fn needs(&self) -> u64 {
        self.at.saturating_add(self.area.unwrap_or(self.workload.needs()))
    }

    /// Whether its arrivals do not wait for answers.
    pub fn is_open(&self) -> bool {
        self.workload.is_open()
    }

    /// Whether it ends by itself.
    pub fn ends(&self) -> bool {
        self.workload.ends()
    }

    /// Checks that it fits a volume of `sectors` sectors.
    pub fn fits(&self, sectors: u64) -> Result<(), WorkloadError> {
        let size = |sectors: u64| seekless_core::Size(sectors.saturating_mul(512)).to_string();
        if self.needs() <= sectors {
            return Ok(());
        }
        let found = format!("a volume of {}", size(sectors));
        Err(WorkloadError::new(
            format!("workload {}", self.name),
            found,
            format!("at least {}", size(self.needs())),
        ))
    }

    /// Starts it in a client's window.
    fn start(&self, client: &Client) -> Running {
        self.workload.clone().run(client.within(self.at, self.area))
    }
}

/// The largest request of a workload, in bytes.
const LARGEST: u64 = seekless_core::device::LARGEST_REQUEST_SECTORS * seekless_core::SECTOR_BYTES;
