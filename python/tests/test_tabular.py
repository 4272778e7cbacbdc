"""Tabular mini-batches: what run() gets, and what bad data leads to (spec E4, D5)."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from harness import delimited, files

INPUTS = [["sales", "tabular", "/in/*.csv"]]
SAVE = "def run(df):\n    df.to_pickle('frame.pkl')\n    return df\n"


@pytest.fixture
def table(start, tmp_path):
    """Gives a text to run() in one mini-batch; returns the process and the outcome."""

    def run(text, names, types, script=SAVE, **options):
        path = tmp_path / "t.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        process = start(script, inputs=INPUTS).ready()
        return process, process.run(delimited(path, names, types, **options))

    return run


TEXT = (
    'Ann,1,0.5,True,True,18446744073709551615\n"Bob ""B"", jr",-2,,False,,0\n'
    ',3,1e300,True,False,7\n"two\nlines",4,inf,False,True,1\n'
)
NAMES = ["name", "n", "x", "b", "m", "u"]


def test_the_frame_is_what_read_csv_gives(table):
    process, outcome = table(TEXT, NAMES, "sifbmu")
    assert outcome.error is None, outcome.error
    assert (outcome.items, outcome.returned) == (4, 4)
    assert process.page.items == 4
    expected = pd.read_csv(io.StringIO(",".join(NAMES) + "\n" + TEXT))
    frame = pd.read_pickle(process.folder / "work" / "frame.pkl")
    pd.testing.assert_frame_equal(frame, expected)
    assert [type(v) for v in frame["name"]] == [type(v) for v in expected["name"]]
    assert [type(v) for v in frame["m"]] == [type(v) for v in expected["m"]]
    assert outcome.rows.decode() == expected.to_csv(sep=" ", header=False, index=False)


@pytest.mark.parametrize(("part", "expected"), [((1, 3), [1, 2]), ((3, 9), [3]), ((4, 9), [])])
def test_a_part_has_some_of_the_rows_numbered_anew(start, tmp_path, part, expected):
    path = tmp_path / "t.csv"
    path.write_text("0,a\n1,b\n2,c\n3,d\n")
    process = start(
        "def run(df):\n    df['n'] += 10\n    df.to_pickle('frame.pkl')\n    return df\n", inputs=INPUTS
    )
    process.ready().hand_over(delimited(path, ["n", "s"], "is"), part=part)
    outcome = process.outcome()
    assert outcome.error is None, outcome.error
    assert (outcome.items, outcome.returned) == (len(expected), len(expected))
    assert process.stderr == "", "it is no view of the rows of others"
    if expected:
        frame = pd.read_pickle(process.folder / "work" / "frame.pkl")
        assert list(frame.index) == list(range(len(expected)))
        assert list(frame["n"] - 10) == expected


def test_columns_without_a_header_have_numbers(table):
    process, outcome = table("a,1\nb,2\n", 2, "si")
    assert outcome.error is None, outcome.error
    frame = pd.read_pickle(process.folder / "work" / "frame.pkl")
    pd.testing.assert_frame_equal(frame, pd.read_csv(io.StringIO("a,1\nb,2\n"), header=None))


def test_the_script_may_write_into_every_column(table):
    script = (
        "def run(df):\n"
        "    for position, value in enumerate(['new', 5, 2.5, False, False, 9]):\n"
        "        df.iloc[0, position] = value\n"
        "    df['n'] += 1\n    df.loc[1, 'x'] = 7\n    df.sort_values('n', inplace=True)\n"
        "    df['more'] = df['u'] * 2\n"
        "    return df[['name', 'n', 'x', 'b', 'm', 'u']].head(2)\n"
    )
    for text in (TEXT, "a,1,1,True,True,1\n" + TEXT):
        _, outcome = table(text, NAMES, "sifbmu", script)
        assert outcome.error is None, outcome.error
        assert outcome.returned == 2
        assert b"new" in outcome.rows or b"Bob" in outcome.rows


def test_a_slice_is_read_and_nothing_else(table):
    _, outcome = table("h,k\na,1\nb,2\nc,3\n", ["h", "k"], "si", part=(8, 12))
    assert outcome.rows == b"b 2\n"
    assert (outcome.items, outcome.returned) == (1, 1)


def test_a_slice_of_blank_lines_is_an_empty_frame(table):
    _, outcome = table("\n\n", ["a", "b", "c"], "sib")
    assert (outcome.items, outcome.returned, outcome.rows, outcome.error) == (0, 0, b"", None)


def test_truth_values_are_objects_where_some_are_missing_in_the_file(table):
    """Also in a slice that has all of them: `~` of a bool and of an object are not the same."""
    script = "def run(df):\n    return [f'{df[0].dtype} {df[1].dtype}'] * len(df)\n"
    for part, rows in [((0, 10), 1), ((10, 17), 1), ((0, 17), 2)]:
        _, outcome = table("true,True\n,False\n", 2, "mb", script, part=part)
        assert outcome.rows == b"object bool\n" * rows


def test_a_widened_column_is_told_once(start, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("1,a\nx,b\n2,c\ny,d\n")
    process = start("def run(df):\n    return [df[0].dtype.kind]\n", inputs=INPUTS).ready()
    rows = [process.run(delimited(path, 2, "is", part=part)).rows for part in [(0, 4), (4, 8), (12, 16)]]
    assert rows[0] == b"i\n"
    assert rows[1] == rows[2] == b"O\n"
    (notice,) = process.notices
    assert notice.startswith(f'{path}: column "0" is str in the mini-batch of bytes 4-8 and int64')


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (b"a,1\nb\n", {}, "ragged row: record 1 at byte 4 has 1 fields where 2 are expected"),
        (
            b"a,1\nb,2,3\n",
            {"part": (4, 10)},
            "ragged row: record 0 at byte 4 has 3 fields where 2 are expected",
        ),
        (b'a,1\n"b,2\n', {"part": (4, 9)}, "the quote opened at byte 4 is never closed"),
        (b"a,1\nb\xff,2\n", {}, "bad UTF-8 at byte 5"),
        (b"a,1\nb,x\n", {"declared": [False, True]}, 'value "x" of record 1 does not fit column "k"'),
    ],
)
def test_bad_data_fails_its_mini_batch_with_file_and_place(start, tmp_path, text, options, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    process = start(SAVE, inputs=INPUTS).ready()
    outcome = process.run(delimited(path, ["h", "k"], "si", origin="/in/t.csv.gz", records=9, **options))
    assert (outcome.error.stage, outcome.error.category, outcome.items) == ("Load", "DataError", 9)
    assert outcome.error.message.startswith(f"/in/t.csv.gz: {message}")
    path.write_bytes(b"fine,1\n")
    assert process.run(delimited(path, ["h", "k"], "si")).rows == b"fine 1\n"


def test_a_vanished_file_fails_its_mini_batch(start, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,1\n")
    work = delimited(path, ["h", "k"], "si")
    path.unlink()
    process = start(SAVE, inputs=INPUTS).ready()
    error = process.run(work).error
    assert (error.stage, error.category) == ("Load", "InputChanged")
    assert error.message.startswith(f"{path} changed since it was planned: it is gone; leave the inputs")


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_what_is_not_installed_is_named_before_any_mini_batch(start, missing):
    hide = f"import sys\nsys.modules[{missing!r}] = None\n"
    error = start(SAVE, inputs=INPUTS, sitecustomize=hide).init_failed()
    assert error.category == "ModuleNotFoundError"
    assert f"the job's environment has no {missing}; install it there: python -m pip install" in error.message


def test_the_context_names_the_tabular_input(start, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,1\n")
    process = start(
        "def run(df, context):\n    return [context.dataset.type, context.dataset_name, context.items]\n",
        inputs=INPUTS,
    )
    assert process.ready().run(delimited(path, 2, "si")).rows == b"tabular\nsales\n['t.csv']\n"


def test_files_are_served_without_pandas_being_imported(start):
    process = start("import sys\ndef run(mini_batch):\n    return ['pandas' in sys.modules]\n").ready()
    assert process.run(files("a")).rows == b"False\n"
    process = start(
        "def init():\n    import sys\n    print('pandas' in sys.modules)\n" + SAVE, inputs=INPUTS
    ).ready()
    assert process.shutdown() is None
    assert process.stdout == "True\n"
