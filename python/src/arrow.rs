//! Arrow arrays between Rust and pyarrow, through the Arrow C data interface; nothing is copied either way.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, StructArray, make_array};
use arrow_schema::{ArrowError, Field, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const SCHEMA_CAPSULE: &CStr = c"arrow_schema";
const ARRAY_CAPSULE: &CStr = c"arrow_array";

/// Columns that Python may take over once; their names are their positions.
#[pyclass(frozen, module = "prs_process")]
pub(crate) struct ArrowColumns {
    columns: StructArray,
}

impl ArrowColumns {
    /// Columns of `rows` values each.
    pub(crate) fn new(columns: Vec<ArrayRef>, rows: usize) -> Result<Self, ArrowError> {
        let fields: Fields = columns
            .iter()
            .enumerate()
            .map(|(position, column)| Field::new(position.to_string(), column.data_type().clone(), true))
            .collect();
        let columns = if columns.is_empty() {
            StructArray::new_empty_fields(rows, None)
        } else {
            StructArray::try_new(fields, columns, None)?
        };
        Ok(Self { columns })
    }
}

#[pymethods]
impl ArrowColumns {
    /// The Arrow `PyCapsule` interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface lets the producer give what it has.
        let _ = requested_schema;
        let (array, schema) = to_ffi(&self.columns.to_data()).map_err(value_error)?;
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA_CAPSULE)?,
            PyCapsule::new_with_value(py, array, ARRAY_CAPSULE)?,
        ))
    }
}

/// Takes over an array of pyarrow's.
#[expect(unsafe_code, reason = "the C data interface hands over structures by pointer")]
pub(crate) fn import(array: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let py = array.py();
    let capsules = array.call_method0(intern!(py, "__arrow_c_array__"))?.cast_into::<PyTuple>()?;
    let schema = capsules.get_item(0)?.cast_into::<PyCapsule>()?;
    let array = capsules.get_item(1)?.cast_into::<PyCapsule>()?;
    let schema_at: NonNull<FFI_ArrowSchema> = schema.pointer_checked(Some(SCHEMA_CAPSULE))?.cast();
    let array_at: NonNull<FFI_ArrowArray> = array.pointer_checked(Some(ARRAY_CAPSULE))?.cast();
    // SAFETY: capsules of these names hold valid structures of the C data interface; the array is moved out of
    // its capsule, which the interface asks of a consumer, and the schema outlives the call.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array_at.as_ptr()), schema_at.as_ref()) };
    Ok(make_array(data.map_err(value_error)?))
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn value_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
