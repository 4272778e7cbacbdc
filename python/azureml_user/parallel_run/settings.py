"""How DataFrames are written (spec E8).

`output_format` of the job says it, or an argument of the job as with ParallelRunStep; in both cases a file
`parallel_run_step.settings.json` beside the script may say more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from azureml_user.parallel_run.errors import ScriptError

_FILE = "parallel_run_step.settings.json"
_HEADER_OPTION = "--append_row_dataframe_header"
_STREAMING_OPTION = "--amlbi_async_mode"
_DEFAULTS: dict[str, Any] = {"sep": " ", "header": False, "index": False}
# What `to_csv` takes in any version of pandas, and what of it has no meaning for rows of a bigger file.
_KNOWN = frozenset(
    [
        "sep",
        "na_rep",
        "float_format",
        "columns",
        "header",
        "index",
        "index_label",
        "quoting",
        "quotechar",
        "lineterminator",
        "line_terminator",
        "chunksize",
        "date_format",
        "doublequote",
        "escapechar",
        "decimal",
    ]
)
# What would make something else of the rows than `output_format` says.
_OF_THE_JOB = frozenset(["sep", "header", "index", "index_label", "lineterminator", "line_terminator"])
_MEANINGLESS = frozenset(["path_or_buf", "mode", "encoding", "compression", "errors", "storage_options"])


def to_csv_arguments(
    script_path: str, arguments: Sequence[str], output_format: Any | None = None
) -> dict[str, Any]:
    """The arguments of `to_csv`; `output_format` is a name, or has a `delimiter` and a `header`.

    Raises `ScriptError` where the settings cannot be followed.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(script_path)), _FILE)
    of_script = _read(path)
    to_csv = dict(_DEFAULTS)
    if isinstance(output_format, str):
        for name in sorted(of_script):
            raise ScriptError(
                "ValueError",
                f"{path}: {name!r} is for CSV, and output_format is {output_format}: remove it here",
            )
    elif output_format is not None:
        to_csv["sep"], to_csv["header"] = output_format.delimiter, output_format.header
        for name in sorted(_OF_THE_JOB & set(of_script)):
            raise ScriptError(
                "ValueError", f"{path}: {name!r} is what output_format of the job file says: remove it here"
            )
    elif _asks_for_header(arguments):
        to_csv["header"] = True
    to_csv.update(of_script)
    return to_csv


def streams(arguments: Sequence[str]) -> bool:
    """Whether the script says that it is one that streams (spec E17)."""
    values = [value.lower() for value in _values(arguments, _STREAMING_OPTION)]
    return bool(values) and values[-1] in ("true", "1")


def _asks_for_header(arguments: Sequence[str]) -> bool:
    asks = False
    for value in _values(arguments, _HEADER_OPTION):
        if value.lower() not in ("true", "false"):
            raise ScriptError("ValueError", f"{_HEADER_OPTION} {value!r}: True or False is expected")
        asks = value.lower() == "true"
    return asks


def _values(arguments: Sequence[str], option: str) -> Iterator[str]:
    """The values of `option`, as `--option VALUE` and `--option=VALUE`."""
    for index, argument in enumerate(arguments):
        name, has_value, value = argument.partition("=")
        if name == option:
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            yield value if has_value else following


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            settings = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ScriptError("ValueError", f"{path} cannot be read as JSON: {error}") from None
    for section in ("append_row", "pandas.DataFrame.to_csv"):
        unknown = sorted(set(_object(path, settings)) - {section})
        if unknown:
            raise ScriptError("ValueError", f"{path}: {unknown[0]!r} is not known here; {section!r} is")
        settings = settings.get(section, {})
    for name in _object(path, settings):
        if name in _MEANINGLESS:
            raise ScriptError(
                "ValueError", f"{path}: {name!r} cannot be set, the rows go to the job's result"
            )
        if name not in _KNOWN:
            raise ScriptError("ValueError", f"{path}: to_csv has no argument {name!r}")
    return dict(settings)


def _object(path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScriptError("ValueError", f"{path}: an object is expected where {value!r} stands")
    return value
