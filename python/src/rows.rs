//! The bytes of the rows of one mini-batch: text of Python is appended without a copy in between, and there is a most.

use std::ffi::c_char;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::outbox::MAX_ROWS;

/// Appends `text` and its `end`.
#[inline]
pub(crate) fn append(rows: &mut Vec<u8>, text: &[u8], end: &[u8]) -> PyResult<()> {
    refuse_too_many(rows.len() + text.len() + end.len())?;
    rows.extend_from_slice(text);
    rows.extend_from_slice(end);
    Ok(())
}

/// Refuses rows of more bytes than one mini-batch can return.
#[inline]
pub(crate) fn refuse_too_many(bytes: usize) -> PyResult<()> {
    if bytes <= MAX_ROWS {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "the rows of this mini-batch are larger than {MAX_ROWS} bytes, which is the most one mini-batch can \
         return; make the mini-batches smaller, or write files below EntryScript().output_dir"
    )))
}

/// Calls `use_text` with the text of `text`, without making a bytes object of it.
#[expect(unsafe_code, reason = "the stable interface of Python 3.9 has no way to borrow a string's text")]
#[inline]
pub(crate) fn with_utf8<T>(text: &Bound<'_, PyString>, use_text: impl FnOnce(&str) -> T) -> PyResult<T> {
    let mut size: ffi::Py_ssize_t = 0;
    // SAFETY: `text` is a str and the interpreter is held; the text lives as long as the str does, which is
    // longer than the call of `use_text`.
    unsafe {
        let data = PyUnicode_AsUTF8AndSize(text.as_ptr(), &raw mut size);
        if data.is_null() {
            return Err(PyErr::fetch(text.py()));
        }
        let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size as usize);
        Ok(use_text(std::str::from_utf8_unchecked(bytes)))
    }
}

#[expect(
    unsafe_code,
    reason = "exported by every CPython since 3.3, part of the stable interface since 3.10"
)]
unsafe extern "C" {
    fn PyUnicode_AsUTF8AndSize(text: *mut ffi::PyObject, size: *mut ffi::Py_ssize_t) -> *const c_char;
}
