"""The types that columns of a Parquet file have because of its other rows.

pandas gives whole numbers and truth values another type where one of them is missing, within lists too, and a
category those of all rows. The footer says how many values are missing, of nearly every writer; where it does
not, and for lists and categories, the columns are looked at that need it, once for each process. Of a file in
a store these columns come beside the row groups of a mini-batch (`parquet/doubt.rs` of prs-tabular).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
import pyarrow.parquet


class WholeTypes:
    """What all rows of a file make of its columns."""

    def __init__(self, footer: Any, path: str | None) -> None:
        """`path` has the data that decides, at the places that the footer says; None where the rows that are
        read are all rows, or nothing is in doubt."""
        self._is_here = path is not None
        self._metadata = footer
        self._path = path
        self._open: Any = None
        # By the names of columns that hold values or lists of numbers: their types, and the numbers of their
        # values among those of all columns.
        self._leaves = dict(_leaves(footer.schema.to_arrow_schema()))
        self._missing: dict[str, bool] = {}
        self._categories: dict[str, Any] = {}

    def given_to(self, frame: Any, table: Any) -> Any:
        """The frame of some of its rows, made of `table`, with the types of the whole."""
        for position, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes)):
            leaf = self._leaves.get(name) if isinstance(name, str) else None
            if leaf is None:
                continue
            column = None
            if _is_list(leaf[0]):
                column = self._lists(name, leaf[0], table.column(name))
            elif getattr(dtype, "categories", None) is not None and pyarrow.types.is_dictionary(leaf[0]):
                categories = self._categories_of(name)
                if categories is not None:
                    column = frame.iloc[:, position].cat.set_categories(categories)
            elif _is_plain(dtype, leaf[0]) and self._is_missing_somewhere(name):
                kind = object if dtype.kind == "b" else "float64"
                column = frame.iloc[:, position].astype(kind)
            if column is not None:
                frame.isetitem(position, column)
        return frame

    def _lists(self, name: str, kind: Any, column: Any) -> Any | None:
        """The lists of a column with the type that those of all rows have; None where they have it."""
        if column.type != kind or _missing_within(column) or not self._is_missing_somewhere(name):
            return None
        # pandas looks at all lists of a column together.
        last = pyarrow.array([_list_with_missing(kind)], kind)
        return pyarrow.chunked_array([*column.chunks, last]).to_pandas().to_numpy()[:-1]

    def _is_missing_somewhere(self, name: str) -> bool:
        if name not in self._missing:
            self._missing[name] = self._look_for_missing(name)
        return self._missing[name]

    def _look_for_missing(self, name: str) -> bool:
        (kind, number), groups = self._leaves[name], self._metadata
        if groups.schema.column(number).max_definition_level == 0:
            return False
        in_doubt = []
        for group in range(groups.num_row_groups):
            statistics = groups.row_group(group).column(number).statistics
            if statistics is None or not statistics.has_null_count:
                in_doubt.append(group)
            elif statistics.null_count > 0:
                if not _is_list(kind):
                    return True
                # It may be lists that are missing, or empty.
                in_doubt.append(group)
        if not in_doubt or not self._is_here:
            return False
        return any(map(_missing_within, self._parts(name, in_doubt)))

    def _file(self) -> Any:
        if self._open is None:
            self._open = pyarrow.parquet.ParquetFile(self._path, metadata=self._metadata)
        return self._open

    def _parts(self, name: str, groups: Iterable[int]) -> Iterator[Any]:
        """A column, one row group after the other. One that is damaged says nothing of the others."""
        for group in groups:
            try:
                yield self._file().read_row_group(group, columns=[name], use_threads=False).column(0)
            except (pyarrow.ArrowException, OSError):
                continue

    def _categories_of(self, name: str) -> Any | None:
        """The categories of all rows, in their order; None where not all of them can be known."""
        if not self._is_here or self._metadata.num_row_groups == 1:
            return None
        if name not in self._categories:
            # Rows of none: only the dictionaries of the parts are put together.
            parts = self._parts(name, range(self._metadata.num_row_groups))
            column = pyarrow.chunked_array([chunk[:0] for part in parts for chunk in part.chunks])
            table = pyarrow.table({name: column.unify_dictionaries()})
            self._categories[name] = table.to_pandas()[name].cat.categories
        return self._categories[name]


def _is_plain(dtype: Any, kind: Any) -> bool:
    """Whether a column of this type holds numbers or truth values that cannot be missing in it."""
    types = pyarrow.types
    of_numpy = type(dtype).__module__.split(".")[0] == "numpy"
    return of_numpy and dtype.kind in "iub" and (types.is_integer(kind) or types.is_boolean(kind))


def _is_list_of(kind: Any) -> bool:
    return bool(pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind))


def _is_list(kind: Any) -> bool:
    """Whether it holds numbers or truth values that pandas puts into arrays of their own type."""
    if not _is_list_of(kind):
        return False
    while _is_list_of(kind):
        kind = kind.value_type
    return bool(pyarrow.types.is_integer(kind) or pyarrow.types.is_boolean(kind))


def _missing_within(column: Any) -> bool:
    """Whether a value within the lists of a column is missing."""
    while _is_list_of(column.type):
        column = (
            column.flatten()
            if isinstance(column, pyarrow.Array)
            else pyarrow.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        )
    return bool(column.null_count)


def _list_with_missing(kind: Any) -> Any:
    return [_list_with_missing(kind.value_type)] if _is_list_of(kind) else None


def _leaves(schema: Any) -> Iterator[tuple[str, tuple[Any, int]]]:
    number = 0
    for field in schema:
        count = _leaf_count(field.type)
        is_simple = not pyarrow.types.is_nested(field.type) or _is_list(field.type)
        if is_simple and schema.names.count(field.name) == 1:
            yield field.name, (field.type, number)
        number += count


def _leaf_count(kind: Any) -> int:
    if not pyarrow.types.is_nested(kind):
        return 1
    return sum(_leaf_count(kind.field(at).type) for at in range(kind.num_fields))
