//! Tables of results: rows of flat JSON objects as an Arrow table.
//!
//! A column has whole numbers if all of its cells do, numbers if all are numbers, truths if all are, texts otherwise;
//! missing cells are null.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Map, Value};

use crate::errors::SeeklessError;

/// A stream of batches, as the Arrow `PyCapsule` interface has it.
pub fn stream(py: Python<'_>, batches: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), c"arrow_array_stream")
}

/// A schema, as the Arrow `PyCapsule` interface has it.
pub fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| raised(&error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// The exception of an error of Arrow.
pub fn raised(error: &ArrowError) -> PyErr {
    SeeklessError::new_err(error.to_string())
}

/// A table in memory, for any library that takes Arrow data: `polars.DataFrame(table)`, `pyarrow.table(table)`.
#[pyclass(frozen, module = "seekless")]
pub struct Table(RecordBatch);

impl Table {
    /// A table of one batch.
    pub fn new(batch: RecordBatch) -> Table {
        Table(batch)
    }
}

#[pymethods]
impl Table {
    /// Makes a table of the columns with these names, of a JSON text: a list of flat objects.
    #[new]
    fn of_json(names: Vec<String>, text: &str) -> PyResult<Table> {
        let rows: Vec<Map<String, Value>> =
            serde_json::from_str(text).map_err(|error| SeeklessError::new_err(error.to_string()))?;
        let columns = names.into_iter().map(|name| {
            let cells: Vec<Option<&Value>> =
                rows.iter().map(|row| row.get(&name).filter(|cell| !cell.is_null())).collect();
            let (kind, cells) = column(&cells);
            (Field::new(name, kind, true), cells)
        });
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        if columns.is_empty() {
            return Ok(Table(RecordBatch::new_empty(Arc::new(Schema::empty()))));
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        batch.map(Table).map_err(|error| raised(&error))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The schema, by the Arrow `PyCapsule` interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema(py, &self.0.schema())
    }

    /// The data, by the Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish, which a producer may leave unfulfilled.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        stream(py, Box::new(batches))
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<seekless.Table of {} rows: {names}>", self.0.num_rows())
    }
}

fn column(cells: &[Option<&Value>]) -> (DataType, ArrayRef) {
    let all = |is: fn(&Value) -> bool| cells.iter().flatten().all(|cell| is(cell));
    if all(Value::is_i64) && cells.iter().any(Option::is_some) {
        let numbers = cells.iter().map(|cell| cell.and_then(Value::as_i64));
        (DataType::Int64, Arc::new(numbers.collect::<Int64Array>()))
    } else if all(Value::is_number) {
        let numbers = cells.iter().map(|cell| cell.and_then(Value::as_f64));
        (DataType::Float64, Arc::new(numbers.collect::<Float64Array>()))
    } else if all(Value::is_boolean) {
        let truths = cells.iter().map(|cell| cell.and_then(Value::as_bool));
        (DataType::Boolean, Arc::new(truths.collect::<BooleanArray>()))
    } else {
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        let texts = cells.iter().map(|cell| cell.map(text));
        (DataType::Utf8, Arc::new(texts.collect::<StringArray>()))
    }
}
