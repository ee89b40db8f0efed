//! Sectors on their way, and events that tasks wait for.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seekless_core::{Buffer, SECTOR_BYTES};

/// Sectors of 512 bytes, read from a device or to be written to one.
///
/// In runs that only measure time they are hollow: a number of sectors, whose bytes are zeroes.
#[pyclass(frozen, unsendable, module = "seekless")]
pub struct Data(pub Buffer);

#[pymethods]
impl Data {
    /// Whole sectors of these bytes.
    #[new]
    fn new(bytes: Vec<u8>) -> PyResult<Data> {
        let found = bytes.len();
        if found as u64 % SECTOR_BYTES != 0 {
            let why = format!("Data: found {found} bytes, expected whole sectors of {SECTOR_BYTES}");
            return Err(PyValueError::new_err(why));
        }
        Ok(Data(Buffer::from_vec(bytes)))
    }

    /// Several one after the other, without a copy.
    #[staticmethod]
    fn join(parts: Vec<PyRef<'_, Data>>) -> Data {
        Data(Buffer::join(parts.iter().map(|part| part.0.clone())))
    }

    /// Number of sectors.
    #[getter]
    fn sectors(&self) -> u64 {
        self.0.len() as u64 / SECTOR_BYTES
    }

    /// Whether it has no bytes, but a length.
    #[getter]
    fn is_hollow(&self) -> bool {
        self.0.is_hollow()
    }

    /// Some of its sectors, without a copy.
    fn cut(&self, first: u64, sectors: u64) -> PyResult<Data> {
        let all = self.sectors();
        if first.checked_add(sectors).is_none_or(|end| end > all) {
            let why =
                format!("cut: found {sectors} sectors from {first}, expected at most the {all} there are");
            return Err(PyValueError::new_err(why));
        }
        Ok(Data(self.0.cut_sectors(first, sectors)))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.0.look(|bytes| PyBytes::new(py, bytes))
    }

    fn __repr__(&self) -> String {
        let hollow = if self.is_hollow() { "hollow " } else { "" };
        format!("<seekless.Data of {} {hollow}sectors>", self.sectors())
    }
}

/// What wakes the tasks that wait for an event.
#[pyclass(frozen, unsendable, module = "seekless")]
#[derive(Clone, Default)]
pub struct Bell(Rc<State>);

#[derive(Default)]
struct State {
    rung: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> Bell {
        Bell::default()
    }

    /// Whether it was rung, and not silenced since.
    #[getter]
    fn rung(&self) -> bool {
        self.0.rung.get()
    }

    /// Wakes all that wait, in the order in which they came; others do not wait from now on.
    fn ring(&self) {
        self.0.rung.set(true);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Tasks wait again from now on.
    fn silence(&self) {
        self.0.rung.set(false);
    }
}

impl Bell {
    /// Waits until it is rung.
    pub async fn wait(&self) {
        let mut waited = false;
        poll_fn(|context| {
            // One that was woken goes on, even if it was silenced meanwhile.
            if self.0.rung.get() || waited {
                return Poll::Ready(());
            }
            waited = true;
            self.0.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
