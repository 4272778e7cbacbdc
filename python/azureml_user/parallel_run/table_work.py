"""What an MLTable has done with each slice of its rows, in the order written (dialects B.2).

The frame that comes is the process's own, so it may be changed.
"""

from __future__ import annotations

import json
from typing import Any, Callable

import numpy
import pandas

from azureml_user.parallel_run.conversions import convert, without_empty
from azureml_user.parallel_run.filters import Unfit, columns_there, mask


class TableWork:
    """Does the steps of one input."""

    def __init__(self, described: str, text: Callable[[list[str | None]], Any]) -> None:
        """`described` is what the agent sends; `text` makes a column of text."""
        work = json.loads(described)
        self._path_column: str | None = work.get("path_column")
        self._empty_is_missing: bool = work.get("empty_is_missing", False)
        self._steps: list[Any] = work["steps"]
        self._text = text
        # Whether what is left of each slice is how many rows there are.
        self.counts = any("count" in step for step in self._steps)
        self._sample: str | None = next(
            (json.dumps(one["sample"]) for one in self._steps if "sample" in one), None
        )
        # Columns and types that a person was told about.
        self._told: set[tuple[str, str]] = set()

    def do(
        self,
        frame: Any,
        origin: str,
        first_record: int = 0,
        taken: tuple[int, int] | None = None,
        checksum: int = 0,
    ) -> tuple[Any, list[str]] | str:
        """The frame of a slice of the file `origin`, whose first row has this number in the file, and what a
        person should read once; or what is wrong.

        Where rows are counted behind a filter, `taken` are the first of those that the table has of the
        slice and the one behind the last; all without. `checksum` is that of the slice."""
        notices: list[str] = []
        drawn = self._drawn(len(frame), origin, first_record)
        try:
            if self._path_column is not None:
                self._add_path(frame, origin)
            late = self._take_late_columns(frame)
            for step in self._steps:
                if len(frame) == 0:
                    break
                [(name, argument)] = step.items()
                if name == "count":
                    continue
                if name == "extract_columns":
                    _append(frame, late)
                    continue
                if name == "sample":
                    # There is one sample, so nothing asks for it again.
                    frame, drawn = _rows(frame, drawn), None
                elif name in ("filter", "window"):
                    is_filter = name == "filter"
                    wanted = mask(argument["expression"], frame) if is_filter else _between(frame, taken)
                    drawn = None if drawn is None else drawn[wanted]
                    frame = _rows(frame, wanted)
                else:
                    frame = getattr(self, f"_{name}")(frame, argument, notices)
        except Unfit as error:
            return str(error)
        if self.counts:
            frame = pandas.DataFrame({"rows": [len(frame)], "checksum": [checksum]})
        return frame, [f"{origin}: {notice}" for notice in notices]

    def _add_path(self, frame: Any, origin: str) -> None:
        if self._path_column in frame.columns:
            raise Unfit(f"the data have a column {self._path_column!r} already: give another path_column")
        frame.insert(0, self._path_column, self._text([origin] * len(frame)))

    def _take_late_columns(self, frame: Any) -> dict[str, Any]:
        """Takes columns of the path out of `frame` that come to it later; gives their values, one of each."""
        names = [name for step in self._steps for name in step.get("extract_columns", [])]
        return {name: frame.pop(name).iloc[:1] for name in names if name in frame.columns}

    def _keep_columns(self, frame: Any, names: list[str], notices: list[str]) -> Any:
        _demand(frame, names, "keep_columns")
        return frame.drop(columns=[name for name in frame.columns if name not in names])

    def _drop_columns(self, frame: Any, names: list[str], notices: list[str]) -> Any:
        _demand(frame, names, "drop_columns")
        return frame.drop(columns=names)

    def _convert_column_types(self, frame: Any, conversions: list[Any], notices: list[str]) -> Any:
        for conversion in conversions:
            _demand(frame, conversion["columns"], "convert_column_types")
            for name in conversion["columns"]:
                self._convert(frame, name, conversion["to"], notices)
        return frame

    def _convert(self, frame: Any, name: str, to: Any, notices: list[str]) -> None:
        try:
            series = without_empty(frame[name], to) if self._empty_is_missing else frame[name]
            converted = convert(series, to, self._text)
        except Unfit as error:
            raise Unfit(f"column {name!r}: {error}") from error
        frame[name] = pandas.Series(converted.values).set_axis(frame.index)
        kind = to if isinstance(to, str) else next(iter(to))
        if converted.misfits and (name, kind) not in self._told:
            self._told.add((name, kind))
            values = "a value that does" if converted.misfits == 1 else f"{converted.misfits} values that do"
            notices.append(
                f"WARNING: column {name!r} has {values} not convert to {kind} and is missing now, the first "
                f"is {converted.first!r}; more of this column are not told"
            )

    def _drawn(self, rows: int, origin: str, first_record: int) -> Any | None:
        """For each row whether the sample has it; nothing where none is taken."""
        if self._sample is None:
            return None
        from prs_process import sample_mask

        return numpy.frombuffer(sample_mask(self._sample, origin, first_record, rows), dtype=bool)


def _rows(frame: Any, wanted: Any) -> Any:
    """The wanted rows, an array of truth values says which. Rows that are only counted are counted anew."""
    if wanted.all():
        return frame
    has_numbers = isinstance(frame.index, pandas.RangeIndex)
    frame = frame[wanted]
    return frame.reset_index(drop=True) if has_numbers else frame.copy()


def _between(frame: Any, taken: tuple[int, int] | None) -> Any:
    """For each row of `frame` whether it is one of those that are `taken`."""
    first, end = (0, len(frame)) if taken is None else taken
    rows = numpy.arange(len(frame))
    return (first <= rows) & (rows < end)


def _append(frame: Any, columns: dict[str, Any]) -> None:
    """Gives `frame` last columns of one value each."""
    for name, one in columns.items():
        frame[name] = one.repeat(len(frame)).set_axis(frame.index)


def _demand(frame: Any, names: list[str], step: str) -> None:
    """Refuses names of columns that are not there."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise Unfit(f"{step} names {', '.join(map(repr, absent))}; the columns are {columns_there(frame)}")
