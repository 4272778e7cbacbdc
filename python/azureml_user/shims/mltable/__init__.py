"""Stands in for `mltable` where that is not installed: reads the table of a folder with a file `MLTable`.

Its data has to lie on this host. It needs PyYAML and pandas. What it does not know is refused by its name.
"""

from __future__ import annotations

import glob
import json
import os
from typing import Any, Callable

_FILE = "MLTable"
_READERS = ("read_delimited", "read_parquet", "read_json_lines")
# The words of `encoding`, and what Python calls them; a byte order mark is no data.
_ENCODINGS = {
    "utf8": "utf-8-sig",
    "utf8bom": "utf-8-sig",
    "iso88591": "latin-1",
    "latin1": "latin-1",
    "ascii": "ascii",
    "utf16": "utf-16",
    "utf32": "utf-32",
    "windows1252": "cp1252",
}
# The words of `header`, and which files have one.
_HEADERS = {
    "no_header": "none",
    "no_headers": "none",
    "false": "none",
    "from_first_file": "first",
    "only_first_file_has_headers": "first",
    "all_files_same_headers": "all",
    "all_files_have_same_headers": "all",
    "true": "all",
}
# Types that columns are converted to, with what the conversions call them.
_TYPES = {
    "int": "int",
    "float": "float",
    "string": "string",
    "boolean": {"boolean": {}},
    "datetime": {"datetime": {"formats": [], "date_constant": None}},
}


def load(uri: str, *_: Any, **__: Any) -> MLTable:
    """The table in the folder `uri`."""
    folder = os.fspath(uri)
    if "://" in folder and not folder.startswith("file://"):
        raise _unknown(f"load({folder!r}): a table that is not on this host")
    folder = folder[len("file://") :] if folder.startswith("file://") else folder
    folder = os.path.dirname(folder) or "." if os.path.isfile(folder) else folder
    try:
        import yaml
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "mltable: reading a file MLTable takes PyYAML: install it, or the package mltable",
            name="yaml",
        ) from None
    with open(os.path.join(folder, _FILE), encoding="utf-8") as file:
        return MLTable(folder, yaml.safe_load(file) or {})


class MLTable:
    """The table that a file `MLTable` describes."""

    def __init__(self, folder: str, document: dict[str, Any]) -> None:
        self._folder = folder
        self._document = document

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(f"MLTable.{name}")

    @property
    def paths(self) -> list[dict[str, str] | str]:
        """The paths as the file has them."""
        return list(self._document.get("paths") or [])

    def to_pandas_dataframe(self) -> Any:
        """All rows, as a `pandas.DataFrame`."""
        steps = [_step(one) for one in self._document.get("transformations") or []]
        if any(name == "read_delta_lake" for name, _ in steps):
            raise _not_here("read_delta_lake")
        reading = [(name, options) for name, options in steps if name in _READERS]
        if len(reading) != 1 or steps[0][0] not in _READERS:
            raise ValueError(f"{_FILE}: transformations is to begin with one of {', '.join(_READERS)}")
        name, options = reading[0]
        table = _read_all(self._files(), name, options if isinstance(options, dict) else {})
        for name, options in steps[1:]:
            table = _transform(table, name, options)
        return table

    def _files(self) -> list[str]:
        found: list[str] = []
        for entry in self.paths:
            # A path alone is a file.
            for kind, path in entry.items() if isinstance(entry, dict) else [("file", entry)]:
                if "://" in path and not path.startswith("file://"):
                    raise _unknown(f"paths: {path}: data that is not on this host")
                path = path[len("file://") :] if path.startswith("file://") else path
                path = os.path.join(self._folder, path)
                if kind == "folder" or os.path.isdir(path):
                    below = (os.path.join(at, name) for at, _, names in os.walk(path) for name in names)
                    found += sorted(one for one in below if os.path.basename(one) != _FILE)
                elif kind == "pattern":
                    found += sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
                else:
                    found.append(path)
        return found


def _unknown(what: str) -> NotImplementedError:
    return NotImplementedError(f"mltable: {what} is not known to prs: install the package mltable")


def _not_here(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"mltable.load() does not do {what} here; give the table as the job's input (type: mltable)"
    )


def _step(step: Any) -> tuple[str, Any]:
    if isinstance(step, str):
        return step, None
    ((name, options),) = step.items()
    return name, options


