"""What is done with the rows of an MLTable: filters against `pandas.DataFrame.query`, and conversions."""

from __future__ import annotations

import json
import re
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow
import pytest
from harness import PACKAGE, delimited
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(PACKAGE.parent))
from azureml_user.parallel_run.filters import Unfit, mask
from azureml_user.parallel_run.frames import Frames
from azureml_user.parallel_run.table_work import TableWork

sys.path.pop(0)

FRAMES = Frames()


def do(frame, *steps, path_column=None):
    """What is made of `frame`, and the notes about it."""
    described = {"steps": list(steps)} | ({"path_column": path_column} if path_column else {})
    return TableWork(json.dumps(described), FRAMES.text).do(frame, "/in/a.csv")


def column(name):
    return {"column": name}


def compare(left, sign, right):
    return {"compare": [left, sign, right]}


TEXTS = st.sampled_from(["", "a", "b", "ab", "ü", "Z", "5", "None"])
INTS = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(-5, 5) | st.sampled_from([0.5, -0.5, 1e300])
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 12))
    texts = draw(st.lists(st.none() | TEXTS, min_size=rows, max_size=rows))
    return pd.DataFrame(
        {
            "i": pd.Series(draw(st.lists(INTS, min_size=rows, max_size=rows)), dtype="int64"),
            "f": pd.Series(draw(st.lists(st.none() | FLOATS, min_size=rows, max_size=rows)), dtype="float64"),
            "t": FRAMES.text(texts),
            "b": pd.Series(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), dtype="bool"),
        }
    )


@st.composite
def comparisons(draw):
    """A comparison as a tree, and as `query` has it, to which something missing is unequal to anything."""
    name, literals, kinds = draw(
        st.sampled_from(
            [
                ("i", st.integers(-(2**53), 2**53) | st.integers(-5, 5), ["number", "text"]),
                ("f", FLOATS.map(float), ["number", "text"]),
                ("t", TEXTS, ["text"]),
            ]
        )
    )
    literal, sign = draw(literals), draw(SIGNS)
    kind = draw(st.sampled_from(kinds))
    shown = str(literal) if name == "t" else repr(literal)
    sides = [column(name), sign, {kind: shown}]
    query = f"({name} {sign} {literal!r}" + (f" and {name} == {name})" if sign == "!=" else ")")
    if draw(st.booleans()):
        turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
        sides = [sides[2], turned, sides[0]]
    return {"compare": sides}, query


LEAVES = (
    comparisons()
    | st.just(({"is_true": column("b")}, "b"))
    | st.sampled_from(["f", "t"]).map(
        lambda name: (compare(column(name), "==", "null"), f"({name} != {name})")
    )
    | st.sampled_from(["f", "t"]).map(
        lambda name: (compare("null", "!=", column(name)), f"({name} == {name})")
    )
)


def joined(parts):
    kind, trees = parts
    return {kind: [tree for tree, _ in trees]}, "(" + f" {kind} ".join(query for _, query in trees) + ")"


EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)).map(joined),
        inner.map(lambda one: ({"not": one[0]}, f"(not {one[1]})")),
    ),
    max_leaves=6,
)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(frames(), EXPRESSIONS)
def test_a_filter_leaves_the_rows_that_query_does(frame, expression):
    tree, query = expression
    expected = frame.query(query, engine="python").reset_index(drop=True)
    made, told = do(frame.copy(), {"filter": {"text": query, "expression": tree}})
    pd.testing.assert_frame_equal(made, expected)
    assert told == []


