"""`output_format: json_lines`: what run() returned, read back by json and pandas."""

from __future__ import annotations

import datetime
import json
import math
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from harness import PACKAGE, files

sys.path.insert(0, str(PACKAGE.parent))
from azureml_user.parallel_run import json_lines

sys.path.pop(0)

JSON = {"output_format": "json_lines"}
LOAD = (
    "import pickle\ndef run(mini_batch):\n    with open(mini_batch[0], 'rb') as f:\n"
    "        return pickle.load(f)\n"
)


def lines(frame):
    """The lines of a DataFrame, read back."""
    written, count = json_lines.of_table(frame)
    read = [json.loads(line) for line in written.decode().split("\n")[:-1]]
    assert len(read) == count == len(frame)
    assert written.count(b"\n") == count, "a value has no line end of its own"
    return read


def column(values, dtype=None):
    return [row["a"] for row in lines(pd.DataFrame({"a": pd.Series(values, dtype=dtype)}))]


def random_floats(count, kind):
    bits = np.random.default_rng(7).integers(
        0, 2 ** (kind().itemsize * 8), count, dtype=f"u{kind().itemsize}"
    )
    floats = bits.view(kind)
    return floats[np.isfinite(floats)]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_come_back_bit_for_bit(kind):
    floats = np.concatenate([random_floats(5000, kind), np.array([0.0, -0.0, 1.0, 0.1, 65504.0], kind)])
    read = np.array(column(floats), kind)
    assert read.tobytes() == floats.tobytes()


def test_floats_have_the_digits_of_their_own_width():
    written, _ = json_lines.of_table(pd.DataFrame({"a": np.array([0.1, 1e10], "f4"), "b": [0.1, 1e22]}))
    assert written == b'{"a":0.1,"b":0.1}\n{"a":10000000000.0,"b":1e+22}\n'
    written, _ = json_lines.of_table(pd.DataFrame({"a": pd.array([0.1, None], dtype="Float32")}))
    assert written == b'{"a":0.1}\n{"a":null}\n'
    assert json_lines.of_elements(np.array([0.1], "f4"))[0] == b"0.1\n"
    assert json_lines.of_elements(pd.Series([0.1], dtype="f4"))[0] == b"0.1\n"


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_integers_are_whole(dtype):
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    assert column([least, 0, most], dtype) == [least, 0, most]
    nullable = pd.array([least, None, most], dtype=np.dtype(dtype).name.replace("i", "I").replace("uI", "UI"))
    assert column(nullable) == [least, None, most]
    assert column([10**30, -1], object) == [10**30, -1]


def test_missing_values_are_null():
    nothing = [None, math.nan, pd.NA, pd.NaT, np.float32("nan"), np.datetime64("NaT")]
    assert column(nothing, object) == [None] * 6
    for dtype in ["f4", "f8", "Int64", "boolean", "string", "str", "category", "datetime64[ns]", "Float64"]:
        assert column([None, None], dtype) == [None, None], dtype
    assert column([{"a": math.nan, "b": [pd.NaT, 1]}], object) == [{"a": None, "b": [None, 1]}]


def test_texts():
    texts = ["", 'quo"te', "back\\slash", "new\nline\r\t", "\x00\x1f\x7f", "ü€😀", "\u2028", "%s", "x" * 300]
    for dtype in [object, "str", "string", "category"]:
        assert column(texts, dtype) == texts
    written, _ = json_lines.of_table(pd.DataFrame({'%s "ü"': ["ü"]}))
    assert written.decode() == '{"%s \\"ü\\"":"ü"}\n'


def test_times_are_iso_8601():
    times = ["2024-02-29 12:00:00", "1999-12-31 23:59:59.000001", None]
    naive = pd.to_datetime(pd.Series(times), format="ISO8601")
    assert column(naive) == ["2024-02-29T12:00:00", "1999-12-31T23:59:59.000001", None]
    assert column(naive.dt.tz_localize("UTC"))[0] == "2024-02-29T12:00:00+00:00"
    assert column(naive.dt.tz_localize("Europe/Berlin"))[0] == "2024-02-29T12:00:00+01:00"
    nanosecond = pd.Series(np.array(["2024-01-01T00:00:00.000000001"], "M8[ns]"))
    assert column(nanosecond) == ["2024-01-01T00:00:00.000000001"]
    others = [
        datetime.date(2024, 1, 2),
        datetime.time(1, 2),
        pd.Timedelta("1 day 2s"),
        np.datetime64("2024-01"),
    ]
    assert column(others, object) == ["2024-01-02", "01:02:00", "P1DT0H0M2S", "2024-01"]


def test_nested_values_stay_what_they_are():
    nested = [{"x": 1}, {"y": [1, {"z": None}]}, [], (1, "a"), np.array([[1, 2], [3, 4]]), {2: np.int8(3)}]
    expected = [{"x": 1}, {"y": [1, {"z": None}]}, [], [1, "a"], [[1, 2], [3, 4]], {"2": 3}]
    assert column(nested, object) == expected
    assert column([{np.int64(1): True}], object) == [{"1": True}]
    assert column([True, np.bool_(False), 1], object) == [True, False, 1]


def test_random_frames_are_read_back_by_pandas():
    random = np.random.default_rng(3)
    for rows in [1, 2, 50]:
        frame = pd.DataFrame(
            {
                "whole": random.integers(-(2**53), 2**53, rows),
                "flag": random.integers(0, 2, rows) == 1,
                "text": [str(n) * 3 for n in random.integers(0, 9, rows)],
                "float": random.standard_normal(rows),
                7: random.integers(0, 9, rows),
            }
        )
        frame.index = frame.index[::-1]
        read = pd.DataFrame(lines(frame))
        expected = frame.rename(columns={7: "7"}).reset_index(drop=True)
        pd.testing.assert_frame_equal(read, expected, check_exact=True)


