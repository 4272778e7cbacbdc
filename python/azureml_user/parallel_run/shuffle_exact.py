"""Whole numbers of keys that became floats (`partition_keys`, spec D3).

A column of whole numbers is one of floats in a slice where a value is missing, or where another has a point.
Floats have not every whole number from 2**53 on: different keys would come together, and the same key of two
slices would part. So such numbers are taken from the data itself. What the job gets is as pandas has it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azureml_user.parallel_run.shuffle_split import Slice

# From here on a float has not every whole number.
_INEXACT = 2.0**53


def whole_numbers(column: Any, key: Any, raw: Slice) -> Any:
    """`column`, which is `key` of the slice `raw`, with its large whole numbers as the data has them."""
    import numpy

    if not isinstance(column.dtype, numpy.dtype) or column.dtype.kind != "f":
        return column
    values = column.to_numpy()
    places = numpy.flatnonzero(numpy.isfinite(values) & (numpy.abs(values) >= _INEXACT))
    if not len(places):
        return column
    written = _written(key, raw, column.index.to_numpy()[places])
    exact = column.astype(object).to_numpy(copy=True)
    for place, number in zip(places.tolist(), written):
        # A table may have made something else of the column.
        if number is not None and float(number) == values[place]:
            exact[place] = number
    return column.__class__(exact, index=column.index, dtype=object)


def _written(key: Any, raw: Slice, rows: Any) -> list[int | None]:
    """The whole numbers that these rows of a slice have in the column `key`."""
    if raw.table is not None:
        return _of_table(key, raw.table, rows)
    if raw.names is None:
        return [_of_line(key, raw, row) for row in rows.tolist()]
    texts = raw.texts.get(str(key))
    return [None] * len(rows) if texts is None else [_of_text(texts[row]) for row in rows.tolist()]


def _of_table(key: Any, table: Any, rows: Any) -> list[int | None]:
    import pyarrow

    at = table.schema.get_field_index(str(key))
    if at < 0 or not pyarrow.types.is_integer(table.schema.field(at).type):
        return [None] * len(rows)
    return table.column(at).take(pyarrow.array(rows)).to_pylist()


def _of_line(key: Any, raw: Slice, row: int) -> int | None:
    """The number in a line of JSON."""
    starts = memoryview(raw.starts).cast("Q")
    assert raw.lines is not None, "JSON lines are text"
    number = json.loads(raw.lines[starts[row] : starts[row + 1]]).get(key)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _of_text(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
