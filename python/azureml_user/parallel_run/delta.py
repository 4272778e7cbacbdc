"""Rows of a file of a Delta table with the columns of the table (dialects B.2).

The log of the table says which columns there are, and of which types; a file may have them in another order,
with an older type, or not at all, where it was written before they were added. Values of partition columns
are in the log, not in the file.
"""

from __future__ import annotations

import decimal
import json
from typing import Any

import pyarrow

# The types of a log that have no parts, but for decimals.
_TYPES = {
    "string": pyarrow.string(),
    "byte": pyarrow.int8(),
    "short": pyarrow.int16(),
    "integer": pyarrow.int32(),
    "long": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "binary": pyarrow.binary(),
    "date": pyarrow.date32(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "timestamp_ntz": pyarrow.timestamp("us"),
}

# A column: its name, its type as JSON, whether its values are in the file, and else the one in the log.
Column = tuple[str, str, bool, "str | None"]


def with_columns_of_table(table: Any, columns: list[Column]) -> Any:
    """The rows of `table`, which a file has, with these columns."""
    arrays, fields = [], []
    for name, described, is_of_file, value in columns:
        kind = arrow_type(json.loads(described))
        if not is_of_file:
            array = pyarrow.repeat(_value(name, value, kind), table.num_rows)
        elif name in table.column_names:
            array = _converted(table.column(name), kind)
        else:
            array = pyarrow.nulls(table.num_rows, kind)
        arrays.append(array)
        fields.append(pyarrow.field(name, array.type))
    return pyarrow.table(arrays, schema=pyarrow.schema(fields))


def arrow_type(kind: Any) -> Any:
    """The type that a log describes; that of nothing where it is not known."""
    if isinstance(kind, dict):
        parts = kind.get("type")
        if parts == "array":
            return pyarrow.list_(arrow_type(kind["elementType"]))
        if parts == "map":
            return pyarrow.map_(arrow_type(kind["keyType"]), arrow_type(kind["valueType"]))
        if parts == "struct":
            return pyarrow.struct([(field["name"], arrow_type(field["type"])) for field in kind["fields"]])
        return pyarrow.null()
    if kind.startswith("decimal"):
        precision, scale = kind[len("decimal(") : -1].split(",")
        return pyarrow.decimal128(int(precision), int(scale))
    return _TYPES.get(kind, pyarrow.null())


def _converted(column: Any, kind: Any) -> Any:
    """A column of a file as the type of the table; of a type that is not known, as it is, and so is one whose
    parts are others than those of the table."""
    types = pyarrow.types
    if column.type == kind or types.is_null(kind):
        return column
    if not types.is_nested(kind):
        return column.cast(kind)
    try:
        return column.cast(kind)
    except pyarrow.ArrowException:
        return column


def _value(name: str, text: str | None, kind: Any) -> Any:
    """What a log has for a partition column."""
    types = pyarrow.types
    if text is None:
        return pyarrow.scalar(None, kind)
    try:
        if types.is_decimal(kind):
            return pyarrow.scalar(decimal.Decimal(text), kind)
        if types.is_binary(kind):
            return pyarrow.scalar(text.encode(), kind)
        if types.is_timestamp(kind):
            return _time(text, kind)
        return pyarrow.scalar(text, pyarrow.string()).cast(kind)
    except (ArithmeticError, ValueError) as error:
        raise ValueError(
            f"the log of the table has {text!r} for the partition column {name!r}, which is no {kind}: "
            f"{error}"
        ) from error


def _time(text: str, kind: Any) -> Any:
    """A point in time, in UTC where it has no zone."""
    has_zone = text.endswith("Z") or "+" in text or text.count("-") > 2
    if has_zone:
        return pyarrow.scalar(text, pyarrow.string()).cast(pyarrow.timestamp("us", tz="UTC")).cast(kind)
    return pyarrow.scalar(text, pyarrow.string()).cast(pyarrow.timestamp("us")).cast(kind)
