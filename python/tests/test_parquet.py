"""Row groups of Parquet files: what run() gets, and what another file leads to (spec D2, D5, E4)."""

from __future__ import annotations

import os
import sys

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import PACKAGE, row_groups
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(PACKAGE.parent))
from azureml_user.parallel_run import parquet
from azureml_user.parallel_run.parquet_types import WholeTypes

INPUTS = [["sales", "tabular", "/in/*.parquet"]]
IDS = "def run(df):\n    return list(df['id'])\n"
# Three rows of `required int64 a; optional group g {}`: pyarrow reads such a file, and refuses to write one.
GROUP_WITHOUT_FIELDS = (
    "504152311500153c153c2c15061500150615061c000000020000000601010000000000000002000000000000000300000000"
    "0000001504193c35001806736368656d61150400150425021801610036021801671600001606191c191c26001c1504192506"
    "001918016115001606166216622608491c150015001502000000166216062608166200391c1c0000005800000050415231"
)
FRAME = pd.DataFrame({"id": range(1000), "text": [f"t{row}" for row in range(1000)], "half": 0.5})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.to_parquet(path, row_group_size=300)
    return path


def open_table(path):
    """The file as a process opens it."""
    return of_some_data(path, str(path))


def of_some_data(path, of_types):
    """The same where the data that decides on types is in the file `of_types`."""
    footer = parquet.read_footer(path.read_bytes())
    return parquet.ParquetTable(str(path), footer, False, WholeTypes(footer, of_types))


def test_parts_of_a_row_group_come_in_any_order(path):
    table = open_table(path)
    for start, stop in [(0, 100), (100, 110), (250, 300), (0, 1), (1, 2), (2, 300), (299, 300)]:
        expected = FRAME.iloc[300 + start : 300 + stop].reset_index(drop=True)
        pd.testing.assert_frame_equal(table.frame(1, 2, None, (start, stop)), expected)
        chosen = ["half", "id"]
        pd.testing.assert_frame_equal(table.frame(1, 2, chosen, (start, stop)), expected[chosen])
    pd.testing.assert_frame_equal(table.frame(2, 4, None, None), FRAME.iloc[600:].reset_index(drop=True))
    with pytest.raises(ValueError, match="the row group ends before row 300"):
        table.frame(0, 1, None, (290, 302))
    assert len(table.frame(0, 1, None, (290, 300))) == 10


def test_the_index_is_that_of_pandas(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.set_index("text").to_parquet(path, row_group_size=300)
    expected = pd.read_parquet(path)
    pd.testing.assert_frame_equal(open_table(path).frame(1, 2, None, None), expected.iloc[300:600])
    frame = open_table(path).frame(1, 2, ["half", "text"], None)
    pd.testing.assert_frame_equal(frame, expected[["half"]].iloc[300:600])


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(1001, 2001, name="customer_id"),
        pd.RangeIndex(1000, name="row"),
        pd.RangeIndex(1, 1001),
        pd.RangeIndex(0, 3000, 3),
        pd.RangeIndex(1000, 0, -1),
    ],
)
def test_each_part_has_its_part_of_a_range_as_index(tmp_path, index):
    path = tmp_path / "t.parquet"
    FRAME.set_axis(index).to_parquet(path, row_group_size=300)
    whole = pd.read_parquet(path)
    table = open_table(path)
    for first, stop, rows in [(0, 4, None), (3, 4, None), (1, 3, None), (2, 3, (7, 20)), (1, 2, (299, 300))]:
        start = 300 * first + rows[0] if rows else 300 * first
        end = start + rows[1] - rows[0] if rows else min(300 * stop, 1000)
        pd.testing.assert_frame_equal(table.frame(first, stop, None, rows), whole.iloc[start:end])
        chosen = ["half", "id"]
        pd.testing.assert_frame_equal(table.frame(first, stop, chosen, rows), whole[chosen].iloc[start:end])


