"""Rows put together by columns of the data (`partition_keys`), against `pandas.DataFrame.groupby`."""

from __future__ import annotations

import array
import json
import math
import shutil
import sys
import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from harness import PACKAGE, extension
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(PACKAGE.parent))
from azureml_user.parallel_run import parquet, shuffle_group, shuffle_keys, shuffle_split
from azureml_user.parallel_run.errors import ScriptError

sys.path.pop(0)


@pytest.fixture(scope="module", autouse=True)
def _extension():
    """The extension under the name that processes import it by."""
    folder = tempfile.mkdtemp(prefix="prs-shuffle-")
    shutil.copy(extension(), Path(folder) / "prs_process.abi3.so")
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)
    shutil.rmtree(folder)


COLUMNS = [
    st.integers(-3, 3),
    st.floats(-2, 2, width=16) | st.just(math.nan),
    st.none() | st.sampled_from(["", "a", "é", "1"]),
    st.sampled_from([pd.NaT, pd.Timestamp("2024-02-29"), pd.Timestamp("2024-03-01 01:02:03.000004")]),
]


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=2))
    columns = {f"k{at}": draw(st.lists(kind, min_size=rows, max_size=rows)) for at, kind in enumerate(kinds)}
    return pd.DataFrame({**columns, "number": range(rows)}), list(columns)


def slice_of(frame, is_text, origin="/in/a"):
    """A slice with the rows of `frame`: a line each with the number, or a table."""
    names = list(frame.columns)
    if not is_text:
        return shuffle_split.Slice(None, b"", pyarrow.Table.from_pandas(frame), b"", b"", origin, 0, names)
    lines = [f"{number}\n".encode() for number in frame["number"]]
    # The last line of a file may have no end.
    lines[-1] = lines[-1][:-1]
    starts = array.array("Q", np.cumsum([0, *map(len, lines)]).tolist()).tobytes()
    return shuffle_split.Slice(b"".join(lines), starts, None, b"reader", b"", origin, 0, names)


def shuffled(folder, frame, keys, cuts, buckets, kinds):
    """The groups of `frame` in the order of their first rows, cut into slices: keys and rows of each."""
    bounds = [0, *sorted({cut % len(frame) for cut in cuts} - {0}), len(frame)]
    for number, (start, end) in enumerate(zip(bounds, bounds[1:])):
        part = frame.iloc[start:end].reset_index(drop=True)
        raw = slice_of(part, kinds[number % len(kinds)])
        part.index = pd.Index(np.arange(len(part), dtype="int64"))
        for bucket, head, rows in shuffle_split.split(part, raw, keys, buckets):
            (folder / str(bucket)).mkdir(exist_ok=True)
            encoded = json.dumps({"slice": number, **head}).encode()
            with open(folder / str(bucket) / f"{number}.part", "wb") as file:
                shuffle_split.write_part(file, encoded, rows)
    groups = []
    for bucket in folder.iterdir():
        parts = [shuffle_group.Part(str(path)) for path in bucket.iterdir()]
        shuffle_group.Bucket(parts, False).write(str(bucket))
        head, *lines = map(json.loads, Path(f"{bucket}.groups").read_text().splitlines())
        written = Path(f"{bucket}.rows").read_bytes()
        firsts = [line["first"] for line in lines]
        assert firsts == sorted(firsts)
        for line in lines:
            numbers = []
            for reader, start, end, rows, _, files, more in line["pieces"]:
                piece = written[start:end]
                if head["readers"][reader]["kind"] == "text":
                    of_piece = [int(number) for number in piece.split()]
                else:
                    of_piece = parquet.of_stream(piece)["number"].tolist()
                assert len(of_piece) == rows
                assert (head["files"], files, more) == ([["/in/a", 0]], [0], 0)
                numbers += of_piece
            groups.append((line["first"], [shuffle_keys.decoded(key) for key in line["keys"]], numbers))
    return [(keys, numbers) for _, keys, numbers in sorted(groups, key=lambda group: group[0])]


def by_pandas(frame, keys):
    grouped = frame.groupby(keys, sort=False, dropna=False)
    missing = [[None if pd.isna(key) else key for key in found] for found, _ in grouped]
    # Since the first row counts, not the order in which pandas has the groups.
    groups = [(keys, rows["number"].tolist()) for keys, (_, rows) in zip(missing, grouped)]
    return sorted(groups, key=lambda group: group[1][0])


