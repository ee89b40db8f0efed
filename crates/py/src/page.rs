//! Pages of HTML: shown in a notebook, or saved.

use std::path::PathBuf;

use pyo3::prelude::*;
use seekless_lab::report::escape;

/// Height of a page in a notebook, in pixels.
const HEIGHT: u32 = 800;

/// A report: one page of HTML that needs no network.
#[pyclass(frozen, module = "seekless")]
pub struct Page(pub String);

#[pymethods]
impl Page {
    /// The text of the page.
    #[getter]
    fn html(&self) -> &str {
        &self.0
    }

    /// Writes the page to a file, which may be there already.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        std::fs::write(path, &self.0)?;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<seekless.Page of {} bytes>", self.0.len())
    }

    /// The page in a frame of its own, so that its styles and scripts stay there.
    fn _repr_html_(&self) -> String {
        let page = escape(&self.0);
        format!("<iframe srcdoc=\"{page}\" width=\"100%\" height=\"{HEIGHT}\" style=\"border: 0\"></iframe>")
    }
}