DAYS = pd.DataFrame(
    {
        "day": pd.to_datetime(["2023-01-01", None, "2023-01-03 05:06:07.000008"], format="ISO8601").astype(
            "datetime64[ns]"
        ),
        "zoned": pd.to_datetime(
            ["2023-01-01T02:00+02:00", None, "2023-01-02T00:00Z"], format="ISO8601", utc=True
        ),
        "small": np.array([0.1, 0.5, 2.5], dtype="float32"),
        "large": np.array([0, 2**63, 2**64 - 1], dtype="uint64"),
        "kind": pd.Categorical(["x", None, "y"]),
        "maybe": pd.Series([True, None, False], dtype="object"),
        "none": pd.Series([None] * 3, dtype="object"),
        "mixed": pd.Series([1, "x", None], dtype="object"),
        "text": FRAMES.text(["7", None, "x"]),
        "int": [7, 8, 9],
    }
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (compare(column("day"), ">=", {"datetime": [2023, 1, 3, 5, 6, 7, 8]}), [2]),
        (compare(column("day"), "<", {"datetime": [9999, 1, 1, 0, 0, 0, 0]}), [0, 2]),
        (compare(column("day"), "<=", {"text": "2023-01-01"}), [0]),
        (compare(column("zoned"), "==", {"datetime": [2023, 1, 1, 0, 0, 0, 0]}), [0]),
        (compare(column("zoned"), ">", {"text": "2023-01-01T12:00+12:00"}), [2]),
        (compare(column("small"), "==", {"number": "0.1"}), []),
        (compare(column("small"), ">", {"number": "0.5"}), [2]),
        (compare(column("large"), ">", {"number": "9223372036854775808"}), [2]),
        (compare(column("int"), ">", {"number": "99999999999999999999"}), []),
        (compare(column("int"), ">=", {"text": "8.5"}), [2]),
        (compare(column("int"), "==", {"text": "8"}), [1]),
        (compare(column("text"), "==", {"number": "7"}), [0]),
        (compare(column("text"), "!=", {"number": "7"}), [2]),
        (compare({"text": "8"}, ">", column("text")), [0]),
        (compare(column("text"), "!=", {"text": "7"}), [2]),
        (compare(column("kind"), "==", {"text": "y"}), [2]),
        ({"is_true": column("maybe")}, [0]),
        ({"not": {"is_true": column("maybe")}}, [1, 2]),
        (compare(column("maybe"), "==", {"text": "False"}), [2]),
        (compare(column("none"), "!=", {"text": "x"}), []),
        (compare(column("none"), "==", "null"), [0, 1, 2]),
        ({"is_true": {"boolean": True}}, [0, 1, 2]),
        ({"and": [{"is_true": {"boolean": False}}, {"is_true": column("maybe")}]}, []),
        (compare(column("int"), ">", column("small")), [0, 1, 2]),
        (compare(column("day"), "==", column("day")), [0, 2]),
    ],
)
def test_a_literal_has_the_type_of_its_column(expression, expected):
    assert list(np.flatnonzero(mask(expression, DAYS))) == expected


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (
            compare(column("int"), "==", {"text": "x"}),
            "column 'int' is of type int64, and the filter compares it with 'x'",
        ),
        (compare(column("int"), "==", {"boolean": True}), "column 'int' is of type int64"),
        (
            compare(column("text"), ">", {"datetime": [2023, 1, 1, 0, 0, 0, 0]}),
            "convert_column_types makes dates of text",
        ),
        *[
            (sides, "and the filter compares it with '7': convert_column_types makes numbers of text")
            for sign in ("<", "<=", ">", ">=")
            for sides in [
                compare(column("text"), sign, {"number": "7"}),
                compare({"number": "7"}, sign, column("text")),
            ]
        ],
        (compare(column("day"), ">", {"number": "5"}), "column 'day' is of type timestamp[ns]"),
        (compare(column("day"), ">", {"text": "someday"}), "compares it with 'someday'"),
        (compare(column("maybe"), "==", {"text": "x"}), "column 'maybe' is of type bool"),
        (compare(column("mixed"), "==", {"text": "x"}), "column 'mixed' holds values of several types"),
        (
            compare(column("absent"), "==", {"text": "x"}),
            "names column 'absent', which is not there; there are day, ",
        ),
        (
            {"is_true": column("int")},
            "column 'int' holds values of type int64, which are neither true nor false",
        ),
        (
            compare(column("int"), "==", column("text")),
            "compares column 'int' of type int64 with column 'text'",
        ),
    ],
)
def test_what_cannot_be_compared_is_told(expression, says):
    with pytest.raises(Unfit, match=re.escape(says)):
        mask(expression, DAYS)
    told = do(DAYS.copy(), {"filter": {"text": "", "expression": expression}})
    assert isinstance(told, str) and says in told


def conversion(to, *columns):
    return {"convert_column_types": [{"columns": list(columns or ["a"]), "to": to}]}


NAT = pd.NaT
DATES = {"datetime": {"formats": [], "date_constant": None}}
BOOLEAN = {"boolean": {"true_values": None, "false_values": None, "mismatch_as": None}}


def listed(true, false):
    return {"boolean": {"true_values": [true], "false_values": [false], "mismatch_as": None}}


