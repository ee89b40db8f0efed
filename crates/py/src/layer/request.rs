//! What a method in Python asks for: requests to devices, and time.

use std::rc::Rc;

use futures_util::future::join_all;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use seekless_core::device::{IoFuture, check, io};
use seekless_core::runtime::sleep;
use seekless_core::{Buffer, Extent, Hints, IoError, Nanos};

use super::PythonLayer;
use super::data::{Bell, Data};
use super::task::{Fault, Got};

/// A request of a method.
pub enum Request {
    Read(usize, Extent),
    Write(usize, Extent, Buffer),
    Flush(usize),
    Discard(usize, Extent),
    Sleep(Nanos),
    Together(Vec<Request>),
    Wait(Bell),
    Spawn(Rc<Py<PyAny>>),
}

/// The fields of a `Request` in `_layer.py`: what, the device's number, the first sector or a time, sectors, and data,
/// parts, an event or work.
type Fields<'py> = (u8, usize, u64, u64, Bound<'py, PyAny>);

impl PythonLayer {
    /// What an object asks for; an error if it is no request, or does not fit its device.
    pub(super) fn request_of(&self, request: &Bound<'_, PyAny>) -> PyResult<Request> {
        let (what, device, start, sectors, more): Fields<'_> = request.extract()?;
        let within = |sectors| {
            let at = Extent::new(start, sectors);
            let geometry = self.devices.get(device).map(|device| device.geometry());
            let geometry =
                geometry.ok_or_else(|| PyValueError::new_err("found a device of another layer"))?;
            check(&geometry, at, self.name).map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok::<Extent, PyErr>(at)
        };
        Ok(match what {
            0 => Request::Read(device, within(sectors)?),
            1 => {
                let data = more.cast::<Data>()?.borrow();
                let sectors = data.0.len() as u64 / seekless_core::SECTOR_BYTES;
                Request::Write(device, within(sectors)?, data.0.clone())
            }
            2 if device < self.devices.len() => Request::Flush(device),
            3 => Request::Discard(device, within(sectors)?),
            4 => Request::Sleep(Nanos(start)),
            5 => {
                let parts = more.cast::<PyTuple>()?;
                Request::Together(parts.iter().map(|part| self.request_of(&part)).collect::<PyResult<_>>()?)
            }
            6 => Request::Wait(more.cast::<Bell>()?.borrow().clone()),
            7 if more.hasattr(pyo3::intern!(more.py(), "send"))? => Request::Spawn(Rc::new(more.unbind())),
            7 => {
                return Err(PyTypeError::new_err(format!(
                    "found {more}, expected a coroutine or a generator"
                )));
            }
            _ => return Err(PyTypeError::new_err(format!("found {request}, expected a request"))),
        })
    }

    /// An empty buffer for these sectors.
    pub(super) fn new_buffer(&self, at: Extent) -> Buffer {
        if self.timing_only { Buffer::hollow(at.bytes()) } else { Buffer::zeroed(at.bytes()) }
    }

    /// Carries out a request of a method, on behalf of a client's request with these hints.
    pub(super) fn carry_out<'a>(&'a self, request: Request, how: &'a Hints) -> IoFuture<'a, Got> {
        let how = how.clone();
        io(async move {
            Ok(match request {
                Request::Read(device, at) => {
                    Got::Data(self.devices[device].read(at, self.new_buffer(at), how).await?)
                }
                Request::Write(device, at, from) => {
                    self.devices[device].write(at, from, how).await.map(Got::of)?
                }
                Request::Flush(device) => self.devices[device].flush(how).await.map(Got::of)?,
                Request::Discard(device, at) => self.devices[device].discard(at, how).await.map(Got::of)?,
                Request::Sleep(time) => {
                    sleep(time).await;
                    Got::Nothing
                }
                Request::Together(parts) => {
                    let parts = join_all(parts.into_iter().map(|part| self.carry_out(part, &how))).await;
                    Got::All(parts.into_iter().collect::<Result<_, IoError>>()?)
                }
                Request::Wait(bell) => {
                    bell.wait().await;
                    Got::Nothing
                }
                Request::Spawn(work) => {
                    self.spawn(work);
                    Got::Nothing
                }
            })
        })
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Raised(error)
    }
}
