"""Columns from paths: in DataFrames behind those of the data, and as the keys in the context (spec D3)."""

from __future__ import annotations

import msgpack
from harness import table

INPUTS = [["sales", "tabular", "/in/*.jsonl"]]
COLUMNS = msgpack.packb([["Store", {"Text": "2 é"}], ["Day", {"Time": -86_400_000_000_000}]])
DESCRIBES = """
import copy, pickle

def run(df, context):
    context = pickle.loads(pickle.dumps(copy.deepcopy(context)))
    keys = {name: (type(value).__name__, str(value)) for name, value in context.partition_key_value.items()}
    about = f"{df.dtypes['Day']} {keys}"
    return [f"{list(df.columns)} {list(row)} {about}" for row in df.astype(str).to_numpy()]
"""


def work(path, columns=COLUMNS):
    """A slice of JSON lines, whose path has these columns."""
    made = table(path, {"JsonLines": [[], []]}, records=2)
    made["Slice"][10] = columns
    return made


def test_columns_are_behind_those_of_the_data(start, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    process = start(DESCRIBES, inputs=INPUTS).ready()
    process.hand_over(work(path), keys=COLUMNS)
    rows = process.outcome().rows.decode().splitlines()
    keys = {"Store": ("str", "2 é"), "Day": ("Timestamp", "1969-12-31 00:00:00")}
    assert rows == [
        f"['a', 'Store', 'Day'] ['{a}', '2 é', '1969-12-31'] datetime64[ns] {keys}" for a in (1, 2)
    ]


def test_slices_of_several_files_are_one_frame(start, tmp_path):
    slices = []
    for number, text in enumerate(['{"a": 1}\n', '{"b": "x"}\n']):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(text)
        slices.append(work(path)["Slice"])
    script = "def run(df):\n    return [f'{row} {list(df.columns)}' for row in df.itertuples(name=None)]\n"
    process = start(script, inputs=INPUTS).ready()
    outcome = process.run({"Slices": slices})
    rows = outcome.rows.decode().splitlines()
    assert outcome.items == 2 and rows[0].endswith("['a', 'Store', 'Day', 'b']")
    assert rows[0].startswith("(0, 1.0, '2 é', ") and rows[1].startswith("(1, nan, '2 é', ")


def test_a_column_that_the_data_has_is_refused_by_name(start, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"Store": 1}\n')
    process = start("def run(df):\n    return df\n", inputs=INPUTS).ready()
    error = process.run(work(path)).error
    assert (error.stage, error.category) == ("Load", "DataError")
    assert (
        f'{path}: the data has a column "Store", and partition_format has the field {{Store}}'
        in error.message
    )
    assert process.run(work(path, b"\x93")).error.stage == "Load"


def test_keys_are_datetimes_where_pandas_is_not_installed(start):
    script = (
        "import sys\nsys.modules['pandas'] = None\n"
        "def run(paths, context):\n    return [repr(context.partition_key_value)] * len(paths)\n"
    )
    process = start(script).ready()
    process.hand_over({"Files": ["/data", ["a"], b"", []]}, keys=COLUMNS)
    expected = "{'Store': '2 é', 'Day': datetime.datetime(1969, 12, 31, 0, 0)}\n"
    assert process.outcome().rows.decode() == expected
