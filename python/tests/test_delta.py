"""Files of a Delta table: the columns that the table has, of the types that its log says (dialects B.2)."""

from __future__ import annotations

import datetime
import decimal
import json
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import PACKAGE, row_groups

sys.path.append(str(PACKAGE.parent))
from azureml_user.parallel_run import delta, parquet
from azureml_user.parallel_run.parquet_types import WholeTypes

UTC = datetime.timezone.utc


def of_file(name, kind):
    return (name, json.dumps(kind), True, None)


def of_log(name, kind, value):
    return (name, json.dumps(kind), False, value)


def test_values_of_the_log_have_the_types_of_the_table():
    for kind, text, value in [
        ("string", "a b", "a b"),
        ("byte", "-3", -3),
        ("short", "7", 7),
        ("integer", "7", 7),
        ("long", "9007199254740993", 9007199254740993),
        ("float", "1.5", 1.5),
        ("double", "-Infinity", float("-inf")),
        ("boolean", "true", True),
        ("binary", "ab", b"ab"),
        ("date", "2024-02-29", datetime.date(2024, 2, 29)),
        ("decimal(10,2)", "1.50", decimal.Decimal("1.50")),
        ("timestamp", "2024-05-01 02:03:04.5", datetime.datetime(2024, 5, 1, 2, 3, 4, 500000, UTC)),
        ("timestamp", "2024-05-01T02:03:04.000005Z", datetime.datetime(2024, 5, 1, 2, 3, 4, 5, UTC)),
        ("timestamp", "2024-05-01 02:03:04+02:00", datetime.datetime(2024, 5, 1, 0, 3, 4, 0, UTC)),
        ("timestamp_ntz", "2024-05-01 02:03:04", datetime.datetime(2024, 5, 1, 2, 3, 4)),
    ]:
        [one] = delta.with_columns_of_table(pa.table({"x": [1, 2]}), [of_log("day", kind, text)]).columns
        assert one.to_pylist() == [value, value], kind
        assert one.type == delta.arrow_type(kind)
        none = delta.with_columns_of_table(pa.table({"x": [1]}), [of_log("day", kind, None)])
        assert none.column("day").to_pylist() == [None] and none.column("day").type == one.type


def test_a_value_that_does_not_fit_is_told():
    for kind, text in [("long", "x"), ("date", "yesterday"), ("decimal(3,2)", "1234"), ("timestamp", "now")]:
        with pytest.raises(
            ValueError, match=f"the log of the table has '{text}' for the partition column 'day'"
        ):
            delta.with_columns_of_table(pa.table({"x": [1]}), [of_log("day", kind, text)])


def test_columns_are_those_of_the_table():
    struct = {
        "type": "struct",
        "fields": [{"name": "a", "type": {"type": "map", "keyType": "string", "valueType": "long"}}],
    }
    table = pa.table(
        {
            "extra": [1],
            "wide": pa.array([5], pa.int32()),
            "when": pa.array([1], pa.timestamp("ns")),
            "place": [{"a": "b"}],
            "tags": pa.array([["x"]], pa.list_(pa.large_string())),
            "day": ["in the file"],
        }
    )
    columns = [
        of_file("new", {"type": "array", "elementType": "double", "containsNull": True}),
        of_log("day", "date", "2024-01-01"),
        of_file("place", struct),
        of_file("struct", struct),
        of_file("tags", {"type": "array", "elementType": "string", "containsNull": True}),
        of_file("wide", "long"),
        of_file("unknown", "variant"),
    ]
    made = delta.with_columns_of_table(table, columns)
    assert made.column_names == ["new", "day", "place", "struct", "tags", "wide", "unknown"]
    assert made.to_pylist() == [
        {
            "new": None,
            "day": datetime.date(2024, 1, 1),
            "place": {"a": "b"},
            "struct": None,
            "tags": ["x"],
            "wide": 5,
            "unknown": None,
        }
    ]
    assert made.schema.field("new").type == pa.list_(pa.float64())
    assert made.schema.field("tags").type == pa.list_(pa.string())
    assert made.schema.field("wide").type == pa.int64()


def test_points_in_time_of_the_older_form_are_those_of_the_table(tmp_path):
    path = tmp_path / "t.parquet"
    times = [datetime.datetime(2024, 5, 1, 2, 3, 4), datetime.datetime(9999, 1, 1)]
    pq.write_table(pa.table({"when": times}), path, use_deprecated_int96_timestamps=True)
    footer = parquet.read_footer(path.read_bytes())
    table = parquet.ParquetTable(str(path), footer, True, WholeTypes(footer, str(path)))
    frame = table.frame(0, 1, None, None, [of_file("when", "timestamp")])
    assert str(frame["when"].dtype) == "datetime64[us, UTC]"
    assert list(frame["when"]) == [pd.Timestamp(time, tz="UTC") for time in times]


def test_a_process_reads_a_file_with_the_columns_of_its_table(start, tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"id": range(100), "name": "x"}, index=range(5, 105)).to_parquet(path, row_group_size=10)
    of_table = [
        ["day", '"date"', {"OfLog": "2024-01-01"}],
        ["id", '"long"', "OfFile"],
        ["b", '"long"', "OfFile"],
    ]
    script = """
def run(df):
    return [str((*df.columns, df.index[0], *row)) for row in df.itertuples(index=False)]
"""
    process = start(script, inputs=[["t", "tabular", "/in"]]).ready()
    outcome = process.run(row_groups(path, (1, 2), of_table=of_table))
    assert outcome.error is None, outcome.error
    expected = "('day', 'id', 'b', 0, datetime.date(2024, 1, 1), 10, nan)"
    assert outcome.rows.decode().splitlines()[0] == expected
    of_table[0][2] = {"OfLog": "never"}
    error = process.run(row_groups(path, (1, 2), of_table=of_table)).error
    assert error.category == "DataError" and "has 'never' for the partition column 'day'" in error.message
