"""What `predict` of an MLflow model returned, as rows of a CSV file: the number of the row within its file
from 0, the prediction or the columns of it, and the name of the file.

Numbers have the fewest digits that give them back, a missing value is nothing, what has a structure is JSON,
bytes are Base64 and times are ISO 8601.
"""

from __future__ import annotations

import base64
import datetime
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_EXPECTED = "expected is an array, a Series, a DataFrame, a list, or a dict of columns"


def written(prediction: Any, file: str) -> tuple[bytes, int]:
    """The rows, and how many there are. Raises where there are no rows to be had."""
    columns, count = _columns(prediction)
    end = f",{_quoted(file)}\n"
    rows = [f"{row},{','.join(cells)}{end}" for row, cells in enumerate(zip(*columns))]
    return "".join(rows).encode(), count


def _columns(prediction: Any) -> tuple[list[list[str]], int]:
    """The fields of each column, and how many rows there are."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(prediction, pandas.DataFrame):
        columns = [_cells(prediction.iloc[:, at]) for at in range(prediction.shape[1])]
        if not columns and len(prediction):
            raise ValueError("predict() returned a DataFrame without columns")
        return columns, len(prediction)
    if isinstance(prediction, Mapping):
        columns = [_cells(_listed(column)) for column in prediction.values()]
        lengths = {str(name): len(cells) for name, cells in zip(prediction, columns)}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"predict() returned a dict whose columns have different lengths: {shown}")
        return columns, len(columns[0]) if columns else 0
    cells = _cells(_listed(prediction))
    return [cells], len(cells)


def _listed(prediction: Any) -> Any:
    """`prediction` as something with one element for each row."""
    import numpy

    if prediction is None:
        raise TypeError(f"predict() returned None; {_EXPECTED}")
    if hasattr(prediction, "toarray"):
        # A sparse matrix.
        prediction = prediction.toarray()
    if isinstance(prediction, (str, bytes, bytearray, bool, int, float, complex, numpy.generic)):
        return [prediction]
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(prediction, (pandas.Series, pandas.Index)):
        return prediction
    if hasattr(prediction, "__array__"):
        array = numpy.asarray(prediction)
        return array if array.ndim else array.reshape(1)
    if isinstance(prediction, (Sequence, Iterable)):
        return list(prediction)
    raise TypeError(f"predict() returned a {type(prediction).__name__}; {_EXPECTED}")


def _cells(column: Any) -> list[str]:
    """The fields of a column."""
    import numpy

    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, numpy.dtype) and getattr(column, "ndim", 1) == 1:
        if dtype.kind in "iu":
            return list(map(int.__repr__, column.tolist()))
        if dtype.kind == "f":
            # Narrow floats, as floats of Python, have digits that they do not need.
            values = column.tolist() if dtype.itemsize == 8 else numpy.asarray(column)
            return ["" if value != value else str(value) for value in values]
    return [_cell(value) for value in column]


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, (list, dict)):
        return _quoted(json.dumps(plain, ensure_ascii=False))
    return _quoted(str(plain))


def _quoted(text: str) -> str:
    if any(character in text for character in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _plain(value: Any) -> Any:
    """`value` of the types of JSON alone, with `None` for what is missing."""
    import numpy

    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and not isinstance(value, numpy.generic):
        return None if value != value else value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    if isinstance(value, numpy.ndarray):
        return [_plain(one) for one in value] if value.ndim else _plain(value[()])
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
            kind = pandas.Timestamp if isinstance(value, numpy.datetime64) else pandas.Timedelta
            return _plain(kind(value))
        if isinstance(value, pandas.Timedelta):
            return value.isoformat()
        if isinstance(value, pandas.Series):
            return [_plain(one) for one in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, numpy.bool_):
        return bool(value)
    if isinstance(value, numpy.integer):
        return int(value)
    if isinstance(value, numpy.floating):
        # The fewest digits that give the value back in its own width.
        return None if value != value else float(str(value))
    return str(value)
