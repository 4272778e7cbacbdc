"""`output_format: parquet`: what run() returned as an Arrow stream with its schema, read back by pyarrow."""

from __future__ import annotations

import base64
import json
import pickle

import pandas as pd
import pyarrow as pa
import pytest
from harness import files

PARQUET = {"output_format": "parquet"}
LOAD = (
    "import pickle\ndef run(mini_batch):\n    with open(mini_batch[0], 'rb') as f:\n"
    "        return pickle.load(f)\n"
)


def schema_of(header):
    message = pa.CompressedInputStream(pa.BufferReader(base64.b64decode(header)), "zstd").read()
    return pa.ipc.read_schema(pa.BufferReader(message))


@pytest.fixture
def returned(start, tmp_path):
    """What a process makes of these results of run(), one after the other."""

    def run(*results):
        process = start(LOAD, **PARQUET).ready()
        outcomes = []
        for number, result in enumerate(results):
            path = tmp_path / f"{number}.pkl"
            path.write_bytes(pickle.dumps(result))
            outcomes.append(process.run(files(str(path), base="")))
        return outcomes

    return run


def test_a_frame_is_what_pandas_would_write(returned):
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "nullable": pd.array([1, None], dtype="Int64"),
            "size": pd.Categorical(["s", None], categories=["s", "m", "l"], ordered=True),
            "period": pd.period_range("2024-01", periods=2, freq="M"),
            "when": pd.to_datetime(["2024-01-01", None]).tz_localize("Europe/Berlin"),
            "nested": [{"a": [1]}, None],
        },
        index=[7, 8],
    )
    frame.attrs["of"] = object
    (outcome,) = returned(frame)
    assert (outcome.error, outcome.returned) == (None, 2)
    frame.attrs.clear()
    expected = pa.Table.from_pandas(frame, preserve_index=False)
    table = pa.ipc.open_stream(outcome.rows).read_all()
    assert table.equals(expected)
    assert table.schema.metadata is None, "it travels once, in the header"
    schema = schema_of(outcome.header)
    assert [field.type for field in schema] == [field.type for field in expected.schema]
    assert schema.field("size").metadata == {b"prs:order": b"s < m < l"}
    told = json.loads(schema.metadata[b"pandas"])
    assert told["columns"][1]["numpy_type"] == "Int64" and told["index_columns"] == []


def test_no_rows_are_no_frame(returned):
    empty, nothing, whole, alike = returned(
        pd.DataFrame({"a": []}), [], pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [5]})
    )
    for outcome in (empty, nothing):
        assert (outcome.error, outcome.rows, outcome.header, outcome.returned) == (None, b"", None, 0)
    assert whole.header == alike.header


def test_headers_depend_on_types_alone(returned):
    sizes = ["s", "m", "l"]
    one, other = returned(
        pd.DataFrame(
            {"a": [1.5], "c": pd.Categorical(["x"]), "s": pd.Categorical(["s"], sizes, ordered=True)}
        ),
        pd.DataFrame(
            {
                "a": [2.5, None],
                "c": pd.Categorical(["y", "z"]),
                "s": pd.Categorical([None, "m"], sizes, ordered=True),
            }
        ),
    )
    assert one.header == other.header
    told = json.loads(schema_of(one.header).metadata[b"pandas"])
    assert set(told) == {"index_columns", "column_indexes", "columns"}
    assert [column["metadata"] for column in told["columns"]] == [None, None, None]


def test_columns_without_a_value_are_marked(returned):
    (outcome,) = returned(
        pd.DataFrame(
            {
                "a": [float("nan")],
                "time": pd.Series([None], dtype="datetime64[ns]"),
                "c": pd.Categorical([None], ["s", "l"], ordered=True),
                "text": pd.Series([None], dtype="string"),
                "nothing": [None],
                "whole": [1],
            }
        )
    )
    assert outcome.error is None
    marks = {field.name: sorted(field.metadata or {}) for field in schema_of(outcome.header)}
    missing = [b"prs:missing"]
    assert marks == {
        "a": missing,
        "time": missing,
        "c": [b"prs:missing", b"prs:order"],
        "text": missing,
        "nothing": [],
        "whole": [],
    }
    assert pa.ipc.open_stream(outcome.rows).schema.field("a").metadata is None


def test_large_frames_come_in_batches(returned):
    (outcome,) = returned(pd.DataFrame({"a": range(200_000), "b": ["x" * 100] * 200_000}))
    batches = list(pa.ipc.open_stream(outcome.rows))
    assert max(batch.num_rows for batch in batches) <= 1 << 16
    assert sum(batch.num_rows for batch in batches) == outcome.returned == 200_000


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (
            pd.DataFrame({"a": [1, 2], "b": [1, [2]]}),
            "column 'b' of the DataFrame that run() returned cannot be written",
        ),
        (
            pd.DataFrame({"a": [1, "x"]}),
            "column 'a' of the DataFrame that run() returned cannot be written as Parquet",
        ),
        (pd.DataFrame({"a": [1 + 2j]}), "column 'a' of the DataFrame that run() returned cannot be written"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns named 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "two columns named '1'"),
        (pd.DataFrame(index=[1, 2]), "2 rows and no columns"),
        ([1], "run() returned a list; the job file has output_format, so expected is a pandas DataFrame"),
        (pd.Series([1]), "so expected is a pandas DataFrame"),
        (
            pd.DataFrame({"a": pd.Series([(1, 2, 3)], dtype=pd.ArrowDtype(pa.month_day_nano_interval()))}),
            "column 'a' of the DataFrame that run() returned cannot be written as Parquet: Parquet has no",
        ),
        (
            pd.DataFrame({"a": pd.Series([None], dtype=pd.ArrowDtype(pa.decimal128(3, -2)))}),
            "column 'a' of the DataFrame that run() returned cannot be written as Parquet: Parquet has no "
            "decimal128(3, -2)",
        ),
        (
            pd.DataFrame({"a": pd.Series([{}], dtype=pd.ArrowDtype(pa.struct([])))}),
            "column 'a' of the DataFrame that run() returned cannot be written as Parquet: Parquet has no "
            "struct without fields",
        ),
    ],
)
def test_what_parquet_cannot_have_fails_the_mini_batch(returned, result, problem):
    failed, whole = returned(result, pd.DataFrame({"a": [1]}))
    assert problem in failed.error.message
    assert (failed.rows, failed.header) == (b"", None)
    assert whole.error is None


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_without_what_it_needs_no_process_begins(start, missing):
    hide = f"import sys\nsys.modules[{missing!r}] = None\n"
    kind, fields = start(LOAD, sitecustomize=hide, **PARQUET).receive()
    assert kind == "InitFailed"
    assert f"the job's environment has no {missing}; install it there" in str(fields)