@settings(max_examples=150, deadline=None)
@given(
    frames(),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(1, 5),
    st.sampled_from([[True], [False], [True, False]]),
    st.sampled_from([1, 200, 96 << 20]),
)
def test_groups_are_those_of_groupby(table, cuts, buckets, kinds, held):
    frame, keys = table
    before, shuffle_group._HELD = shuffle_group._HELD, held
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = shuffled(Path(folder), frame, keys, cuts, buckets, kinds)
    finally:
        shuffle_group._HELD = before
    assert found == by_pandas(frame, keys)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, True, "1", b"1"], [1, True, "1", b"1"]),
        ([None, math.nan, pd.NaT, pd.NA], [None]),
        ([np.int64(2), 2.0, np.float32(2)], [2]),
        ([2.0, 2], [2.0]),
        ([0.0, -0.0], [0.0]),
        ([0.1, 1e300, math.inf, -math.inf], [0.1, 1e300, math.inf, -math.inf]),
        ([2**70], [2**70]),
        ([date(2024, 2, 29)], [date(2024, 2, 29)]),
        ([Decimal("1.50"), Decimal("1.5")], [Decimal("1.50")]),
        ([pd.Timestamp("2024-02-29", tz="Europe/Berlin")], [pd.Timestamp("2024-02-29", tz="Europe/Berlin")]),
        ([pd.Timedelta("1D")], [pd.Timedelta("1D")]),
    ],
)
def test_a_key_is_shown_as_its_first_row_has_it(values, shown):
    groups = {}
    for value in values:
        written, compared = shuffle_keys.encoded("k", value)
        groups.setdefault(compared, written)
    decoded = [shuffle_keys.decoded(written) for written in groups.values()]
    assert decoded == shown and list(map(type, decoded)) == list(map(type, shown))


def test_what_is_no_key_is_told():
    frame = pd.DataFrame({"k": [[1], [2]], "number": [0, 1]})
    with pytest.raises(Exception, match="/in/a: column 'k' of partition_keys holds values that are no keys"):
        list(shuffle_split.split(frame, slice_of(frame, True), ["k"], 1))
    with pytest.raises(Exception, match="names 'x', and the columns are 'k', 'number': name some of these"):
        list(shuffle_split.split(frame, slice_of(frame, True), ["x"], 1))


def test_a_key_of_several_columns_is_told():
    frame = pd.DataFrame([[1, 2, 3]], columns=["k", "k", "number"])
    raw = slice_of(frame.set_axis(["k", "j", "number"], axis=1), False)
    with pytest.raises(Exception, match="/in/a: partition_keys names 'k', and several columns have"):
        list(shuffle_split.split(frame, raw, ["k"], 1))


def test_a_time_that_python_has_not_is_told_with_its_column():
    far = pyarrow.array([253402300800 * 3], pyarrow.timestamp("s", "UTC"))
    frame = pyarrow.table({"k": far, "number": [0]}).to_pandas()
    raw = slice_of(frame[["number"]], False)
    with pytest.raises(Exception, match="/in/a: column 'k' of partition_keys holds a Timestamp that is"):
        list(shuffle_split.split(frame, raw, ["k"], 1))


def test_categories_are_those_of_the_group():
    frame = pd.DataFrame({"c": pd.Categorical(["b", None, "a"], categories=["b", "a"], ordered=True)})
    table = shuffle_split.plain(pyarrow.Table.from_pandas(frame)).slice(1)
    read = parquet.of_stream(bytes(shuffle_split.stream(table)))
    assert str(read["c"].dtype) == "category" and read["c"].cat.ordered
    assert read["c"].cat.categories.tolist() == ["a"] and read["c"].isna().tolist() == [True, False]


