"""Keys of groups that are columns of the data (`partition_keys`, spec D3): which rows are of one group, and
how a key travels.

A key is written as a JSON list of a letter for its type and its value. Two rows are of one group where their
keys are equal as `pandas.DataFrame.groupby(dropna=False)` has it: numbers by value, whatever their type, all
that is missing (None, NaN, NaT) as one. A key is shown as the first row of its group has it.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

_MISSING = '["n"]'
# More digits than any decimal of Arrow has.
_EXACT = decimal.Context(prec=100)


class NoKey(ValueError):
    """Values of a column cannot be told apart as keys."""


def codes(frame: Any, keys: Sequence[str]) -> tuple[Any, Any]:
    """For each row of `frame` the number of its group, and for each group the position of its first row.
    Groups are numbered in the order of their first rows."""
    import numpy
    import pandas

    combined = numpy.zeros(len(frame), dtype="int64")
    for key in keys:
        try:
            numbers, values = pandas.factorize(_told_apart(key, frame[key]))
        except TypeError as error:
            raise NoKey(
                f"column {key!r} of partition_keys holds values that are no keys ({error}): give a column of "
                "numbers, text, truth values or times"
            ) from None
        # What is missing has -1.
        combined = combined * (len(values) + 1) + (numbers + 1)
        combined = pandas.factorize(combined)[0].astype("int64", copy=False)
    rows = numpy.arange(len(combined))
    first = numpy.empty(int(combined.max()) + 1 if len(combined) else 0, dtype="int64")
    # Of several values for a place, the last one stays.
    first[combined[::-1]] = rows[::-1]
    return combined, first


def _told_apart(key: str, column: Any) -> Any:
    """`column`, or what its values are compared by where pandas takes different ones for equal: `True`, 1."""
    if column.dtype != object or not any(type(value).__name__ in ("bool", "bool_") for value in column):
        return column
    compared = [encoded(key, value)[1] for value in column]
    return column.__class__([None if text == _MISSING else text for text in compared], dtype=object)


def encoded(column: str, value: Any) -> tuple[str, str]:
    """A key as it is shown, and as it is compared: text of JSON."""
    try:
        return _encoded(column, value)
    except (OverflowError, NotImplementedError) as error:
        # pandas has times that Python has not.
        raise NoKey(
            f"column {column!r} of partition_keys holds a {type(value).__name__} that is out of range "
            f"({error}): leave such rows out with a filter, or give a column of text"
        ) from None


def _encoded(column: str, value: Any) -> tuple[str, str]:
    import pandas

    if value is None or value is pandas.NaT or value is pandas.NA:
        return _MISSING, _MISSING
    if hasattr(value, "item") and not isinstance(value, pandas.Timestamp):
        value = value.item()
    if isinstance(value, bool):
        return _twice("b", value)
    if isinstance(value, int):
        return _twice("i", value)
    if isinstance(value, float):
        if math.isnan(value):
            return _MISSING, _MISSING
        shown = _text("f", value.hex())
        return (shown, _text("i", int(value))) if value.is_integer() else (shown, shown)
    if isinstance(value, str):
        return _twice("t", value)
    if isinstance(value, pandas.Timestamp):
        zone = None if value.tz is None else str(value.tz)
        compared = value if zone is None else value.tz_convert("UTC")
        shown = _text("z", [value.isoformat(), zone, getattr(value, "unit", "ns")])
        return shown, _text("z", compared.isoformat())
    if isinstance(value, datetime.datetime):
        return encoded(column, pandas.Timestamp(value))
    if isinstance(value, datetime.date):
        return _twice("d", value.isoformat())
    if isinstance(value, (pandas.Timedelta, datetime.timedelta)):
        return _twice("e", pandas.Timedelta(value).value)
    if isinstance(value, Decimal):
        if value.is_nan():
            return _MISSING, _MISSING
        shown = _text("m", str(value))
        if value.is_finite() and value == value.to_integral_value(context=_EXACT):
            return shown, _text("i", int(value))
        # A float of another column may have the same value.
        near = float(value)
        if Decimal(near) == value:
            return shown, _text("f", near.hex())
        return shown, _text("m", str(value.normalize(_EXACT)))
    if isinstance(value, bytes):
        return _twice("x", value.hex())
    raise NoKey(
        f"column {column!r} of partition_keys holds a value of type {type(value).__name__}: give a column of "
        "numbers, text, truth values or times"
    )


def _twice(kind: str, value: Any) -> tuple[str, str]:
    text = _text(kind, value)
    return text, text


def _text(kind: str, value: Any) -> str:
    return json.dumps([kind, value], separators=(",", ":"))


def decoded(text: str) -> Any:
    """The key that `encoded` wrote."""
    kind, *rest = json.loads(text)
    if kind == "n":
        return None
    [value] = rest
    if kind in "bit":
        return value
    if kind == "f":
        return float.fromhex(value)
    if kind == "d":
        return datetime.date.fromisoformat(value)
    if kind == "m":
        return Decimal(value)
    if kind == "x":
        return bytes.fromhex(value)
    import pandas

    if kind == "e":
        return pandas.Timedelta(value)
    written, zone, unit = value
    time = pandas.Timestamp(written)
    if zone is not None:
        time = time.tz_convert(zone)
    return time.as_unit(unit) if hasattr(time, "as_unit") else time