def times(*texts):
    return pd.to_datetime(pd.Series(texts), format="ISO8601").astype("datetime64[ns]")


@pytest.mark.parametrize(
    ("given", "to", "expected", "misfits"),
    [
        (["1", "-2", " +3 ", "4.0"], "int", pd.Series([1, -2, 3, 4]), 0),
        (
            ["1", None, "x", "1.5", "1e3", "9223372036854775808"],
            "int",
            pd.array([1] + [None] * 5, dtype="Int64"),
            4,
        ),
        ([1.0, 2.5, None, float("inf")], "int", pd.array([1, None, None, None], dtype="Int64"), 2),
        ([True, False], "int", pd.Series([1, 0]), 0),
        (
            ["1.5", "1e3", "nan", "-inf", "x", None, "0x1"],
            "float",
            pd.Series([1.5, 1e3, np.nan, -np.inf] + [np.nan] * 3),
            2,
        ),
        ([1, 2], "float", pd.Series([1.0, 2.0]), 0),
        ([1, 2], "string", ["1", "2"], 0),
        ([1.0, None, 2.5], "string", ["1.0", None, "2.5"], 0),
        ([True, False], "string", ["True", "False"], 0),
        (
            ["true", "FALSE", "1", "0", None],
            BOOLEAN,
            pd.array([True, False, True, False, None], dtype="boolean"),
            0,
        ),
        ([1, 0], BOOLEAN, pd.Series([True, False]), 0),
        (
            [
                "2023-01-02",
                "2023-01-02 03:04:05",
                "2023-01-02T03:04:05.5Z",
                "2023-01-02T00:00+01:00",
                "x",
                None,
            ],
            DATES,
            times(
                "2023-01-02", "2023-01-02 03:04:05", "2023-01-02 03:04:05.5", "2023-01-01 23:00", None, None
            ),
            1,
        ),
        (
            ["02/01/2023", "3. Jan 23", "2023"],
            {"datetime": {"formats": ["%d/%m/%Y", "%d. %b %y"], "date_constant": None}},
            times("2023-01-02", "2023-01-03", None),
            1,
        ),
        (
            ["13:05", "01:02:03"],
            {"datetime": {"formats": ["%H:%M", "%H:%M:%S"], "date_constant": "2020-02-29"}},
            times("2020-02-29 13:05", "2020-02-29 01:02:03"),
            0,
        ),
        (["0001-01-01", "2023-01-01"], DATES, times(None, "2023-01-01"), 1),
        (["1.0", "0.0", "01", None], BOOLEAN, pd.array([True, False, True, None], dtype="boolean"), 0),
        (["1.0", "0"], listed("1", "0"), pd.Series([True, False]), 0),
        (
            [Decimal("1.00"), Decimal("2.50"), None, Decimal("1E30"), Decimal("Infinity")],
            "int",
            pd.array([1, None, None, None, None], dtype="Int64"),
            3,
        ),
        (
            [Decimal("1.00"), Decimal("2.50"), None, Decimal("Infinity")],
            "float",
            pd.Series([1.0, 2.5, np.nan, np.nan]),
            1,
        ),
        ([Decimal("1.50"), None], "string", ["1.50", None], 0),
        ([Decimal("1.00"), Decimal("0.00")], BOOLEAN, pd.Series([True, False]), 0),
        (
            [date(2023, 1, 2), None, pd.NaT, date(1, 1, 1)],
            DATES,
            times("2023-01-02", None, None, None),
            1,
        ),
        (
            [date(2023, 1, 2), datetime(2023, 1, 2, 3, 4, 5, 6)],
            {"datetime": {"formats": ["%Y"], "date_constant": None}},
            times("2023-01-02", "2023-01-02 03:04:05.000006"),
            0,
        ),
        (
            [datetime(2023, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), "2024-01-01"],
            DATES,
            times("2023-01-02 02:00", "2024-01-01"),
            0,
        ),
    ],
)
def test_values_are_converted_or_missing(given, to, expected, misfits):
    frame = pd.DataFrame({"a": given, "b": range(len(given))})
    made, told = do(frame, conversion(to))
    if isinstance(expected, list):
        expected = FRAMES.text(expected)
    pd.testing.assert_series_equal(made["a"], pd.Series(expected, name="a"))
    assert list(made.columns) == ["a", "b"]
    assert len(told) == (misfits > 0)
    if misfits:
        count = "a value" if misfits == 1 else f"{misfits} values"
        assert told[0].startswith(f"/in/a.csv: WARNING: column 'a' has {count} that do"), told


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("int", pd.array([1, None, None], dtype="Int64")),
        ("float", pd.Series([1, np.nan, np.nan])),
        (BOOLEAN, pd.array([True, None, None], dtype="boolean")),
        (listed("1", ""), pd.array([True, False, None], dtype="boolean")),
        ("string", FRAMES.text(["1", "", None])),
    ],
)
def test_an_empty_field_that_is_text_is_missing_where_it_gets_another_type(to, expected):
    work = TableWork(json.dumps({"empty_is_missing": True, "steps": [conversion(to)]}), FRAMES.text)
    made, told = work.do(pd.DataFrame({"a": FRAMES.text(["1", "", None])}), "/in/a")
    pd.testing.assert_series_equal(made["a"], pd.Series(expected, name="a"))
    assert told == []


