//! In place of modules, in a build without the feature `wasm`: a volume file that names one gets an error.

use super::options::Options;
use super::{Failure, Function};
use crate::Refused;

/// There is no module that this build can run.
pub fn check(file: &str) -> Result<(), Refused> {
    let expected = "a program built with modules (cargo build --features wasm), or a built-in function";
    Err(Refused::new("module", format!("'{file}', and a program built without the feature `wasm`"), expected))
}

/// As [`check`].
pub fn start(file: &str, _options: &Options, _sectors: u64) -> Result<Box<dyn Function>, Failure> {
    check(file).map_err(|refused| Failure::Answer(refused.to_string()))?;
    Err(Failure::Answer("found no modules in this build, expected the feature `wasm`".to_owned()))
}
