"""The types of columns whose rows are put together from several files (spec D3).

Every group has the columns that `pandas.concat` gives for the whole files, with their types, whichever files
it has rows of. pandas says which types these are: it puts a row of each file's types together.
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable
from typing import Any

# Note for a file that has no such column.
_ABSENT = ""
# Bytes of JSON for the categories of a frame: each mini-batch brings them. Others are noted by a checksum.
_MOST_OF_CATEGORIES = 8 << 10
_CATEGORY = "category"


def noted(frame: Any) -> list[list[str]]:
    """Names and types of the columns of a frame, as `Types` takes them."""
    columns = []
    left = _MOST_OF_CATEGORIES
    for name, dtype in zip(frame.columns, frame.dtypes):
        text = _noted(dtype, left)
        if text.startswith("{"):
            left -= len(text)
        columns.append([str(name), text])
    return columns


def _noted(dtype: Any, most: int) -> str:
    categories = getattr(dtype, "categories", None)
    if categories is None:
        return str(dtype)
    described = {"of": str(categories.dtype), "categories": categories.tolist(), "ordered": dtype.ordered}
    try:
        text = json.dumps(described, separators=(",", ":"))
    except (TypeError, ValueError):
        text = repr(described)
    else:
        if len(text) <= most:
            return text
    return f"{_CATEGORY}:{zlib.crc32(text.encode(errors='surrogatepass'))}:{described['of']}"


class Types:
    """What the columns of all files are together."""

    def __init__(self, columns: list[tuple[str, list[str]]], dtype_of: Callable[[str], Any]) -> None:
        """`columns` has each name with its types in the files, as they are noted; `dtype_of` knows the
        dtype of one that is no category."""
        self._dtype_of = dtype_of
        # By name, an example of the column with its type; None where each mini-batch has its own.
        self._examples = self._together(columns)

    def given_to(self, frame: Any) -> Any:
        """The frame of rows of one file, with the columns of all, in their order, and their types."""
        import pandas

        own = {str(name): at for at, name in enumerate(frame.columns)}
        if len(own) < frame.shape[1] or self._fits(frame, own):
            return frame
        are_numbered = all(isinstance(name, int) for name in frame.columns)
        names: list[Any] = []
        columns = []
        for name, example in self._examples.items():
            at = own.pop(name, None)
            if at is not None:
                names.append(frame.columns[at])
                columns.append(_converted(frame.iloc[:, at], example))
            elif example is not None:
                names.append(int(name) if are_numbered and name.isdecimal() else name)
                columns.append(pandas.Series(index=frame.index, dtype=example.dtype))
        for at in own.values():
            names.append(frame.columns[at])
            columns.append(frame.iloc[:, at])
        typed = pandas.DataFrame(dict(enumerate(columns)), index=frame.index)
        typed.columns = pandas.Index(names, name=frame.columns.name)
        return typed

    def _fits(self, frame: Any, own: dict[str, int]) -> bool:
        return list(own) == list(self._examples) and all(
            example is None or dtype == example.dtype
            for dtype, example in zip(frame.dtypes, self._examples.values())
        )

    def _together(self, columns: list[tuple[str, list[str]]]) -> dict[str, Any | None]:
        import pandas

        count = max((len(types) for _, types in columns), default=1)
        files: list[dict[str, Any]] = [{} for _ in range(count)]
        for name, types in columns:
            for at, file in enumerate(files):
                of_file = types[min(at, len(types) - 1)]
                if of_file != _ABSENT:
                    file[name] = _example(self._dtype(of_file))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frames = [pandas.DataFrame(file, index=[0]) for file in files]
            whole = pandas.concat(frames, ignore_index=True)
        # Large categories that are those of all files.
        own = {name for name, types in columns if len(types) == 1 and types[0].startswith(_CATEGORY)}
        return {name: None if name in own else whole[name] for name, _ in columns}

    def _dtype(self, of_file: str) -> Any:
        import pandas

        if of_file.startswith(_CATEGORY):
            _, checksum, of_file = of_file.split(":", 2)
            # Others than those of another checksum.
            numbers = pandas.Series([int(checksum) % 101])
            return pandas.CategoricalDtype(numbers.astype(self._dtype(of_file)))
        if of_file.startswith("{"):
            described = json.loads(of_file)
            categories = pandas.Index(described["categories"], dtype=self._dtype(described["of"]))
            return pandas.CategoricalDtype(categories, described["ordered"])
        try:
            return self._dtype_of(of_file)
        except TypeError:
            return object


def _example(dtype: Any) -> Any:
    """A column of one value, which is not missing: pandas may leave out what is."""
    import pandas

    categories = getattr(dtype, "categories", None)
    values = [0, "0"] if categories is None else list(categories[:1])
    for value in values:
        try:
            return pandas.Series([value]).astype(dtype)
        except (TypeError, ValueError, NotImplementedError):
            continue
    return pandas.Series([None], dtype=dtype)


def _converted(column: Any, example: Any | None) -> Any:
    """A column of a file as a part of that of all files."""
    import pandas

    if example is None or column.dtype == example.dtype:
        return column
    categories = getattr(example.dtype, "categories", None)
    if categories is not None and getattr(column.dtype, "categories", None) is not None:
        # Rows that are on their way to a group bring their own categories alone.
        return column.cat.set_categories(categories, ordered=example.dtype.ordered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Of frames: pandas gives other types to columns that are alone.
        parts = [part.to_frame("") for part in (example, column)]
        together = pandas.concat(parts, ignore_index=True).iloc[len(example) :, 0]
    together.index = column.index
    return together
