"""Tabular mini-batches as DataFrames (spec E4).

The types are those `pandas.read_csv` gives in the pandas of the job's environment: whatever that pandas holds
text as, NaN for what is missing. Every array of a frame is its own, so that a script may write into it.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import Any

from azureml_user.parallel_run.errors import ScriptError

_OLDEST_PYARROW = 14


def check(inputs: Sequence[Any]) -> bool:
    """Whether an input is tabular; refuses one when what it needs is not installed. Imports nothing."""
    tabular = [one.name for one in inputs if one.kind == "tabular"]
    if not tabular:
        return False
    missing = [module for module in ("pandas", "pyarrow") if importlib.util.find_spec(module) is None]
    if missing:
        raise ScriptError(
            "ModuleNotFoundError",
            f"the input {tabular[0]!r} is tabular, so run() gets a pandas.DataFrame, and the job's "
            f"environment has no {' and no '.join(missing)}; install it there: "
            "python -m pip install pandas pyarrow",
        )
    return True


class Frames:
    """Makes the DataFrames of one process."""

    def __init__(self) -> None:
        import pandas
        import pyarrow

        if int(pyarrow.__version__.split(".")[0]) < _OLDEST_PYARROW:
            raise ScriptError(
                "ImportError",
                f"pyarrow {pyarrow.__version__} is too old for tabular inputs; "
                f"install {_OLDEST_PYARROW} or newer",
            )
        self._pandas = pandas
        self._pyarrow = pyarrow
        self._text_dtype: Any | None = None

    def index_of_names(self, names: list[str]) -> Any:
        """Column names from a header."""
        return self._pandas.Index(names)

    def index_of_positions(self, count: int) -> Any:
        """Column names where there is no header."""
        return self._pandas.Index(list(range(count)))

    def frame(self, columns: Any, names: Any) -> Any:
        """The DataFrame of Arrow columns."""
        batch = self._pyarrow.record_batch(columns)
        arrays = {position: self._array(column) for position, column in enumerate(batch.columns)}
        frame = self._pandas.DataFrame(arrays, index=self._pandas.RangeIndex(batch.num_rows))
        frame.columns = names
        return frame

    def _array(self, column: Any) -> Any:
        types = self._pyarrow.types
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        if is_text and hasattr(self._text(), "__from_arrow__"):
            return self._text().__from_arrow__(column)
        values = column.to_numpy(zero_copy_only=False)
        if column.null_count and values.dtype == object:
            values[column.is_null().to_numpy(zero_copy_only=False)] = float("nan")
        return values

    def _text(self) -> Any:
        """The dtype of text, found out when it is first needed: init() may have set an option of pandas."""
        if self._text_dtype is None:
            self._text_dtype = self._pandas.read_csv(io.StringIO("a\nx\n")).dtypes.iloc[0]
        return self._text_dtype
