//! An experiment with other values of its parameters, by their names.

use seekless_core::SECTOR_BYTES;

use super::{Setup, schedule, typed};
use crate::parse::whole_sectors;

/// Size of BORG's optimised partition.
pub const BOPT: &str = "bopt";
/// Number of reconfigurations, or when they are.
pub const RECONFIGURE: &str = "reconfigure";

impl Setup {
    /// With another value of a parameter: [`BOPT`], [`RECONFIGURE`], or a key of the layer; the error is what was
    /// expected. Keys of the layer are checked when the experiment is made.
    pub fn with(&self, key: &str, value: &str) -> Result<Setup, String> {
        let mut other = self.clone();
        match key {
            BOPT => other.bopt = whole_sectors(value)?,
            RECONFIGURE => other.reconfigure = schedule(value)?,
            _ => {
                other.options.retain(|(known, _)| known != key);
                other.options.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(other)
    }

    /// Whether a parameter has this value.
    pub fn has(&self, key: &str, value: &str) -> bool {
        match (key, self.only_layer()) {
            (BOPT, _) => whole_sectors(value) == Ok(self.bopt),
            (RECONFIGURE, _) => schedule(value) == Ok(self.reconfigure),
            (_, Ok(Some(layer))) => {
                let now = self.setup_of(layer).ok().and_then(|setup| setup.options.get(key).cloned());
                now == Some(typed(layer, key, value))
            }
            _ => false,
        }
    }

    /// Whether an option of the layer was given.
    pub fn is_given(&self, key: &str) -> bool {
        let flag = self.flags().is_ok_and(|flags| flags.contains_key(key));
        flag || self.options.iter().any(|(known, _)| known == key)
    }

    /// Size of the BOPT in bytes.
    pub fn bopt_bytes(&self) -> u64 {
        self.bopt * SECTOR_BYTES
    }

    /// Name of the layer; an error if several are given.
    pub fn layer_name(&self) -> anyhow::Result<Option<&'static str>> {
        Ok(self.only_layer()?.map(|layer| layer.name))
    }
}
