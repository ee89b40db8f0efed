//! The Python package `seekless`: traces as Arrow tables, and the laboratory.
//!
//! This is the module `seekless._seekless`; `python/seekless` is what users import. What takes time is done without the
//! interpreter's lock and ends at a signal ([`signals`]). Options are those of the command line, by way of
//! `seekless::scripted`; results are the same JSON, as dictionaries.

// Python's calls pass objects by value.
#![allow(clippy::needless_pass_by_value)]

mod arrow;
mod drive;
mod errors;
mod figure;
mod json;
mod lab;
mod layer;
mod own;
mod page;
mod policy;
mod program;
mod rows;
mod signals;
mod trace;
mod words;

use pyo3::prelude::*;

/// The compiled part of the package; import `seekless` instead.
#[pymodule]
fn _seekless(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::add(module)?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<drive::Drive>()?;
    module.add_class::<lab::Compared>()?;
    module.add_class::<layer::Bell>()?;
    module.add_class::<layer::Data>()?;
    module.add_class::<page::Page>()?;
    module.add_class::<rows::Table>()?;
    module.add_function(wrap_pyfunction!(trace::read, module)?)?;
    module.add_function(wrap_pyfunction!(lab::compare, module)?)?;
    module.add_function(wrap_pyfunction!(lab::explore, module)?)?;
    module.add_function(wrap_pyfunction!(layer::edge, module)?)?;
    module.add_function(wrap_pyfunction!(layer::now_ns, module)?)?;
    module.add_function(wrap_pyfunction!(lab::hits, module)?)?;
    module.add_function(wrap_pyfunction!(lab::run, module)?)?;
    module.add_function(wrap_pyfunction!(figure::figure, module)?)?;
    module.add_function(wrap_pyfunction!(drive::drives, module)?)?;
    module.add_function(wrap_pyfunction!(program::program, module)?)?;
    Ok(())
}