def test_decimals_and_dates_of_parquet_convert():
    table = pyarrow.table(
        {
            "d": pyarrow.array([Decimal("1.00"), Decimal("2.00")], pyarrow.decimal128(9, 2)),
            "day": pyarrow.array([date(2023, 1, 2), None], pyarrow.date32()),
        }
    )
    made, told = do(table.to_pandas(), conversion("int", "d"), conversion(DATES, "day"))
    assert list(made["d"]) == [1, 2] and told == []
    pd.testing.assert_series_equal(made["day"], pd.Series(times("2023-01-02", None), name="day"))


def test_what_does_not_convert_is_told_once_a_column():
    work = TableWork(json.dumps({"steps": [conversion("int", "a", "b")]}), FRAMES.text)
    frame = pd.DataFrame({"a": ["x", "1"], "b": ["1", "y"]})
    assert len(work.do(frame.copy(), "/in/a")[1]) == 2
    assert work.do(frame.copy(), "/in/a")[1] == []


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([conversion(BOOLEAN)], "column 'a': 'x' is neither true nor false"),
        ([conversion("int", "z")], "convert_column_types names 'z'; the columns are a, b"),
        ([{"keep_columns": ["a", "y", "z"]}], "keep_columns names 'y', 'z'; the columns are a, b"),
        ([{"drop_columns": ["a"]}, {"drop_columns": ["a"]}], "drop_columns names 'a'; the columns are b"),
        (
            [conversion({"datetime": {"formats": ["%H"], "date_constant": "2023-02-31"}})],
            "date_constant '2023-02-31' is no day",
        ),
    ],
)
def test_steps_that_do_not_fit_the_data_are_told(steps, says):
    told = do(pd.DataFrame({"a": ["x"], "b": [1]}), *steps)
    assert isinstance(told, str) and says in told


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (
            {"keep_columns": ["id", "z"]},
            "keep_columns names 'z'; the columns are id, text (mini-batch of bytes 8-20)",
        ),
        (
            {"filter": {"text": "", "expression": compare(column("id"), "==", {"text": "x"})}},
            "column 'id' is of type int64, and the filter compares it with 'x' (mini-batch of bytes 8-20)",
        ),
        (
            conversion(BOOLEAN, "text"),
            "column 'text': 'x0' is neither true nor false: add it to true_values or false_values, or give "
            "mismatch_as: true or false (mini-batch of bytes 8-20)",
        ),
    ],
)
def test_a_process_tells_where_the_data_are_that_a_step_does_not_fit(start, tmp_path, step, says):
    path = tmp_path / "a.csv"
    path.write_text("id,text\n0,x0\n1,x100\n")
    work = delimited(path, ["id", "text"], "is", part=(8, 20), records=2)
    script = "def run(df):\n    return [1] * len(df)\n"
    process = start(script, inputs=[["in", "tabular", "/in", json.dumps({"steps": [step]})]]).ready()
    for _ in range(2):
        error = process.run(work).error
        assert (error.stage, error.category, error.message) == ("Load", "DataError", f"{path}: {says}")
    assert process.shutdown() is None


def test_columns_stay_in_the_order_of_the_data_and_the_path_is_first():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6], "late": ["x", "x"]})
    steps = [{"keep_columns": ["c", "a", "Path"]}, {"extract_columns": ["late"]}, {"drop_columns": ["a"]}]
    made, told = do(frame, *steps, path_column="Path")
    assert made.to_dict("list") == {"Path": ["/in/a.csv"] * 2, "c": [5, 6], "late": ["x", "x"]}
    assert told == []
    told = do(pd.DataFrame({"Path": [1]}), path_column="Path")
    assert told == "the data have a column 'Path' already: give another path_column"


