//! Options of a volume that runs of an exploration draw: `[explore]` in its file lists the values of each.
//!
//! Fault model: a file or a script may hold anything; what cannot be a volume with these settings is refused when the
//! file is read, and a setting of a script that does not fit is refused with its name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use seekless_core::runtime::Rng;
use seekless_core::{Lba, Size};

use crate::description::{Description, VolumeError};

/// Values that runs may draw, as TOML, by layer or slice, and by key.
pub type Ranges = BTreeMap<String, BTreeMap<String, Vec<toml::Value>>>;

/// A key of a layer or a slice, and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// The layer or slice.
    pub of: String,
    /// Key.
    pub key: String,
    /// The value, as TOML.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} = {}", self.of, self.key, self.value)
    }
}

impl FromStr for Setting {
    type Err = ();

    fn from_str(text: &str) -> Result<Setting, ()> {
        let (name, value) = text.split_once('=').ok_or(())?;
        let (of, key) = name.trim().rsplit_once('.').ok_or(())?;
        let setting = Setting { of: of.to_owned(), key: key.to_owned(), value: value.trim().to_owned() };
        let plain = |name: &str| !name.is_empty() && !name.contains(|sign: char| sign.is_whitespace());
        if plain(of) && plain(key) && setting.value().is_some() { Ok(setting) } else { Err(()) }
    }
}

impl Setting {
    fn value(&self) -> Option<toml::Value> {
        let table: toml::Table = toml::from_str(&format!("value = {}", self.value)).ok()?;
        table.get("value").filter(|_| table.len() == 1).cloned()
    }

    /// Sets it in a description; false if there is no such thing.
    fn apply(&self, description: &mut Description) -> bool {
        let Some(value) = self.value() else { return false };
        if let Some(layer) = description.layers.get_mut(&self.of) {
            layer.options.insert(self.key.clone(), value);
            return true;
        }
        let size = value.as_str().and_then(|text| text.parse::<Size>().ok());
        let (Some(slice), Some(size)) = (description.slices.get_mut(&self.of), size) else { return false };
        match self.key.as_str() {
            "size" => slice.extent.sectors = size.sectors(),
            "at" => slice.extent.start = Lba(size.sectors()),
            _ => return false,
        }
        true
    }
}

/// One value of each key, by chance.
pub fn drawn(ranges: &Ranges, rng: &mut Rng) -> Vec<Setting> {
    let keys = ranges.iter().flat_map(|(of, keys)| keys.iter().map(move |(key, values)| (of, key, values)));
    let keys = keys.filter(|(.., values)| !values.is_empty());
    keys.map(|(of, key, values)| {
        let value = values[rng.below(values.len() as u64) as usize].to_string();
        Setting { of: of.clone(), key: key.clone(), value }
    })
    .collect()
}

/// A checked description with settings that were checked for it.
pub fn applied<'a>(description: &'a Description, settings: &[Setting]) -> Cow<'a, Description> {
    let mut applied = Cow::Borrowed(description);
    for setting in settings {
        setting.apply(applied.to_mut());
    }
    applied
}

/// Whether a description can have these settings; why not.
pub fn check(description: &Description, settings: &[Setting]) -> Result<(), VolumeError> {
    let wrong = |setting: &Setting, found: String, expected: &str| VolumeError {
        place: format!("{}: {}.{}", description.file, setting.of, setting.key),
        found,
        expected: expected.to_owned(),
    };
    let mut applied = description.clone();
    for setting in settings {
        if !setting.apply(&mut applied) {
            let expected = "a key of a layer, or size or at of a slice, and a value for it";
            return Err(wrong(setting, setting.value.clone(), expected));
        }
        if let Some(layer) = applied.layers.get(&setting.of) {
            let checked = layer.entry.check(&layer.options);
            checked.map_err(|refused| wrong(setting, refused.found, &refused.expected))?;
        }
    }
    applied.check().map(drop)
}

/// Whether each value that a description's runs may draw can be had; why not.
pub fn check_ranges(description: &Description, ranges: &Ranges) -> Result<(), VolumeError> {
    for (of, keys) in ranges {
        for (key, values) in keys {
            for value in values {
                let setting = Setting { of: of.clone(), key: key.clone(), value: value.to_string() };
                check(description, &[setting])?;
            }
        }
    }
    Ok(())
}
