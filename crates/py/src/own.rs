//! What a call brings along in Python: eviction policies and layers, by name.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seekless::layers::cache::policy::outside;

use crate::errors::UsageError;
use crate::layer::{self, Class};
use crate::policy;

/// Policies and layers of one call.
pub struct Own {
    policies: Vec<(String, Py<PyAny>)>,
    layers: Vec<Class>,
}

/// The names and values of a dictionary whose values can be called.
fn named<'py>(what: &str, given: Option<&Bound<'py, PyDict>>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let mut named = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let fits =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
        if name.is_empty() || !name.chars().all(fits) || name == "none" {
            let expected = "a name of lower-case letters, digits, - and _";
            return Err(UsageError::new_err(format!("{what}: found '{name}', expected {expected}")));
        }
        if !value.is_callable() {
            let found = value.repr()?;
            return Err(UsageError::new_err(format!("{what}: {name}: found {found}, expected a class")));
        }
        named.push((name, value));
    }
    Ok(named)
}

impl Own {
    /// Those of a call's keywords.
    pub fn of(policies: Option<&Bound<'_, PyDict>>, layers: Option<&Bound<'_, PyDict>>) -> PyResult<Own> {
        let policies = named("policies", policies)?;
        let policies = policies.into_iter().map(|(name, class)| (name, class.unbind())).collect();
        let layers = named("layers", layers)?;
        let layers = layers.into_iter().map(|(name, class)| Class::of(&name, class));
        Ok(Own { policies, layers: layers.collect::<PyResult<_>>()? })
    }

    /// Does work that knows them by name.
    pub fn with<T>(self, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let makers = self.policies.into_iter().map(|(name, class)| {
            let make = policy::maker(name.clone(), class);
            (name, make)
        });
        outside::with(makers.collect(), || layer::with(self.layers, work))
            .map_err(|refused| UsageError::new_err(format!("policies: {refused}")))?
    }
}