NULLABLE = {
    "int": [1, None, 3, 2**40],
    "int8": pd.array([1, None, 3, 4], dtype="Int8"),
    "flag": [True, None, False, True],
    "word": ["a", None, "b", ""],
    "half": [0.5, None, -0.0, 1e300],
    "list": [[1, 2], None, [], [3, None]],
    "flags": [[[True]], [[False, None], []], [[]], None],
    "kind": pd.Categorical(["x", "y", None, "z"]),
    "order": pd.Categorical(["x", "y", "z", "x"], ["z", "y", "x"], ordered=True),
    "number": pd.Categorical([3, 1, 2, 1]),
    "day": pd.to_datetime(["2026-01-01", None, "2026-01-02", "2026-01-03"]),
}


def whole_numbers(values):
    """A column as other writers have it: of numbers, some of which are missing."""
    return pa.array([None if value is None or value != value else int(value) for value in values], pa.int64())


def kind(value):
    """The type of a value, and of those in it."""
    if not hasattr(value, "dtype") or value.ndim == 0:
        return type(value)
    return (value.dtype, *map(kind, value))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_every_part_has_the_types_of_the_whole(tmp_path, data):
    names = data.draw(st.lists(st.sampled_from(sorted(NULLABLE)), min_size=1, unique=True))
    rows = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=20))
    frame = pd.DataFrame({name: pd.Series(NULLABLE[name]).iloc[rows].to_numpy() for name in names})
    for name in names:
        if isinstance(NULLABLE[name], pd.Categorical):
            frame[name] = NULLABLE[name].take(rows)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for name in {"int", "int8"} & set(names):
        table = table.set_column(table.column_names.index(name), name, whole_numbers(frame[name]))
    if data.draw(st.booleans()):
        table = table.replace_schema_metadata(None)
    path = tmp_path / "t.parquet"
    size = data.draw(st.integers(1, 7))
    pq.write_table(table, path, row_group_size=size, write_statistics=data.draw(st.booleans()))
    whole, opened = pd.read_parquet(path), open_table(path)
    groups = -(-len(rows) // size)
    first = data.draw(st.integers(0, groups - 1))
    stop = data.draw(st.integers(first + 1, groups))
    parts = [(first, stop, None), (first, first + 1, (0, 1))]
    for first, stop, of_group in parts:
        start = first * size
        end = start + 1 if of_group else min(stop * size, len(rows))
        expected = whole.iloc[start:end].reset_index(drop=True)
        found = opened.frame(first, stop, None, of_group)
        pd.testing.assert_frame_equal(found, expected, check_exact=True)
        for name in names:
            assert list(map(kind, found[name])) == list(map(kind, expected[name])), name
    if "kind" in names:
        assert list(found["kind"].cat.categories) == list(whole["kind"].cat.categories)


def test_a_copy_of_some_data_has_the_types_that_the_footer_tells(tmp_path):
    path = tmp_path / "t.parquet"
    rows = [(1, 1, True, "x"), (None, 2, False, "y"), (3, 3, None, "x")]
    columns = ["n", "all", "flag", "kind"]
    kinds = [pa.int64(), pa.int64(), pa.bool_(), pa.dictionary(pa.int32(), pa.string())]
    schema = pa.schema(list(zip(columns, kinds)))
    with pq.ParquetWriter(path, schema) as writer:
        for row in rows:
            values = {name: pa.array([value], kind) for name, value, kind in zip(columns, row, kinds)}
            writer.write_table(pa.table(values, schema))
    for of_types, categories in [(str(path), ["x", "y"]), (None, ["x"])]:
        frame = of_some_data(path, of_types).frame(0, 1, None, None)
        assert list(map(str, frame.dtypes)) == ["float64", "int64", "object", "category"]
        assert list(frame["kind"].cat.categories) == categories
    assert list(pd.read_parquet(path)["kind"].cat.categories) == ["x", "y"]
    # What is damaged elsewhere harms no other row group.
    content = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(3)
    content[second.dictionary_page_offset : second.data_page_offset] = bytes(
        second.data_page_offset - second.dictionary_page_offset
    )
    path.write_bytes(content)
    frame = open_table(path).frame(0, 1, None, None)
    assert list(frame["kind"].cat.categories) == ["x"]
    with pytest.raises((OSError, pa.ArrowException)):
        open_table(path).frame(1, 2, None, None)


def test_a_group_without_fields_is_a_column_without_values(tmp_path):
    path = tmp_path / "t.parquet"
    path.write_bytes(bytes.fromhex(GROUP_WITHOUT_FIELDS))
    whole = pd.read_parquet(path)
    assert list(whole) == ["a", "g"]
    pd.testing.assert_frame_equal(open_table(path).frame(0, 1, None, None), whole)
    part = open_table(path).frame(0, 1, ["g", "a"], (1, 3))
    pd.testing.assert_frame_equal(part, whole[["g", "a"]].iloc[1:3].reset_index(drop=True))
    pd.testing.assert_frame_equal(open_table(path).frame(0, 1, ["g"], None), whole[["g"]])


def test_what_a_script_writes_into_a_frame_is_its_own(path):
    table = open_table(path)
    for rows in [None, (0, 10)]:
        frame = table.frame(0, 1, ["half"], rows)
        frame.loc[0, "half"] = 7.0
        frame["half"] += 1
        assert (frame["half"].iloc[0], table.frame(0, 1, ["half"], rows)["half"].iloc[0]) == (8.0, 0.5)


def test_a_process_reads_what_was_planned(start, path):
    process = start(IDS, inputs=INPUTS).ready()
    for groups, rows, first, stop in [
        ((0, 2), None, 0, 600),
        ((3, 4), None, 900, 1000),
        ((1, 2), (5, 9), 305, 309),
    ]:
        outcome = process.run(row_groups(path, groups, rows))
        assert outcome.error is None, outcome.error
        assert outcome.rows.decode() == "".join(f"{row}\n" for row in range(first, stop))
        assert (outcome.items, process.page.items) == (stop - first, stop - first)


def test_a_copy_has_its_footer_elsewhere(start, path, tmp_path):
    work = row_groups(path, (1, 2), origin="s3://bucket/t.parquet", footer_file=str(tmp_path / "footer"))
    content = path.read_bytes()
    (tmp_path / "footer").write_bytes(content)
    # Nothing but the data of the row group is there.
    first, *_, last = (pq.ParquetFile(path).metadata.row_group(1).column(column) for column in range(3))
    begin, end = first.dictionary_page_offset, last.data_page_offset + last.total_compressed_size
    path.write_bytes(bytes(begin) + content[begin:end])
    process = start(IDS, inputs=INPUTS).ready()
    assert process.run(work).rows.startswith(b"300\n301\n")
    (tmp_path / "footer").write_bytes(content[:-20] + b"x" + content[-19:])
    error = start(IDS, inputs=INPUTS).ready().run(work).error
    assert error.category == "DamagedCopy", error


def fails(start, work):
    error = start(IDS, inputs=INPUTS).ready().run(work).error
    assert error.stage == "Load"
    return error.category, error.message


def test_a_file_that_is_another_one_fails_its_mini_batches(start, path):
    work = row_groups(path, (0, 1))
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(content + b"x")
    category, message = fails(start, work)
    assert category == "InputChanged"
    assert message.startswith(f"{path} changed since it was planned: it had {len(content)} bytes and has")
    path.write_bytes(content[:-20] + b"x" + content[-19:])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    category, message = fails_again(start, work)
    assert (category, "its footer is another one" in message) == ("InputChanged", True)


def fails_again(start, work):
    error = start(IDS, inputs=INPUTS).ready().run(work).error
    return error.category, error.message


def test_data_that_cannot_be_read_is_told_with_its_row_groups(start, path):
    category, message = fails(start, row_groups(path, (0, 2), records=7))
    assert category == "DataError"
    expected = "600 rows where the footer of the file has 7 (mini-batch of row groups 0-1)"
    assert message == f"{path}: {expected}"


def test_a_date_that_python_has_not_is_told_with_its_column(start, tmp_path):
    path = tmp_path / "t.parquet"
    dates = pa.array([1, 2**31 - 2], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": [1, 2], "day": dates}), path)
    category, message = fails(start, row_groups(path, (0, 1)))
    assert category == "DataError"
    assert message.startswith(f"{path}: column 'day': year 5881580 is out of range"), message


def test_pages_are_held_to_their_checksums(start, tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"id": range(1000)})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[1000] ^= 4
    path.write_bytes(content)
    category, message = fails(start, row_groups(path, (0, 1)))
    assert category == "DataError"
    assert message.endswith("(mini-batch of row group 0)") and "crc" in message.lower(), message
