//! Names of the devices and volumes of a trace. A record has a number; messages have names.
//!
//! Invariant: a name has one number in all files of a trace, assigned in the order in which the names were first read.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seekless_core::{NameId, Names};
use serde::{Deserialize, Serialize};

/// How a format identifies volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Naming {
    /// As Linux does: `major << 20 | minor`, written `major,minor`.
    #[default]
    Linux,
    /// By a number of its own.
    Numbered,
    /// By a name, to which a number is assigned.
    Named,
}

/// More than any traced fleet; a bound for hostile input.
pub const MAX_NAMED: u32 = 1 << 16;

/// The volumes of one trace. Clones share the table, also between threads: simulations share a trace.
#[derive(Clone, Default)]
pub struct Volumes(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    naming: Naming,
    /// Whether a file has given its naming itself.
    is_set: bool,
    names: Names,
}

impl Volumes {
    /// No volumes yet, with this naming.
    pub fn new(naming: Naming) -> Volumes {
        Volumes(Arc::new(Mutex::new(Known { naming, ..Known::default() })))
    }

    /// Volumes of these names, numbered from 0.
    pub fn named(names: &[String]) -> Volumes {
        let volumes = Volumes::new(Naming::Named);
        for name in names {
            volumes.number(name);
        }
        volumes
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How they are identified.
    pub fn naming(&self) -> Naming {
        self.known().naming
    }

    /// Sets the naming given by a file, before it names any volume. The error is the naming of an earlier file, if that
    /// differs.
    pub fn set_naming(&self, naming: Naming) -> Result<(), Naming> {
        let mut known = self.known();
        if std::mem::replace(&mut known.is_set, true) && known.naming != naming {
            return Err(known.naming);
        }
        known.naming = naming;
        Ok(())
    }

    /// The name of volume `device`.
    pub fn name(&self, device: u32) -> String {
        let known = self.known();
        match known.naming {
            Naming::Linux => format!("{},{}", device >> 20, device & 0x000f_ffff),
            Naming::Numbered => device.to_string(),
            Naming::Named => {
                // The table's first name is that of the unknown.
                known.names.get(NameId(device.saturating_add(1))).to_owned()
            }
        }
    }

    /// The number of the volume of this name; `None` if there are too many.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        let shown: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let number = self.known().names.intern(&shown).0.saturating_sub(1);
        (number < MAX_NAMED).then_some(number)
    }
}

impl fmt::Debug for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} volumes", self.naming())
    }
}
