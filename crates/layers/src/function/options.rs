//! Options of the layer.

use seekless_core::PAGE_BYTES;
use serde::{Deserialize, Serialize};

use crate::Refused;
use crate::cache;
use crate::cache::policy::Kind;
use crate::launch::FetchClass;
use crate::units::Bytes;

use super::module;

/// The options of the layer.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The built-in function; `sequential` if there is no module either.
    pub function: Option<BuiltIn>,
    /// File of the module, beside the volume file.
    pub module: Option<String>,
    /// A number that the function is started with; 0 for its own default.
    pub parameter: u64,
    /// Instructions that a module may take for a call, 1,000 or more.
    pub fuel: u64,
    /// Memory that a module may have, 64 KiB to 1 GiB in whole parts of 64 KiB.
    pub memory: Bytes,
    /// Memory for fetched pages, 1 MiB or more.
    pub size: Bytes,
    /// Which pages leave memory.
    pub policy: Kind,
    /// The most urgent class of the fetches.
    pub class: FetchClass,
    /// Most fetches of a call in flight, 1 to 1,024.
    pub at_once: usize,
}

/// The built-in functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BuiltIn {
    /// Reads ahead of sequential reads.
    Sequential,
}

/// A page of WebAssembly's memory.
const WASM_PAGE: u64 = 64 << 10;

impl Default for Options {
    fn default() -> Self {
        Options {
            function: None,
            module: None,
            parameter: 0,
            fuel: 100_000_000,
            memory: Bytes(16 << 20),
            size: Bytes(64 << 20),
            policy: Kind::DropWhenRead,
            class: FetchClass::Background,
            at_once: 64,
        }
    }
}

impl Options {
    /// Checks the options, and the module if there is one.
    pub fn check(&self) -> Result<(), Refused> {
        if self.size.0 < 1 << 20 || self.size.0 % PAGE_BYTES != 0 {
            let found = format!("{} bytes", self.size.0);
            return Err(Refused::new("size", found, "1MiB or more in whole pages of 4KiB"));
        }
        if !(WASM_PAGE..=1 << 30).contains(&self.memory.0) || self.memory.0 % WASM_PAGE != 0 {
            let found = format!("{} bytes", self.memory.0);
            return Err(Refused::new("memory", found, "64KiB to 1GiB in whole parts of 64KiB"));
        }
        if self.fuel < 1_000 {
            return Err(Refused::new("fuel", self.fuel.to_string(), "1000 or more"));
        }
        if !(1..=1_024).contains(&self.at_once) {
            return Err(Refused::new("at_once", self.at_once.to_string(), "1 to 1024"));
        }
        match (&self.module, self.function) {
            (Some(_), Some(_)) => Err(Refused::new("module", "a function as well", "one of the two")),
            (Some(file), None) => module::check(file),
            (None, _) => Ok(()),
        }
    }

    /// Pages of memory.
    pub fn pages(&self) -> u64 {
        self.size.0 / PAGE_BYTES
    }

    /// The cache for fetched pages; writes pass by.
    pub fn cache(&self) -> cache::Options {
        let (policy, write) = (self.policy, cache::Writes::Around);
        cache::Options { size: self.size, policy, write, ..cache::Options::default() }
    }
}
