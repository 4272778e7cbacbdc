"""What `run()` returned as JSON lines (`output_format: json_lines`).

A row of a DataFrame becomes an object, any other element the value that `json.dumps` makes of it. Columns are
made texts one by one, and rows of these texts: that is several times as fast as an encoder that is asked for
each row. Neither pandas' `to_json` nor Arrow does it: the one keeps 15 digits of a float, in the other all
dicts of a column get the keys of each.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any

_REMEDY = "convert it in run()"


class _NoJson(ValueError):
    """A value has no form in JSON; the message is what a sentence says of it."""


def of_elements(elements: Iterable[Any]) -> tuple[bytes, int]:
    """A line for each element, and how many there are."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(elements, (pandas.Series, pandas.Index)):
        elements = elements if isinstance(elements, pandas.Series) else pandas.Series(elements)
        texts, fault = _texts_of_column(elements)
    else:
        texts, fault = _texts_of_values(elements)
    if fault is not None:
        row, problem = fault
        raise ValueError(
            f"row {row} (counted from 0) of what run() returned cannot be written as JSON: "
            f"{problem}; {_REMEDY}"
        )
    # Empty for no element, else with an end after the last.
    return "\n".join([*texts, ""]).encode(), len(texts)


def of_table(table: Any) -> tuple[bytes, int]:
    """A line for each row of a DataFrame, with its columns in their order, and how many rows there are."""
    names = _names(table)
    columns = []
    for name, (_, column) in zip(names, table.items()):
        texts, fault = _texts_of_column(column)
        if fault is not None:
            row, problem = fault
            raise ValueError(
                f"column {name!r} of the DataFrame that run() returned cannot be written as JSON: {problem} "
                f"(row {row}, counted from 0); {_REMEDY}, or leave the column out"
            )
        columns.append(texts)
    line = "{" + ",".join(f"{encode_basestring(name).replace('%', '%%')}:%s" for name in names) + "}\n"
    lines = [line % row for row in zip(*columns)] if columns else ["{}\n"] * len(table)
    return "".join(lines).encode(), len(table)


def _names(table: Any) -> list[str]:
    """The names of the columns as `json.dumps` writes keys; refuses those that no object can have."""
    names: list[str] = []
    known = set()
    for given in table.columns.tolist():
        try:
            name = _key(given)
            name.encode()
        except ValueError:
            raise ValueError(
                f"a column of the DataFrame that run() returned is named {given!r}, which cannot be a name "
                "in JSON: give the columns names of text, with result.columns = NAMES"
            ) from None
        if name in known:
            raise ValueError(
                f"the DataFrame that run() returned has two columns named {name!r}, of which an object in "
                "JSON can have one: give the columns different names, with result.columns = NAMES"
            )
        known.add(name)
        names.append(name)
    return names


# The texts of values, and the first one that has none: its position, and what is wrong with it.
_Texts = tuple[list[str], "tuple[int, str] | None"]


def _texts_of_column(column: Any) -> _Texts:
    """The texts of the values of a Series."""
    import numpy
    import pandas

    dtype = column.dtype
    is_plain = isinstance(dtype, (numpy.dtype, pandas.DatetimeTZDtype))
    kind = dtype.kind if is_plain else ""
    if kind in ("i", "u"):
        return list(map(int.__repr__, column.tolist())), None
    if kind == "b":
        return ["true" if value else "false" for value in column.tolist()], None
    if kind == "f":
        values = column.to_numpy()
        if not numpy.isinf(values).any():
            # Narrow floats, as floats of Python, have digits that they do not need.
            floats = values.tolist() if dtype.itemsize == 8 else map(float, map(str, values))
            return [float.__repr__(value) if value == value else "null" for value in floats], None
    if kind == "M":
        texts = [f'"{value.isoformat()}"' if value == value else "null" for value in column.tolist()]
        return texts, None
    narrow = getattr(dtype, "numpy_dtype", dtype)
    if isinstance(narrow, numpy.dtype) and narrow.kind == "f" and narrow.itemsize < 8:
        return _texts_of_values(
            float(str(narrow.type(value))) if isinstance(value, float) else value for value in column.tolist()
        )
    return _texts_of_values(column.tolist())


def _texts_of_values(values: Iterable[Any]) -> _Texts:
    texts: list[str] = []
    try:
        for value in values:
            texts.append(_text(value))
    except _NoJson as error:
        return texts, (len(texts), str(error))
    return texts, None


def _text(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return int.__repr__(value)
    if value is None:
        return "null"
    if kind is float and not math.isinf(value):
        return float.__repr__(value) if value == value else "null"
    text = encode_basestring(value) if kind is str else _encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _NoJson(f"a text cannot be written as UTF-8: {error}") from None
    return text


def _encode(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        # NaN, a key that is no text, or a value without a form in JSON.
        pass
    except RecursionError:
        raise _NoJson("a value is nested too deeply") from None
    try:
        return _ENCODER.encode(_plain(value))
    except RecursionError:
        raise _NoJson("a value is nested too deeply, or holds itself") from None


def _plain(value: Any) -> Any:
    """`value` of the types of JSON alone, with `None` for NaN."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise _NoJson(f"{float.__repr__(value)} is no number in JSON")
        return None if value != value else value
    if isinstance(value, dict):
        plain = {_key(key): _plain(one) for key, one in value.items()}
        if len(plain) < len(value):
            raise _NoJson("a dict has two keys that are the same text in JSON")
        return plain
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return _plain(_simpler(value))


def _key(key: Any) -> str:
    """A key as `json.dumps` writes it."""
    if isinstance(key, str):
        return key
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(key, numpy.generic):
        key = _simpler(key)
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise _NoJson(f"a dict has a key of type {type(key).__name__}")


def _simpler(value: Any) -> Any:
    """What stands for a value that is of none of the types that `json` knows."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.Timedelta):
            return value.isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            return list(value) if value.ndim else value[()]
        if isinstance(value, numpy.bool_):
            return bool(value)
        if isinstance(value, numpy.integer) and not isinstance(value, numpy.timedelta64):
            return int(value)
        if isinstance(value, numpy.floating):
            # The shortest digits that give the value back in its own width.
            return float(str(value))
        if isinstance(value, numpy.datetime64):
            return None if numpy.isnat(value) else str(value)
    raise _NoJson(f"JSON has no value of type {type(value).__name__}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_simpler)