def test_a_frame_of_a_filter_may_be_written_to(recwarn):
    frame = pd.DataFrame({"a": [1, 2, 3]})
    made, _ = do(frame, {"filter": {"text": "", "expression": compare(column("a"), ">", {"number": "1"})}})
    made["a"] = made["a"] * 2
    made.loc[0, "a"] = 7
    assert list(made["a"]) == [7, 6] and list(made.index) == [0, 1]
    assert not recwarn.list


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=40),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.integers(0, 20),
    st.none() | st.integers(1, 20),
)
def test_slices_with_their_windows_are_the_rows_that_pandas_takes(values, cuts, skip, take):
    """What is counted slice by slice, and then taken, is the window over all rows that a filter leaves."""
    table = pd.DataFrame({"id": range(len(values)), "v": values})
    slices, at = [], 0
    while at < len(table):
        rows = cuts[len(slices) % len(cuts)]
        slices.append(table.iloc[at : at + rows].reset_index(drop=True))
        at += rows
    before = [{"filter": {"text": "", "expression": compare(column("v"), "!=", {"number": "2"})}}]
    count = TableWork(json.dumps({"steps": [*before, {"count": {}}]}), FRAMES.text)
    work = TableWork(json.dumps({"steps": [*before, {"window": {}}, {"drop_columns": ["v"]}]}), FRAMES.text)
    assert count.counts and not work.counts
    found, left, wanted = [], skip, len(table) if take is None else take
    for number, one in enumerate(slices):
        counted, _ = count.do(one.copy(), "/in/a", 0, None, number)
        [(rows, checksum)] = counted.itertuples(index=False, name=None)
        assert checksum == number
        first = min(left, rows)
        end = min(rows, first + wanted)
        left, wanted = left - first, wanted - (end - first)
        if end > first:
            found.extend(work.do(one.copy(), "/in/a", 0, (first, end))[0]["id"])
    expected = table.query("v != 2")["id"].iloc[skip:]
    assert found == list(expected if take is None else expected.iloc[:take])


@pytest.mark.parametrize(("skip", "take"), [(0, 5), (3, 4), (7, 9), (12, 100)])
def test_rows_of_a_sample_are_counted_as_they_are_drawn(monkeypatch, skip, take):
    def draws(row):
        return row * 7 % 5 < 2

    extension = SimpleNamespace(
        sample_mask=lambda sample, origin, first, rows: bytes(draws(first + at) for at in range(rows))
    )
    monkeypatch.setitem(sys.modules, "prs_process", extension)
    count = TableWork(json.dumps({"steps": [{"sample": {}}, {"count": {}}]}), FRAMES.text)
    work = TableWork(json.dumps({"steps": [{"sample": {}}, {"window": {}}]}), FRAMES.text)
    found, left, wanted = [], skip, take
    for first in range(0, 40, 8):
        one = pd.DataFrame({"id": range(first, first + 8)})
        [(rows, _)] = count.do(one.copy(), "/in/a", first, None, 7)[0].itertuples(index=False, name=None)
        begin = min(left, rows)
        end = min(rows, begin + wanted)
        left, wanted = left - begin, wanted - (end - begin)
        if end > begin:
            found.extend(work.do(one.copy(), "/in/a", first, (begin, end))[0]["id"])
    assert found == [row for row in range(40) if draws(row)][skip : skip + take]


def test_a_slice_without_a_row_is_counted():
    work = TableWork(json.dumps({"steps": [{"drop_columns": ["absent"]}, {"count": {}}]}), FRAMES.text)
    made, told = work.do(pd.DataFrame(), "/in/a", 0, None, 7)
    assert made.to_dict("list") == {"rows": [0], "checksum": [7]} and told == []


def test_a_filter_behind_a_sample_is_of_what_was_drawn(monkeypatch):
    extension = SimpleNamespace(sample_mask=lambda sample, origin, first, rows: bytes([0, 1] * (rows // 2)))
    monkeypatch.setitem(sys.modules, "prs_process", extension)
    keep = {"filter": {"text": "", "expression": compare(column("id"), ">", {"number": "5"})}}
    made, _ = do(pd.DataFrame({"id": range(10)}), {"sample": {}}, keep)
    assert list(made["id"]) == [7, 9]
