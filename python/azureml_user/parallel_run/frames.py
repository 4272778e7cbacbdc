"""Tabular mini-batches as DataFrames (spec E4).

The types are those `pandas.read_csv` gives in the pandas of the job's environment: whatever that pandas
holds text as, NaN for what is missing. JSON lines are what `pandas.DataFrame` makes of their objects. Every
array of a frame is its own, so that a script may write into it.
"""

from __future__ import annotations

import array
import importlib.util
import io
import json
import math
from collections.abc import Sequence
from typing import Any

from azureml_user.parallel_run.errors import ScriptError

_OLDEST_PYARROW = 14


def check(inputs: Sequence[Any]) -> bool:
    """Whether an input is tabular; refuses one when what it needs is not installed. Imports nothing."""
    tabular = [one.name for one in inputs if one.kind == "tabular"]
    if not tabular:
        return False
    missing = [module for module in ("pandas", "pyarrow") if importlib.util.find_spec(module) is None]
    if missing:
        raise ScriptError(
            "ModuleNotFoundError",
            f"the input {tabular[0]!r} is tabular, so run() gets a pandas.DataFrame, and the job's "
            f"environment has no {' and no '.join(missing)}; install it there: "
            "python -m pip install pandas pyarrow",
        )
    return True


class Frames:
    """Makes the DataFrames of one process."""

    def __init__(self) -> None:
        import pandas
        import pyarrow

        if int(pyarrow.__version__.split(".")[0]) < _OLDEST_PYARROW:
            raise ScriptError(
                "ImportError",
                f"pyarrow {pyarrow.__version__} is too old for tabular inputs; "
                f"install {_OLDEST_PYARROW} or newer",
            )
        self._pandas = pandas
        self._pyarrow = pyarrow
        self._text_dtype: Any | None = None
        # Where the slices themselves are wanted too: the columns that are looked at.
        self.wanted: list[str] | None = None
        # Of the slice that is being read, the text of columns whose numbers are not exact.
        self._texts: dict[str, list[str | None]] = {}

    def index_of_names(self, names: list[str]) -> Any:
        """Column names from a header."""
        return self._pandas.Index(names)

    def index_of_positions(self, count: int) -> Any:
        """Column names where there is no header."""
        return self._pandas.Index(list(range(count)))

    def frame(self, columns: Any, names: Any, objects: list[int]) -> Any:
        """The DataFrame of Arrow columns; those at the positions `objects` hold objects in any case."""
        batch = self._pyarrow.record_batch(columns)
        arrays = {position: self._array(column) for position, column in enumerate(batch.columns)}
        for position in objects:
            arrays[position] = arrays[position].astype(object)
        frame = self._pandas.DataFrame(arrays, index=self._pandas.RangeIndex(batch.num_rows))
        frame.columns = names
        return frame

    def with_columns(self, frame: Any, names: list[str]) -> Any:
        """The same rows with all these columns, in this order. One that is not there holds nothing, and has
        no type of its own: what a filter compares it with is not known to be of another one."""
        absent = [name for name in names if name not in frame.columns]
        frame = frame.reindex(columns=names)
        return frame.astype(dict.fromkeys(absent, object)) if absent else frame

    def text_has_nan(self) -> bool:
        """Whether this pandas has a type for text, which holds a null as NaN."""
        return hasattr(self._text(), "__from_arrow__")

    def frame_of_columns(
        self,
        columns: Any,
        names: list[str],
        others: dict[int, list[str | None]],
        of_file: dict[str, str],
    ) -> Any | None:
        """The DataFrame of the columns of JSON lines: Arrow columns and, by position among all, the `others`.

        Their values are text of JSON, with None where a record has none. Returns None when one is not JSON.
        `of_file` has the kinds of the values that the columns of the whole file have.
        """
        batch = self._pyarrow.record_batch(columns)
        arrow = iter(batch.columns)
        arrays = {}
        for position in range(len(names)):
            if position not in others:
                arrays[position] = self._array(next(arrow))
                continue
            try:
                values = [{} if text is None else {0: _decode(text)} for text in others[position]]
            except (ValueError, RecursionError):
                return None
            examples = _examples({0: of_file.get(names[position], "")})
            arrays[position] = self._rows_behind(examples, values)[0]
        frame = self._pandas.DataFrame(arrays, index=self._pandas.RangeIndex(batch.num_rows))
        frame.columns = self.index_of_names(names)
        return frame

    def frame_of_valid_lines(
        self, lines: bytes, first_byte: int, of_file: dict[str, str]
    ) -> tuple[Any, list[str]]:
        """The DataFrame of those JSON lines that hold an object, and what is wrong with the others."""
        refused: list[str] = []
        return self.frame_of_lines(lines, first_byte, of_file, refused), refused

    def frame_of_lines(
        self, lines: bytes, first_byte: int, of_file: dict[str, str], refused: list[str] | None = None
    ) -> Any:
        """The DataFrame of JSON lines; or what is wrong with them, as a str. They stand from `first_byte` on
        in a file whose columns have values of these kinds. With a list for what is wrong with each line, such
        lines are left out."""
        records = {}
        for line in lines.split(b"\n"):
            if line.strip(b" \t\r"):
                record = _record(line, first_byte)
                if refused is not None and not isinstance(record, str):
                    record = _refused_text(first_byte, record) or record
                if not isinstance(record, str):
                    records[first_byte] = record
                elif refused is None:
                    return record
                else:
                    refused.append(record)
            first_byte += len(line) + 1
        names = set(of_file).union(*records.values())
        if len(names) * len(records) > _MOST_CELLS:
            return (
                f"its {len(records)} records have {len(names)} names in all, too many for a table: give a "
                "smaller mini_batch_size, or infer: sampled for the names of each mini-batch alone"
            )
        try:
            return self._rows_behind(_examples(of_file), list(records.values()))
        except UnicodeEncodeError:
            return next(filter(None, map(_refused_text, records, records.values())))

    def _rows_behind(self, examples: list[dict[Any, Any]], records: list[dict[Any, Any]]) -> Any:
        """The DataFrame of records as a part of one that begins with `examples`."""
        frame = self._pandas.DataFrame(examples + records)
        return frame.iloc[len(examples) :].reset_index(drop=True) if examples else frame

    def text(self, values: list[str | None]) -> Any:
        """A column of text, with None for what is missing."""
        return self._array(self._pyarrow.array(values, self._pyarrow.string()))

    def append_column(self, frame: Any, name: str, value: str | int) -> bool:
        """Gives `frame` a last column that has this value in all rows: text, or a time in nanoseconds since
        1970. False, and nothing done, when there is one of that name."""
        if name in frame.columns:
            return False
        if isinstance(value, int):
            dtype, scalar = "datetime64[ns]", self._pandas.Timestamp(value)
        else:
            dtype, scalar = self._text(), value
        column = self._pandas.Series(scalar, index=self._pandas.RangeIndex(len(frame)), dtype=dtype)
        frame.insert(len(frame.columns), name, column.array)
        return True

    def concatenated(self, parts: list[Any]) -> Any:
        """The rows of several DataFrames, one behind the other, as `pandas.concat` puts them together. Rows
        are numbered anew, unless the data has an index of its own."""
        is_numbered = all(
            type(part.index) is self._pandas.RangeIndex and part.index.name is None for part in parts
        )
        return self._pandas.concat(parts, ignore_index=is_numbered)

    def types_of_files(self, columns: list[tuple[str, list[str]]]) -> Any:
        """The types of columns that stand in several files, from those that each has there."""
        from azureml_user.parallel_run import column_types

        return column_types.Types(columns, self._dtype_of)

    def _dtype_of(self, noted: str) -> Any:
        if noted.startswith("~"):
            return self._rows_behind(_examples({0: noted[1:]}), [])[0].dtype
        return self._text() if noted == "str" else self._pandas.api.types.pandas_dtype(noted)

    def want_slices(self, arguments: list[str]) -> None:
        """Has each frame come with its slice, for the step of a shuffle that splits, with these arguments."""
        from azureml_user.parallel_run import parquet, shuffle_split

        parquet.keeps_tables = True
        self.wanted = shuffle_split.Settings(arguments).keys

    def keep_texts(self, names: list[str], columns: Any) -> None:
        """Keeps the text of these columns of the slice that is being read."""
        batch = self._pyarrow.record_batch(columns)
        self._texts = {name: column.to_pylist() for name, column in zip(names, batch.columns)}

    def keep_slice(self, frame: Any, lines: bytes | None, starts: bytes, *described: Any) -> None:
        """Has the step that splits find the slice that `frame` is of, and numbers its rows by those of
        the slice: numbers that outlive what is done with it."""
        import numpy

        from azureml_user.parallel_run import column_types, parquet, shuffle_split

        table = parquet.take_last_table() if lines is None else None
        types = column_types.noted(frame) if lines is None else []
        if lines is not None and len(starts) // 8 - 1 > len(frame):
            # Lines were left out.
            starts = self._valid_starts(lines, starts)
        texts, self._texts = self._texts, {}
        shuffle_split.current = shuffle_split.Slice(lines, starts, table, *described, texts, types)
        # Of a range pandas makes a RangeIndex, and what drops rows numbers such rows anew.
        frame.index = self._pandas.Index(numpy.arange(len(frame), dtype="int64"))

    def _valid_starts(self, lines: bytes, starts: bytes) -> bytes:
        """Where the lines begin that hold an object, and the end of the last one. What is between two of
        them is of the first, and is left out as often as the lines are read."""
        places = memoryview(starts).cast("Q").tolist()
        kept = []
        for start, end in zip(places, places[1:]):
            record = _record(lines[start:end].rstrip(b"\n"), start)
            if not isinstance(record, str) and _refused_text(start, record) is None:
                kept.append(start)
        return array.array("Q", [*kept, places[-1]]).tobytes()

    def _array(self, column: Any) -> Any:
        types = self._pyarrow.types
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        if is_text and self.text_has_nan():
            return self._text().__from_arrow__(column)
        values = column.to_numpy(zero_copy_only=False)
        if column.null_count and values.dtype == object:
            values[column.is_null().to_numpy(zero_copy_only=False)] = float("nan")
        return values

    def _text(self) -> Any:
        """The dtype of text, found out when it is first needed: init() may have set an option of pandas."""
        if self._text_dtype is None:
            self._text_dtype = self._pandas.read_csv(io.StringIO("a\nx\n")).dtypes.iloc[0]
        return self._text_dtype


