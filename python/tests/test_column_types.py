"""Types of columns whose rows are put together from several files, against `pandas.concat` of the files."""

from __future__ import annotations

import math
import sys
import warnings

import pandas as pd
import pytest
from harness import PACKAGE
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(PACKAGE.parent))
from azureml_user.parallel_run import column_types

sys.path.pop(0)

COLUMNS = {
    "int": pd.Series([1, 2, 3]),
    "small": pd.Series([1, 2, 3], dtype="int8"),
    "unsigned": pd.Series([1, 2, 2**64 - 1], dtype="uint64"),
    "float": pd.Series([0.5, math.nan, 1.0]),
    "bool": pd.Series([True, False, True]),
    "gaps": pd.Series([True, None, False], dtype=object),
    "text": pd.Series(["a", None, "c"]),
    "bytes": pd.Series([b"a", None, b"c"], dtype=object),
    "nullable": pd.Series([1, None, 3], dtype="Int64"),
    "truth": pd.Series([True, None, False], dtype="boolean"),
    "string": pd.Series(["a", None, "c"], dtype="string"),
    "time": pd.Series(pd.to_datetime(["2024-02-29", None, "2024-03-01"])),
    "zoned": pd.Series(pd.to_datetime(["2024-02-29", None, "2024-03-01"]).tz_localize("Europe/Berlin")),
    "span": pd.Series(pd.to_timedelta([1, None, 3], unit="s")),
    "category": pd.Series(["x", "y", None], dtype=pd.CategoricalDtype(["y", "x", "z"])),
    "ordered": pd.Series(["c", "a", None], dtype=pd.CategoricalDtype(["c", "a"], ordered=True)),
}


def types_of(files):
    """Those of several frames, as prs notes and gathers them."""
    columns = {}
    for number, frame in enumerate(files):
        for name, of_file in column_types.noted(frame):
            types = columns.setdefault(name, [""] if number else [])
            if of_file not in types:
                types.append(of_file)
        for name, types in columns.items():
            if name not in frame.columns and "" not in types:
                types.append("")
    return column_types.Types(list(columns.items()), pd.api.types.pandas_dtype)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from(sorted(COLUMNS)), min_size=1),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_rows_of_a_file_are_their_part_of_all_files_together(files, data):
    frames = [
        pd.DataFrame({name: COLUMNS[column].sample(frac=1, random_state=7) for name, column in one.items()})
        for one in files
    ]
    frames = [frame.reset_index(drop=True) for frame in frames]
    types = types_of(frames)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = pd.concat(frames)
    for number, frame in enumerate(frames):
        rows = sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))
        expected = whole.iloc[[3 * number + row for row in rows]]
        pd.testing.assert_frame_equal(types.given_to(frame.iloc[rows]), expected)


def test_columns_without_names_are_told_by_their_positions():
    frames = [pd.DataFrame([[1, "a"]]), pd.DataFrame([[0.5, "b", True]])]
    typed = types_of(frames).given_to(frames[0])
    assert list(typed.columns) == [0, 1, 2]
    assert [str(dtype) for dtype in typed.dtypes] == ["float64", str(frames[0].dtypes[1]), "object"]


def test_a_slice_that_is_wider_than_its_file_keeps_its_values():
    types = column_types.Types([("a", ["int64", "float64"])], pd.api.types.pandas_dtype)
    wide = pd.DataFrame({"a": ["x", "1"]}, index=[7, 9])
    pd.testing.assert_frame_equal(types.given_to(wide), wide.astype(object))


@pytest.mark.parametrize("count", [3, 3_000])
def test_categories_of_the_file_are_those_of_its_rows_where_they_are_few(count):
    of_file = pd.DataFrame({"c": pd.Categorical([f"{at:06}" for at in range(count)])})
    rows = pd.DataFrame({"c": pd.Categorical(["000002", "000001"])})
    typed = types_of([of_file]).given_to(rows)
    assert typed["c"].tolist() == ["000002", "000001"]
    assert len(typed["c"].cat.categories) == (3 if count == 3 else 2)


def test_notes_of_a_frame_have_a_bound_however_many_categories_it_has():
    columns = {f"c{at}": pd.Categorical([f"{at}-{one:04}" for one in range(300)]) for at in range(50)}
    notes = column_types.noted(pd.DataFrame(columns))
    assert sum(len(of_file) for _, of_file in notes) < 11_000
    assert notes[0][1].startswith("{") and notes[-1][1].startswith("category:")


def test_large_categories_that_differ_make_objects_as_pandas_has_it():
    files = [
        pd.DataFrame({"c": pd.Categorical([f"{of}{at:06}" for at in range(3_000)])}) for of in ("a", "b")
    ]
    assert types_of(files).given_to(files[0])["c"].dtype == pd.concat(files)["c"].dtype
    typed = types_of([files[0], files[0]]).given_to(files[0])
    assert str(typed["c"].dtype) == "category"