def test_values_that_pandas_takes_for_equal_are_told_apart_as_keys_are():
    frame = pd.DataFrame({"k": pd.Series([True, 1, True, None, 1.0, "1"], dtype=object)})
    numbers, first = shuffle_keys.codes(frame, ["k"])
    assert numbers.tolist() == [0, 1, 0, 2, 1, 3]
    assert first.tolist() == [0, 1, 3, 5]


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        (Decimal("1.50"), Decimal("1.5"), True),
        (Decimal("3"), 3, True),
        (Decimal("3.0"), 3.0, True),
        (Decimal("1.50"), 1.5, True),
        (Decimal("0.1"), 0.1, False),
        (Decimal("-Infinity"), float("-inf"), True),
        (
            Decimal("12345678901234567890123456789012345678"),
            Decimal("12345678901234567890123456789012345999"),
            False,
        ),
        (Decimal("0.1234567890123456789012345678901"), Decimal("0.1234567890123456789012345678902"), False),
    ],
)
def test_decimals_are_compared_by_value(one, other, are_equal):
    compared = [shuffle_keys.encoded("k", value)[1] for value in (one, other)]
    assert (compared[0] == compared[1]) is are_equal


def test_large_whole_numbers_are_exact_beside_what_is_missing():
    numbers = [2**53, None, 2**53 + 1, 5, 2**53]
    frame = pd.DataFrame({"k": numbers, "number": range(5)}, dtype="float64")
    rows = [{"k": number, "number": at} for at, number in enumerate(numbers)]
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    starts = array.array("Q", np.cumsum([0, *map(len, lines)]).tolist()).tobytes()
    text = b"".join(lines)
    slices = [
        shuffle_split.Slice(text, starts, None, b"", b"", "/in/a", 0, None),
        shuffle_split.Slice(
            None, b"", pyarrow.Table.from_pylist(rows), b"", b"", "/in/a", 0, ["k", "number"]
        ),
        shuffle_split.Slice(
            text,
            starts,
            None,
            b"",
            b"",
            "/in/a",
            0,
            ["k", "number"],
            {"k": [None if number is None else str(number) for number in numbers]},
        ),
    ]
    for raw in slices:
        part = frame.copy()
        part.index = pd.Index(np.arange(5, dtype="int64"))
        # A filter may have left a row out.
        part = part.drop(3)
        [(_, head, _)] = shuffle_split.split(part, raw, ["k"], 1)
        keys = [shuffle_keys.decoded(shown[0]) for shown, *_ in head["groups"]]
        assert keys == [2**53, None, 2**53 + 1]
        assert [type(key) for key in keys] == [int, type(None), int]


def test_pieces_name_the_files_of_their_rows():
    frame = pd.DataFrame({"k": ["a", "a"], "number": [0, 1]})
    with tempfile.TemporaryDirectory() as folder:
        for at in range(5):
            part = frame.copy()
            raw = slice_of(part, True, f"/in/{at}.jsonl")
            raw.names = None
            part.index = pd.Index(np.arange(2, dtype="int64"))
            [(_, head, rows)] = shuffle_split.split(part, raw, ["k", "kk"], 1)
            assert head["absent"] == ["kk"] and head["seen"] == ["k", "number"]
            encoded = json.dumps({"slice": at, **head}).encode()
            with open(Path(folder) / f"{at}.part", "wb") as file:
                shuffle_split.write_part(file, encoded, rows)
        parts = [shuffle_group.Part(str(path)) for path in Path(folder).glob("*.part")]
        bucket = shuffle_group.Bucket(parts, False)
        assert (bucket.absent, bucket.seen) == (["kk"], ["k", "number"])
        assert bucket.files == [(f"/in/{at}.jsonl", 0) for at in range(5)]
        assert [bucket.files_of(piece) for group in bucket.groups for piece in group.pieces] == [
            ([0, 1, 2], 2)
        ] * len(bucket.groups)


@pytest.mark.parametrize("is_text", [True, False])
def test_a_part_with_another_byte_is_refused_by_name(is_text, tmp_path):
    frame = pd.DataFrame({"k": ["a", "b"], "number": [0, 1]})
    [(_, head, rows)] = shuffle_split.split(frame.copy(), slice_of(frame, is_text), ["k"], 1)
    path = tmp_path / "0.part"
    with path.open("wb") as file:
        shuffle_split.write_part(file, json.dumps({"slice": 0, **head}).encode(), rows)
    whole = path.read_bytes()
    for at in [*range(20), len(whole) // 2, len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[at] ^= 0x81
        path.write_bytes(damaged)
        with pytest.raises(ScriptError, match=r"0\.part is not what the step split wrote"):
            shuffle_group.Part(str(path)).rows()
