"""Row groups of a Parquet file as DataFrames (spec D2, E4).

A frame is the part with these rows of what `pandas.read_parquet` makes of the file: types, the index that
pandas left in the metadata, and nested values as pyarrow gives them for these rows. Checksums of pages are
compared where the file has them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet

from azureml_user.parallel_run import delta
from azureml_user.parallel_run.parquet_types import WholeTypes


def read_footer(footer: bytes) -> Any:
    """What the footer of a file, with the eight bytes behind it, says."""
    return pyarrow.parquet.read_metadata(pyarrow.BufferReader(footer))


# Whether the table of the last frame is kept, and that table.
keeps_tables = False
_last_table: Any = None


def take_last_table() -> Any:
    """The table that the last frame was made of."""
    global _last_table
    table, _last_table = _last_table, None
    return table


# What a column has in its metadata whose values were in a dictionary, and are not on the way to a group.
DICTIONARY = b"prs_dictionary"


def of_stream(stream: bytes) -> Any:
    """The DataFrame of a stream of Arrow, made as that of a file with its rows would be."""
    with pyarrow.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    for at, field in enumerate(table.schema):
        order = (field.metadata or {}).get(DICTIONARY)
        if order is not None:
            kind = pyarrow.dictionary(pyarrow.int32(), field.type, ordered=order == b"ordered")
            column = table.column(at).dictionary_encode().cast(kind)
            table = table.set_column(at, field.with_type(kind).remove_metadata(), column)
    return _to_pandas()(table)


def _to_pandas() -> Callable[[Any], Any]:
    """How `pandas.read_parquet` makes a DataFrame of a table: older ones leave it all to pyarrow."""
    try:
        from pandas.io._util import arrow_table_to_pandas

        made = arrow_table_to_pandas
    except ImportError:
        made = pyarrow.Table.to_pandas

    def frame(table: Any) -> Any:
        try:
            return made(table)
        except _UNHELD as error:
            raise _of_column(table, made) or error from None

    return frame


# What pandas raises for a value that it cannot hold: a date that Python does not have.
_UNHELD = (ValueError, OverflowError, NotImplementedError)


def _of_column(table: Any, made: Callable[[Any], Any]) -> ValueError | None:
    """What is wrong with the first column that no DataFrame holds; nothing where each can be held alone."""
    for position, name in enumerate(table.column_names):
        try:
            made(table.select([position]).replace_schema_metadata(None))
        except _UNHELD as error:
            return ValueError(f"column {name!r}: {error}")
    return None


def _described_range(schema: Any) -> dict[str, Any] | None:
    """What pandas says of a file whose index is a range, of which it leaves the bounds alone; nothing of any
    other. One from 0 on without a name says nothing: a frame counts its own rows, as one of any other format
    does."""
    described: dict[str, Any] = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    tells = any((one["start"], one["step"], one.get("name")) != (0, 1, None) for one in _ranges(described))
    return described if tells else None


def _ranges(described: dict[str, Any]) -> list[dict[str, Any]]:
    index = described.get("index_columns", [])
    return [one for one in index if isinstance(one, dict) and one.get("kind") == "range"]


class ParquetTable:
    """An open file. Of a row group that is read in parts it keeps how far it came, so that one part after the
    other costs as much as the whole."""

    def __init__(self, path: str, footer: Any, is_delta: bool, types: WholeTypes) -> None:
        """Opens `path`, which has this footer, or whose columns lie where it says. Points in time of a Delta
        table are of microseconds, also in the older form. `types` are those of all of the file."""
        unit = "us" if is_delta else None
        self._file = pyarrow.parquet.ParquetFile(
            path, metadata=footer, page_checksum_verification=True, coerce_int96_timestamp_unit=unit
        )
        self._to_pandas = _to_pandas()
        self._types = types
        self._part: _Part | None = None
        self._schema = self._file.schema_arrow
        self._range = _described_range(self._schema)
        # A row group, and how many rows of the file are before it.
        self._place = (0, 0)

    def frame(
        self,
        first: int,
        stop: int,
        columns: list[str] | None,
        rows: tuple[int, int] | None,
        of_table: list[delta.Column] | None = None,
    ) -> Any:
        """The DataFrame of the row groups from `first` up to `stop`, or of these rows of the first one; with
        these columns in this order, or with all; or with those of the Delta table that the file is of."""
        if rows is None:
            table = self._file.read_row_groups(list(range(first, stop)), columns=columns, use_threads=False)
        else:
            table = self._rows(first, columns, *rows)
        table = self._with_groups_without_fields(table, columns)
        # pyarrow takes names for those of nested columns too, and gives the columns in an order of its own.
        table = table if columns is None else table.select(columns)
        if self._range is not None:
            table = self._with_its_range(table, self._rows_before(first) + (rows[0] if rows else 0))
        if of_table is not None:
            table = delta.with_columns_of_table(table, of_table)
        if keeps_tables:
            global _last_table
            _last_table = table
        return self._types.given_to(self._to_pandas(table), table)

    def _with_its_range(self, table: Any, position: int) -> Any:
        """The table, whose first row is at `position` of the file, with its own part of the index."""
        described = copy.deepcopy(self._range)
        for one in _ranges(described):
            one["start"] += position * one["step"]
            one["stop"] = one["start"] + table.num_rows * one["step"]
        told = {**(table.schema.metadata or {}), b"pandas": json.dumps(described).encode()}
        return table.replace_schema_metadata(told)

    def _rows_before(self, group: int) -> int:
        at, before = self._place if self._place[0] <= group else (0, 0)
        groups = self._file.metadata
        before += sum(groups.row_group(one).num_rows for one in range(at, group))
        self._place = (group, before)
        return before

    def _with_groups_without_fields(self, table: Any, columns: list[str] | None) -> Any:
        """The table with the columns that have no data, for no column is below them. pyarrow leaves them out;
        `pandas.read_parquet` has them, without values."""
        schema = self._schema
        wanted = schema.names if columns is None else columns
        if len(wanted) <= table.num_columns:
            return table
        for at, name in enumerate(schema.names):
            if name in wanted and name not in table.column_names:
                kind = schema.field(at).type
                table = table.add_column(
                    min(at, table.num_columns), name, pyarrow.nulls(table.num_rows, kind)
                )
        return table

    def _rows(self, group: int, columns: list[str] | None, start: int, stop: int) -> Any:
        part, self._part = self._part, None
        if part is None or part.of != (group, columns) or part.position > start:
            batches = self._file.iter_batches(
                stop - start, row_groups=[group], columns=columns, use_threads=False
            )
            part = _Part((group, columns), batches)
        table = part.read(start, stop)
        self._part = part
        return table


class _Part:
    """A row group that is read from its beginning."""

    def __init__(self, of: tuple[int, list[str] | None], batches: Any) -> None:
        # The row group, and which columns of it.
        self.of = of
        # The next row.
        self.position = 0
        self._batches = batches
        self._left: Any = None

    def read(self, start: int, stop: int) -> Any:
        """The rows from `start` up to `stop`; those before are left out."""
        taken = []
        while self.position < stop:
            batch = next(self._batches, None) if self._left is None else self._left
            self._left = None
            if batch is None:
                raise ValueError(f"the row group ends before row {self.position}")
            before = min(max(start - self.position, 0), batch.num_rows)
            end = min(stop - self.position, batch.num_rows)
            if end < batch.num_rows:
                self._left = batch.slice(end)
            # A slice of nothing would keep its batch in memory.
            if before < end:
                taken.append(batch.slice(before, end - before))
            self.position += end
        return pyarrow.Table.from_batches(taken)
