//! A new text of a volume file that is being served: the components that it has in common with the old one are open
//! already, others are opened.

use std::path::PathBuf;

use seekless_layers::Refused;

use super::component::Live;
use super::error::{At, LiveError};
use crate::component::Keys;
use crate::description::{Description, Leaf, VolumeError};
use crate::file;

/// Key of a component that is open: its sectors.
const KEPT: &str = "kept";

/// A component of the new text.
pub enum Offered {
    /// It is open: its sectors.
    Kept(u64),
    /// It was opened.
    New(Box<Live>),
}

impl Leaf for Offered {
    type Keys = toml::Table;

    fn read(file: &str, name: &str, mut keys: toml::Table) -> Result<Offered, VolumeError> {
        if let Some(sectors) = keys.remove(KEPT).and_then(|sectors| sectors.as_integer()) {
            return Ok(Offered::Kept(sectors as u64));
        }
        let keys: Keys =
            toml::Value::Table(keys).try_into().map_err(|error: toml::de::Error| VolumeError {
                place: format!("{file}: component.{name}"),
                found: error.to_string().trim_end().to_owned(),
                expected: "the keys of a component".to_owned(),
            })?;
        let live = Live::read(file, name, keys)?;
        // What is added or replaced has to be there.
        live.missing().map_or(Ok(()), |error| Err(error.clone()))?;
        Ok(Offered::New(Box::new(live)))
    }

    fn sectors(&self) -> u64 {
        match self {
            Offered::Kept(sectors) => *sectors,
            Offered::New(live) => live.sectors(),
        }
    }

    fn check(&self) -> Result<(), Refused> {
        match self {
            Offered::Kept(_) => Ok(()),
            Offered::New(live) => live.check(),
        }
    }

    fn line(&self) -> String {
        match self {
            Offered::Kept(_) => String::new(),
            Offered::New(live) => live.line(),
        }
    }
}

impl Offered {
    /// Whether it is a new one that is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Offered::New(live) if live.is_read_only())
    }

    /// Path of its file, if it is a new one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Offered::Kept(_) => None,
            Offered::New(live) => live.path(),
        }
    }
}

/// Reads and checks the new text of a served volume; the component `replaced` is opened anew.
///
/// # Errors
/// A text that is no volume, or a new component that cannot be opened.
pub fn read(
    served: &Description<Live>,
    text: &str,
    replaced: Option<&str>,
) -> Result<Description<Offered>, LiveError> {
    let mut keys: toml::Table = toml::from_str(text).at(|| &served.file)?;
    let components = keys.get_mut("component").and_then(toml::Value::as_table_mut);
    for (name, component) in components.into_iter().flatten() {
        let kept = served.components.get(name).filter(|_| Some(name.as_str()) != replaced);
        let Some(live) = kept else { continue };
        let component = component.as_table_mut().at(|| "a component without keys")?;
        let sectors = i64::try_from(live.sectors()).at(|| name)?;
        component.insert(KEPT.to_owned(), toml::Value::Integer(sectors));
    }
    Ok(file::parse_of::<Offered>(&served.file, &toml::to_string(&keys).at(|| &served.file)?)?)
}

/// The description of the new text, with the components that are open.
pub fn settle(offered: Description<Offered>, served: &mut Description<Live>) -> Description<Live> {
    offered.with_components(|name, component| match component {
        Offered::Kept(_) => served.components.remove(name),
        Offered::New(live) => Some(*live),
    })
}