def _read_all(files: list[str], name: str, options: dict[str, Any]) -> Any:
    """The rows of all files, one below the other."""
    import pandas

    options = dict(options)
    if not options.pop("include_path_column", False):
        path_column = None
        options.pop("path_column", None)
    else:
        path_column = options.pop("path_column", None) or "Path"
    header, read = _reader(name, options)
    parts: list[Any] = []
    for path in files:
        is_named = header == "all" or (header == "first" and not parts)
        part = read(path, is_named)
        if header == "none":
            part.columns = [f"Column{number + 1}" for number in range(len(part.columns))]
        elif header is not None and parts:
            expected = parts[0].columns if path_column is None else parts[0].columns[1:]
            if len(part.columns) != len(expected):
                raise ValueError(
                    f"{path}: it has {len(part.columns)} columns, and {files[0]} has {len(expected)}: "
                    "give all files the same columns"
                )
            part.columns = expected
        if path_column is not None:
            if path_column in part.columns:
                raise ValueError(f"the data have a column {path_column!r} already: give another path_column")
            part.insert(0, path_column, os.path.abspath(path))
        parts.append(part)
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()


def _reader(name: str, options: dict[str, Any]) -> tuple[str | None, Callable[[str, bool], Any]]:
    """Which files have a header, where that is said, and what reads one that has or has not."""
    import pandas

    if name == "read_parquet":
        _refuse_rest(name, options)
        return None, lambda path, _: pandas.read_parquet(path)
    given = str(options.pop("encoding", None) or "utf8")
    encoding = _ENCODINGS.get(given.lower())
    if encoding is None:
        raise ValueError(f"encoding: {given} is not one of {', '.join(_ENCODINGS)}")
    if name == "read_json_lines":
        if options.pop("invalid_lines", "error") != "error":
            raise _not_here("invalid_lines: drop")
        _refuse_rest(name, options)
        return None, lambda path, _: _read_json_lines(path, encoding)
    given = str(options.pop("header", "all_files_same_headers")).lower()
    if given not in _HEADERS:
        raise _not_here(f"header: {given}")
    delimiter = options.pop("delimiter", None) or ","
    # pandas always reads quoted line ends as a part of the field, and needs no word on how files are cut.
    options.pop("support_multi_line", None)
    options.pop("partition_size", None)
    if options.pop("empty_as_string", False):
        raise _not_here("empty_as_string: true")
    infer = options.pop("infer_column_types", True)
    if not isinstance(infer, bool):
        raise _not_here("infer_column_types with overrides")
    _refuse_rest(name, options)
    dtype = None if infer else str

    def read(path: str, is_named: bool) -> Any:
        header = 0 if is_named else None
        return pandas.read_csv(path, sep=delimiter, header=header, encoding=encoding, dtype=dtype)

    return _HEADERS[given], read


def _read_json_lines(path: str, encoding: str) -> Any:
    """The objects of a file, one a line; `pandas.read_json` would make numbers of texts, and round floats."""
    import pandas

    rows = []
    with open(path, encoding=encoding) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    rows.append(json.loads(line))
                except ValueError as error:
                    raise ValueError(f"{path}: line {number} is no JSON: {error}") from None
    return pandas.DataFrame(rows)


def _refuse_rest(name: str, options: dict[str, Any]) -> None:
    if options:
        raise _unknown(f"{name}: {', '.join(options)}")


def _transform(table: Any, name: str, options: Any) -> Any:
    if name in ("keep_columns", "drop_columns"):
        columns = [options] if isinstance(options, str) else list(options or [])
        absent = [column for column in columns if column not in table.columns]
        if absent:
            there = ", ".join(map(repr, table.columns))
            raise ValueError(f"{name} names {', '.join(map(repr, absent))}; the columns are {there}")
        if name == "drop_columns":
            return table.drop(columns=columns)
        # In the order of the data; an empty list keeps all.
        return table[[column for column in table.columns if column in columns]] if columns else table
    if name == "take":
        return table.head(int(options))
    if name == "skip":
        return table.iloc[int(options) :].reset_index(drop=True)
    if name == "convert_column_types":
        for conversion in [options] if isinstance(options, dict) else options or []:
            table = _convert(table, conversion["columns"], conversion["column_type"])
        return table
    if name == "filter" or name.startswith("extract_columns"):
        raise _not_here(f"the transformation {name}")
    raise _unknown(f"the transformation {name}")


def _convert(table: Any, columns: str | list[str], to: Any) -> Any:
    """`table` with columns of another type; a value that does not convert is missing then, as in an input."""
    import pandas
    from azureml_user.parallel_run.conversions import convert

    if isinstance(to, dict) and not any(to.values()):
        (to,) = to
    if str(to).lower() not in _TYPES:
        raise _not_here(f"convert_column_types to {to}")
    table = table.copy()
    for column in [columns] if isinstance(columns, str) else columns:
        if column not in table.columns:
            there = ", ".join(map(repr, table.columns))
            raise ValueError(f"convert_column_types names {column!r}; the columns are {there}")
        values = convert(table[column], _TYPES[str(to).lower()], lambda texts: texts).values
        table[column] = pandas.Series(values).set_axis(table.index)
    return table
