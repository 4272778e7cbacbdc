"""`convert_column_types` of an MLTable (dialects B.3).

A value that does not convert is missing then, and counted. What a value becomes depends on the value alone,
so each distinct one is looked at once.
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any, Callable

import numpy
import pandas

from azureml_user.parallel_run.filters import Unfit

_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|nan|inf(inity)?)",
    re.ASCII | re.IGNORECASE,
)
_TIMES = ["%H:%M:%S", "%H:%M:%S.%f", "%H:%M"]
# Directives that say which day it is.
_DAY = re.compile(r"%[YymbBd]")
# The day that pandas takes where none is given.
_NO_DAY = pandas.Timestamp("1900-01-01")


class Converted:
    """A column of another type, and what did not convert."""

    def __init__(self, values: Any, given: Any) -> None:
        """`values` has nulls where `given` has, and where it did not convert."""
        self.values = values
        misfits = numpy.asarray(pandas.isna(values)) & ~numpy.asarray(pandas.isna(given))
        self.misfits = int(misfits.sum())
        self.first = given.iloc[int(misfits.argmax())] if self.misfits else None


def convert(series: Any, to: Any, text: Callable[[list[str | None]], Any]) -> Converted:
    """`series` with the type `to`; `text` makes a column of text."""
    kind, details = (to, {}) if isinstance(to, str) else next(iter(to.items()))
    if kind == "int":
        return Converted(_ints(_each(series, _int)), series)
    if kind == "float":
        converted = _each(series, _float)
        values = numpy.array([numpy.nan if value is None else value for value in converted], dtype="float64")
        # A value that says that it is no number has converted.
        misfits = [value is None for value in converted]
        found = Converted(
            pandas.Series([None if misfit else 0 for misfit in misfits], dtype="object"), series
        )
        found.values = values
        return found
    if kind == "string":
        return Converted(text(_each(series, str)), series)
    if kind == "boolean":
        values = _each(series, _boolean(details))
        dtype = "boolean" if any(value is None for value in values) else "bool"
        return Converted(pandas.array(values, dtype=dtype), series)
    return Converted(_datetimes(series, **details), series)


def without_empty(series: Any, to: Any) -> Any:
    """`series` with nothing in place of empty text, unless the type `to` has a value for that."""
    kind, details = (to, {}) if isinstance(to, str) else next(iter(to.items()))
    named = [*(details.get("true_values") or []), *(details.get("false_values") or [])]
    if kind == "string" or "" in named:
        return series
    is_empty = numpy.array([isinstance(value, str) and not value for value in series], dtype="bool")
    return series.mask(is_empty) if is_empty.any() else series


def _each(series: Any, convert_one: Callable[[Any], Any]) -> list[Any]:
    """What `convert_one` makes of each value; None for what is missing."""
    try:
        codes, distinct = pandas.factorize(series)
    except TypeError:
        # Lists and mappings have no hash.
        return [convert_one(value) if _is_there(value) else None for value in series]
    # Of what is equal and of several types, such as True and 1, one would stand for all.
    if series.dtype == object and len({type(value) for value in distinct}) > 1:
        return [convert_one(value) if _is_there(value) else None for value in series]
    made = [convert_one(value) for value in distinct]
    return [None if code < 0 else made[code] for code in codes.tolist()]


def _is_there(value: Any) -> bool:
    missing = pandas.isna(value)
    return not (isinstance(missing, (bool, numpy.bool_)) and missing)


def _int(value: Any) -> int | None:
    if isinstance(value, str):
        stripped = value.strip()
        if not _WHOLE.fullmatch(stripped):
            return None
        number = int(stripped.partition(".")[0])
    elif isinstance(value, (float, numpy.floating)):
        if not float(value).is_integer():
            return None
        number = int(value)
    elif isinstance(value, decimal.Decimal):
        if not value.is_finite() or value != value.to_integral_value():
            return None
        number = int(value)
    elif isinstance(value, (bool, int, numpy.bool_, numpy.integer)):
        number = int(value)
    else:
        return None
    return number if -(2**63) <= number < 2**63 else None


def _ints(values: list[int | None]) -> Any:
    if any(value is None for value in values):
        return pandas.array(values, dtype="Int64")
    return numpy.array(values, dtype="int64")


def _float(value: Any) -> float | None:
    if isinstance(value, str):
        stripped = value.strip()
        return float(stripped) if _NUMBER.fullmatch(stripped) else None
    if isinstance(value, decimal.Decimal):
        return float(value) if value.is_finite() else None
    is_number = isinstance(value, (bool, int, float, numpy.bool_, numpy.integer, numpy.floating))
    return float(value) if is_number else None


def _boolean(details: dict[str, Any]) -> Callable[[Any], bool]:
    truths, falsehoods = details.get("true_values"), details.get("false_values")
    has_lists = truths is not None

    def convert_one(value: Any) -> bool:
        if isinstance(value, (bool, numpy.bool_)):
            return bool(value)
        whole = _int(value)
        shown = str(value) if has_lists else str(value).strip().lower()
        # A whole number is the same however it is written: 1.0 is 1.
        for one in [shown] if whole is None else [shown, str(whole)]:
            if one in (truths if has_lists else ("true", "1")):
                return True
            if one in (falsehoods if has_lists else ("false", "0")):
                return False
        if details.get("mismatch_as") is None:
            raise Unfit(
                f"{value!r} is neither true nor false: add it to true_values or false_values, or give "
                "mismatch_as: true or false"
            )
        return bool(details["mismatch_as"])

    return convert_one


def _datetimes(series: Any, formats: list[str], date_constant: str | None) -> Any:
    """Points in time without a zone; those that have one are moved to UTC."""
    if pandas.api.types.is_datetime64_any_dtype(series.dtype):
        return _nanoseconds(pandas.to_datetime(series, utc=True))
    is_there = series.notna().tolist()
    texts = pandas.Series([value if isinstance(value, str) else None for value in series], dtype="object")
    # What Parquet has as dates; of this, only strings are for the formats.
    days = pandas.Series(
        [
            value if there and isinstance(value, datetime.date) else None
            for value, there in zip(series, is_there)
        ],
        dtype="object",
    )
    shift = pandas.Timedelta(0)
    if date_constant is not None:
        try:
            shift = pandas.Timestamp(date_constant) - _NO_DAY
        except ValueError as error:
            raise Unfit(f"date_constant {date_constant!r} is no day: {error}") from error
    tried = formats or ["ISO8601", *(_TIMES if date_constant is not None else [])]
    found = _nanoseconds(pandas.to_datetime(days, errors="coerce", utc=True))
    for one in tried:
        left = texts[found.isna() & texts.notna()]
        if left.empty:
            break
        parsed = _nanoseconds(pandas.to_datetime(left, format=one, errors="coerce", utc=True))
        if date_constant is not None and one != "ISO8601" and not _DAY.search(one):
            parsed = parsed + shift
        found.loc[left.index] = parsed
    return found


def _nanoseconds(moments: Any) -> Any:
    """The same as datetime64[ns] without a zone; nothing for what lies beyond."""
    plain = moments.dt.tz_localize(None)
    within = (plain >= pandas.Timestamp.min) & (plain <= pandas.Timestamp.max)
    return plain.where(within).astype("datetime64[ns]")