_decode = json.JSONDecoder().decode

# A value of each kind that decides on the type of a column, by the letters of `Kinds` in prs-tabular.
_EXAMPLES: dict[str, Any] = {
    "i": 1,
    "g": -1,
    "u": 1 << 63,
    "B": 1 << 64,
    "f": 0.5,
    "x": math.nan,
    "b": True,
    "s": "",
    "n": None,
    "o": [],
    "a": math.nan,
}

# Cells of a table of JSON lines at most: a gigabyte of references.
_MOST_CELLS = 1 << 27


def _examples(of_file: dict[Any, str]) -> list[dict[Any, Any]]:
    """The fewest rows that have, in each of these columns, a value of each of its kinds, in their order."""
    width = max(map(len, of_file.values()), default=0)
    return [
        {name: _EXAMPLES[kinds[min(row, len(kinds) - 1)]] for name, kinds in of_file.items()}
        for row in range(width)
    ]


def _record(line: bytes, first_byte: int) -> dict[str, Any] | str:
    """The object in a line of JSON, or what is wrong with the line."""
    try:
        text = line.decode()
        record = _decode(text)
    except UnicodeDecodeError as error:
        at = first_byte + error.start
        return f"bad UTF-8 at byte {at}: where the text has another encoding, give it (encoding: latin1)"
    except json.JSONDecodeError as error:
        place = first_byte + len(text[: error.pos].encode())
        return f"the line at byte {first_byte} is not JSON: {error.msg} at byte {place}"
    except (ValueError, RecursionError) as error:
        return f"the line at byte {first_byte} cannot be read: {error}"
    if isinstance(record, dict):
        return record
    return f"the line at byte {first_byte} holds no JSON object, but a value of type {type(record).__name__}"


def _refused_text(first_byte: int, record: dict[str, Any]) -> str | None:
    """What is wrong with a line whose text no array holds: JSON may name half a surrogate pair."""
    try:
        # What is inside a value is in no array.
        "".join([*record, *(value for value in record.values() if isinstance(value, str))]).encode()
    except UnicodeEncodeError as error:
        return f"the line at byte {first_byte} cannot be read: {error}"
    return None


def rows_between(frame: Any, first: int, stop: int) -> Any:
    """The rows of a DataFrame from one position to another, as a DataFrame of its own. Rows that are only
    counted are counted from 0, as those of any mini-batch."""
    rows, index = frame.iloc[first:stop], frame.index
    range_of_index = getattr(index, "start", None), getattr(index, "step", None), index.name
    return rows.reset_index(drop=True) if range_of_index == (0, 1, None) else rows.copy()
