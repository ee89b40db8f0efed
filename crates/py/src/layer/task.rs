//! A method of a class from its call to its answer: a plain function, a generator or a coroutine, which stops at each
//! request below and goes on with its result.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyType};
use seekless_core::{Buffer, Extent, Hints, IoError, SECTOR_BYTES};

use super::data::Data;
use super::request::Request;
use super::{Call, PythonLayer, called};
use crate::errors::LayerError;

/// The result of a request below, and the answer of a method.
pub enum Got {
    Nothing,
    Data(Buffer),
    All(Vec<Got>),
}

impl Got {
    pub fn of((): ()) -> Got {
        Got::Nothing
    }

    fn object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Got::Nothing => Ok(py.None().into_bound(py)),
            Got::Data(buffer) => Ok(Bound::new(py, Data(buffer))?.into_any()),
            Got::All(all) => {
                let all = all.into_iter().map(|got| got.object(py)).collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, all)?.into_any())
            }
        }
    }
}

/// Why a method has no answer.
pub enum Fault {
    /// A device below failed, or the method raised the error of one.
    Io(IoError),
    /// The method raised something else, or broke the rules.
    Raised(PyErr),
}

/// What a method does next.
enum Step {
    Answers(Got),
    /// It goes on with the result of a request.
    Requests(Py<PyAny>, Request),
    /// Its answer is that of a request.
    Passes(Request),
}

/// Calls a method, and carries out its requests until it answers.
pub async fn follow(layer: &PythonLayer, call: &Call, how: &Hints) -> Result<Got, Fault> {
    let mut step = called(|py| begin(py, layer, call));
    loop {
        match step? {
            Step::Answers(got) => return Ok(got),
            Step::Passes(request) => {
                let got = layer.carry_out(request, how).await.map_err(Fault::Io)?;
                fits(call, &got)?;
                return Ok(got);
            }
            Step::Requests(task, request) => {
                let got = layer.carry_out(request, how).await;
                step = called(|py| resume(py, layer, call, task.into_bound(py), got));
            }
        }
    }
}

fn begin(py: Python<'_>, layer: &PythonLayer, call: &Call) -> Result<Step, Fault> {
    let (object, method) = (layer.layer.bind(py), call.method());
    let result = match call {
        Call::Write(at, from) => object.call_method1(method, (at.start.0, Data(from.clone()))),
        Call::Read(at) | Call::Discard(at) => object.call_method1(method, (at.start.0, at.sectors)),
        Call::Named(_) => object.call_method0(method),
        Call::Spawned(work) => return resume(py, layer, call, work.bind(py).clone(), Ok(Got::Nothing)),
    };
    let result = result.map_err(|error| fault(layer, call, error))?;
    if result.hasattr(pyo3::intern!(py, "send"))? {
        return resume(py, layer, call, result, Ok(Got::Nothing));
    }
    ended(layer, call, &result)
}

/// Lets a generator or a coroutine go on.
fn resume(
    py: Python<'_>,
    layer: &PythonLayer,
    call: &Call,
    task: Bound<'_, PyAny>,
    got: Result<Got, IoError>,
) -> Result<Step, Fault> {
    let next = match got {
        Ok(got) => task.call_method1(pyo3::intern!(py, "send"), (got.object(py)?,)),
        Err(error) => task.call_method1(pyo3::intern!(py, "throw"), (super::error::object(py, &error)?,)),
    };
    match next {
        Ok(request) if is_request(&request) => match layer.request_of(&request) {
            Ok(request) => Ok(Step::Requests(task.unbind(), request)),
            // Raised where it was asked for, for the sake of the traceback.
            Err(error) => {
                let next = task.call_method1(pyo3::intern!(py, "throw"), (error.into_value(py),));
                Err(next.map_or_else(|error| fault(layer, call, error), |_| wrong("went on after an error")))
            }
        },
        Ok(other) => Err(yielded(&other)),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
            ended(layer, call, &error.value(py).getattr(pyo3::intern!(py, "value"))?)
        }
        Err(error) => Err(fault(layer, call, error)),
    }
}

/// Whether this is a `Request` of `_layer.py`.
fn is_request(object: &Bound<'_, PyAny>) -> bool {
    static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let request = REQUEST.import(object.py(), "seekless._layer", "Request");
    request.and_then(|request| object.is_instance(request)).unwrap_or(false)
}

fn wrong(what: impl Into<String>) -> Fault {
    Fault::Raised(LayerError::new_err(what.into()))
}

/// The mistake of a method that yields what is no request.
fn yielded(other: &Bound<'_, PyAny>) -> Fault {
    if other.is_instance_of::<Data>() || other.is_instance_of::<PyBytes>() {
        return wrong("found an answer that was yielded, expected it returned: a request is answered once");
    }
    wrong(format!("found {} awaited, expected requests to devices below", shown(other)))
}

fn shown(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string())
}

/// A method has returned this.
fn ended(layer: &PythonLayer, call: &Call, result: &Bound<'_, PyAny>) -> Result<Step, Fault> {
    if is_request(result) {
        return Ok(Step::Passes(layer.request_of(result)?));
    }
    let got = match result.cast::<Data>() {
        Ok(data) => Got::Data(data.borrow().0.clone()),
        Err(_) if result.is_none() => Got::Nothing,
        Err(_) => {
            return Err(wrong(format!("found {} returned, expected {}", shown(result), expected(call))));
        }
    };
    fits(call, &got)?;
    Ok(Step::Answers(got))
}

fn expected(call: &Call) -> String {
    match call {
        Call::Read(Extent { sectors, .. }) => format!("Data of {sectors} sectors"),
        _ => "nothing".to_owned(),
    }
}

/// Refuses an answer that does not fit its request.
fn fits(call: &Call, got: &Got) -> Result<(), Fault> {
    let found = match (call, got) {
        (Call::Read(at), Got::Data(data)) if data.len() as u64 == at.bytes() => return Ok(()),
        (Call::Read(_), Got::Nothing) => "nothing".to_owned(),
        (_, Got::All(_)) => "several answers".to_owned(),
        (_, Got::Nothing) => return Ok(()),
        (_, Got::Data(data)) => format!("{} sectors", data.len() as u64 / SECTOR_BYTES),
    };
    Err(wrong(format!("found {found} returned, expected {}", expected(call))))
}

/// What a method has raised.
fn fault(layer: &PythonLayer, call: &Call, error: PyErr) -> Fault {
    match super::error::back(layer.name, call.extent(), &error) {
        Some(error) => Fault::Io(error),
        None => Fault::Raised(error),
    }
}
