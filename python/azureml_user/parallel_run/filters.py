"""Which rows of a table a filter leaves (dialects B.4).

A filter comes as a tree; nothing of it is run as Python. A comparison with something missing does not hold,
but for those with `None`. A literal is brought to the type of the column it is compared with.
"""

from __future__ import annotations

import datetime
import operator
from typing import Any, Callable

import pandas
import pyarrow
import pyarrow.compute
from pyarrow import types

Operand = Any  # A mapping of one kind to its value, or "null".
Expression = Any  # A mapping of one kind to its parts.

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": pyarrow.compute.equal,
    "!=": pyarrow.compute.not_equal,
    "<": pyarrow.compute.less,
    "<=": pyarrow.compute.less_equal,
    ">": pyarrow.compute.greater,
    ">=": pyarrow.compute.greater_equal,
}
# What a comparison is with its sides changed.
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Unfit(ValueError):
    """Data that a step of a table cannot be done with; its text is for the author of the table."""


def columns_there(frame: Any) -> str:
    """The names of a frame, for a message."""
    return ", ".join(map(str, frame.columns))


def mask(expression: Expression, frame: Any) -> Any:
    """For each row of `frame` whether `expression` holds: an array of NumPy."""
    holds = _holds(expression, _Columns(frame))
    if isinstance(holds, bool):
        holds = pyarrow.array([holds]).take(pyarrow.array([0] * len(frame), pyarrow.int64()))
    return holds.to_numpy(zero_copy_only=False) if isinstance(holds, pyarrow.Array) else holds.to_numpy()