def test_frames_without_rows_or_columns():
    assert json_lines.of_table(pd.DataFrame({"a": []})) == (b"", 0)
    assert json_lines.of_table(pd.DataFrame()) == (b"", 0)
    assert json_lines.of_table(pd.DataFrame(index=[1, 2])) == (b"{}\n{}\n", 2)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"x", "JSON has no value of type bytes"),
        ({1}, "JSON has no value of type set"),
        (math.inf, "inf is no number in JSON"),
        ([np.float32("-inf")], "-inf is no number in JSON"),
        ({(1, 2): 3}, "a dict has a key of type tuple"),
        ([{"x": 1j}], "JSON has no value of type complex"),
        ("\udc80", "a text cannot be written as UTF-8"),
        ({"\udc80": 1}, "a text cannot be written as UTF-8"),
    ],
)
def test_a_value_that_json_cannot_have_is_refused_by_its_column(value, problem):
    frame = pd.DataFrame({"fine": [1, 2], "bad": pd.Series([None, value], dtype=object)})
    with pytest.raises(ValueError) as raised:
        json_lines.of_table(frame)
    assert "column 'bad' of the DataFrame" in str(raised.value)
    assert f"{problem}" in str(raised.value) and "(row 1, counted from 0)" in str(raised.value)
    with pytest.raises(ValueError) as raised:
        json_lines.of_elements([1, value])
    assert f"row 1 (counted from 0) of what run() returned cannot be written as JSON: {problem}" in str(
        raised.value
    )


def test_values_that_hold_themselves_are_refused():
    circle: list = []
    circle.append(circle)
    with pytest.raises(ValueError, match="nested too deeply, or holds itself"):
        json_lines.of_elements([circle])


def test_infinite_floats_of_a_column_are_refused():
    for dtype in ["f4", "f8", "Float64"]:
        with pytest.raises(ValueError, match=r"column 'a' .* -inf is no number in JSON \(row 1, "):
            json_lines.of_table(pd.DataFrame({"a": pd.Series([1.0, -math.inf], dtype=dtype)}))


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a", "a"], "two columns named 'a'"),
        ([1, "1"], "two columns named '1'"),
        ([("a", "b"), ("a", "c")], "is named ('a', 'b')"),
        (["\udc80", "b"], "which cannot be a name in JSON"),
    ],
)
def test_names_that_no_object_can_have_are_refused(names, problem):
    index = pd.MultiIndex.from_tuples(names) if type(names[0]) is tuple else pd.Index(names, dtype=object)
    with pytest.raises(ValueError) as raised:
        json_lines.of_table(pd.DataFrame([[1, 2]], columns=index))
    assert problem in str(raised.value) and "result.columns = NAMES" in str(raised.value)


RETURNS = [
    ("[{'b': 1, 'a': 'ü'}, 'text', 1.5, None, [1]]", ['{"b":1,"a":"ü"}', '"text"', "1.5", "null", "[1]"]),
    ("({},)", ["{}"]),
    ("[]", []),
    ("iter([1, 2])", ["1", "2"]),
    ("numpy.array([[1, 2], [3, 4]])", ["[1,2]", "[3,4]"]),
    ("pandas.Series([1.0, None])", ["1.0", "null"]),
    ("pandas.Index(['x'])", ['"x"']),
    ("pandas.DataFrame({'b': [1, 2], 'a': [True, False]})", ['{"b":1,"a":true}', '{"b":2,"a":false}']),
]


@pytest.mark.parametrize(("body", "expected"), RETURNS)
def test_what_a_process_returns(start, body, expected):
    script = f"import numpy, pandas\ndef run(mini_batch):\n    return {body}\n"
    outcome = start(script, **JSON).ready().run(files("a"))
    assert outcome.error is None, outcome.error
    assert (outcome.header, outcome.returned) == (None, len(expected))
    assert outcome.rows.decode().splitlines() == expected


def test_without_pandas_and_numpy(start):
    hide = "import sys\nfor name in ['pandas', 'numpy', 'pyarrow']:\n    sys.modules[name] = None\n"
    script = "def run(mini_batch):\n    return [{'a': float('nan')}, 2.5]\n"
    outcome = start(script, sitecustomize=hide, **JSON).ready().run(files("a"))
    assert (outcome.error, outcome.rows) == (None, b'{"a":null}\n2.5\n')


def test_a_failed_mini_batch_leaves_the_process_to_the_next(start, tmp_path):
    process = start(LOAD, **JSON).ready()
    outcomes = []
    for number, result in enumerate([{"a": 1}, [1, b"x"], [2]]):
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(pickle.dumps(result))
        outcomes.append(process.run(files(str(path), base="")))
    assert "run() returned a dict" in outcomes[0].error.message
    assert (outcomes[1].error.stage, outcomes[1].error.category) == ("Run", "ValueError")
    assert (outcomes[2].error, outcomes[2].rows, outcomes[2].returned) == (None, b"2\n", 1)


def test_settings_for_csv_are_refused(start):
    settings = {"append_row": {"pandas.DataFrame.to_csv": {"na_rep": "-"}}}
    code = {"parallel_run_step.settings.json": json.dumps(settings)}
    kind, fields = start(LOAD, code=code, **JSON).receive()
    assert kind == "InitFailed"
    assert "'na_rep' is for CSV, and output_format is json_lines: remove it here" in str(fields)