class _Columns:
    """The columns of a frame as Arrow, each made when it is first asked for."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._made: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._frame.columns:
                raise Unfit(
                    f"the filter names column {name!r}, which is not there; there are "
                    f"{columns_there(self._frame)}"
                )
            series = self._frame[name]
            if isinstance(series.dtype, pandas.DatetimeTZDtype):
                series = series.dt.tz_convert("UTC").dt.tz_localize(None)
            try:
                values = pyarrow.array(series, from_pandas=True)
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
                raise Unfit(
                    f"column {name!r} holds values of several types, which no filter compares: give it "
                    f"one by convert_column_types, before the filter ({error})"
                ) from error
            if types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            if (
                types.is_decimal(values.type)
                or types.is_float16(values.type)
                or types.is_float32(values.type)
            ):
                values = values.cast(pyarrow.float64())
            elif types.is_date(values.type):
                values = values.cast(pyarrow.timestamp("us"))
            self._made[name] = values
        return self._made[name]


def _holds(expression: Expression, columns: _Columns) -> Any:
    """An array of truth values without nulls, or one for all rows."""
    [(kind, parts)] = expression.items()
    if kind == "or":
        return _joined(parts, columns, pyarrow.compute.or_, operator.or_)
    if kind == "and":
        return _joined(parts, columns, pyarrow.compute.and_, operator.and_)
    if kind == "not":
        holds = _holds(parts, columns)
        return not holds if isinstance(holds, bool) else pyarrow.compute.invert(holds)
    if kind == "is_true":
        return _is_true(parts, columns)
    left, sign, right = parts
    if not _is_column(left):
        left, sign, right = right, _TURNED[sign], left
    return _compare(left["column"], sign, right, columns)


def _joined(parts: list[Expression], columns: _Columns, of_arrays: Any, of_bools: Any) -> Any:
    all_of_them = [_holds(part, columns) for part in parts]
    joined = all_of_them[0]
    for one in all_of_them[1:]:
        are_bools = isinstance(joined, bool) and isinstance(one, bool)
        joined = of_bools(joined, one) if are_bools else of_arrays(joined, one)
    return joined


def _is_true(operand: Operand, columns: _Columns) -> Any:
    if "boolean" in operand:
        return operand["boolean"]
    values = columns.get(operand["column"])
    if types.is_null(values.type):
        return False
    if not types.is_boolean(values.type):
        raise Unfit(
            f"column {operand['column']!r} holds values of type {values.type}, which are neither true "
            "nor false: compare it with something"
        )
    return values.fill_null(False)


def _is_column(operand: Operand) -> bool:
    return isinstance(operand, dict) and "column" in operand


def _compare(name: str, sign: str, other: Operand, columns: _Columns) -> Any:
    values = columns.get(name)
    if other == "null":
        return values.is_null() if sign == "==" else values.is_valid()
    if _is_column(other):
        values, compared = _alike(name, values, other["column"], columns.get(other["column"]))
    elif types.is_null(values.type):
        return False
    else:
        values, compared = _literal(name, values, sign, other)
    return _COMPARE[sign](values, compared).fill_null(False)


def _alike(name: str, values: Any, other: str, others: Any) -> tuple[Any, Any]:
    """Two columns with a type that both have."""
    both = values.type, others.type
    if both[0] == both[1]:
        return values, others
    if any(types.is_null(one) for one in both):
        return values.cast(both[1]) if types.is_null(both[0]) else values, (
            others.cast(both[0]) if types.is_null(both[1]) else others
        )
    for is_kind, kind in [
        (types.is_signed_integer, pyarrow.int64()),
        (lambda one: types.is_integer(one) or types.is_floating(one), pyarrow.float64()),
        (_is_text, pyarrow.large_string()),
    ]:
        if all(is_kind(one) for one in both):
            return values.cast(kind, safe=False), others.cast(kind, safe=False)
    if all(types.is_timestamp(one) and one.tz is None for one in both):
        return values.cast(pyarrow.timestamp("ns")), others.cast(pyarrow.timestamp("ns"))
    raise Unfit(
        f"the filter compares column {name!r} of type {both[0]} with column {other!r} of type {both[1]}: "
        "give them one type by convert_column_types, before the filter"
    )


def _is_text(kind: Any) -> bool:
    return types.is_string(kind) or types.is_large_string(kind)


def _literal(name: str, values: Any, sign: str, literal: Operand) -> tuple[Any, Any]:
    """A column and the literal that it is compared with, which has its type."""
    [(kind, given)] = literal.items()
    type_ = values.type
    try:
        if types.is_boolean(type_):
            return values, _BOOLEANS[str(given).lower()] if kind != "datetime" else _refuse()
        if types.is_integer(type_):
            number = _number(given) if kind in ("number", "text") else _refuse()
            try:
                return values, pyarrow.scalar(number if isinstance(number, int) else _refuse(), type_)
            except (ValueError, OverflowError, pyarrow.ArrowInvalid):
                return values.cast(pyarrow.float64(), safe=False), float(number)
        if types.is_floating(type_):
            return values, float(_number(given)) if kind in ("number", "text") else _refuse()
        if _is_text(type_):
            # By bytes, "10" is less than "9": who writes a number means another order.
            is_ordered = kind == "text" or (kind == "number" and sign in ("==", "!="))
            return values, given if is_ordered else _refuse()
        if types.is_timestamp(type_):
            return _moment(values, kind, given)
    except (ValueError, KeyError, OverflowError):
        pass
    shown = datetime.datetime(*given) if kind == "datetime" else given
    made = {"datetime": "dates", "number": "numbers"}.get(kind)
    hint = f": convert_column_types makes {made} of text" if made and _is_text(type_) else ""
    raise Unfit(f"column {name!r} is of type {type_}, and the filter compares it with {shown!r}{hint}")


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def _refuse() -> Any:
    raise ValueError


def _number(given: str) -> int | float:
    given = given.strip()
    if "_" in given:
        raise ValueError
    try:
        return int(given)
    except ValueError:
        number = float(given)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _moment(values: Any, kind: str, given: Any) -> tuple[Any, Any]:
    """A column of points in time, and one that it is compared with; without a zone, a literal is UTC."""
    if kind == "datetime":
        moment = pandas.Timestamp(datetime.datetime(*given))
    elif kind == "text":
        moment = pandas.Timestamp(given)
    else:
        raise ValueError
    if moment is pandas.NaT:
        raise ValueError
    if moment.tz is None:
        moment = moment.tz_localize("UTC")
    zone = values.type.tz
    since = moment - pandas.Timestamp(0, tz="UTC").as_unit(moment.unit)
    try:
        return values.cast(pyarrow.timestamp("ns", zone)), pyarrow.scalar(
            since.as_unit("ns").value, pyarrow.int64()
        ).cast(pyarrow.timestamp("ns", zone))
    except (ValueError, OverflowError, pyarrow.ArrowInvalid):
        # Nanoseconds reach from 1677 to 2262.
        microseconds = since.as_unit("us")._value if hasattr(since, "_value") else since.value // 1000
        return values.cast(pyarrow.timestamp("us", zone), safe=False), pyarrow.scalar(
            microseconds, pyarrow.int64()
        ).cast(pyarrow.timestamp("us", zone))
