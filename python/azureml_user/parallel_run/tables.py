"""DataFrames that `run()` returned, as the text `to_csv` writes (spec E8).

The arguments of `to_csv` come from `parallel_run_step.settings.json` beside the entry script. The header line
is kept apart from the rows: it is written once into the result, not once for every mini-batch.
"""

from __future__ import annotations

import json
import os
from typing import Any, Optional, Sequence

from azureml_user.parallel_run.errors import ScriptError

_SETTINGS_FILE = "parallel_run_step.settings.json"
_HEADER_OPTION = "--append_row_dataframe_header"
_DEFAULTS: dict[str, Any] = {"sep": " ", "header": False, "index": False}
# What `to_csv` takes in any version of pandas, and what of it has no meaning for rows of a bigger file.
_KNOWN = frozenset(
    "sep na_rep float_format columns header index index_label quoting quotechar lineterminator line_terminator "
    "chunksize date_format doublequote escapechar decimal".split()
)
_MEANINGLESS = frozenset("path_or_buf mode encoding compression errors storage_options".split())


class TableText:
    """Writes DataFrames as text, always with the same arguments."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._rows = {**arguments, "header": False}
        self._header: Optional[dict[str, Any]] = None
        header = arguments["header"]
        if isinstance(header, list) or header:
            self._header = arguments

    def __call__(self, table: Any) -> tuple[str, Optional[str]]:
        """The rows of `table`, and its header line where the job asks for one."""
        header = None if self._header is None else table.iloc[:0].to_csv(**self._header)
        return table.to_csv(**self._rows), header


def make(script_path: str, arguments: Sequence[str]) -> TableText:
    """Reads the settings beside the script. Raises `ScriptError` where they cannot be followed."""
    to_csv = dict(_DEFAULTS)
    if _asks_for_header(arguments):
        to_csv["header"] = True
    path = os.path.join(os.path.dirname(os.path.abspath(script_path)), _SETTINGS_FILE)
    to_csv.update(_settings(path))
    return TableText(to_csv)


def _asks_for_header(arguments: Sequence[str]) -> bool:
    asks = False
    for index, argument in enumerate(arguments):
        name, has_value, value = argument.partition("=")
        if name != _HEADER_OPTION:
            continue
        if not has_value:
            value = arguments[index + 1] if index + 1 < len(arguments) else ""
        if value.lower() not in ("true", "false"):
            raise ScriptError("ValueError", f"{_HEADER_OPTION} {value!r}: True or False is expected")
        asks = value.lower() == "true"
    return asks


def _settings(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            settings = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ScriptError("ValueError", f"{path} cannot be read as JSON: {error}") from None
    for section in ("append_row", "pandas.DataFrame.to_csv"):
        if not isinstance(settings, dict):
            raise ScriptError("ValueError", f"{path}: an object is expected where {settings!r} stands")
        unknown = sorted(set(settings) - {section})
        if unknown:
            raise ScriptError("ValueError", f"{path}: {unknown[0]!r} is not known here; {section!r} is")
        settings = settings.get(section, {})
    if not isinstance(settings, dict):
        raise ScriptError("ValueError", f"{path}: an object is expected where {settings!r} stands")
    for name in settings:
        if name in _MEANINGLESS:
            raise ScriptError(
                "ValueError", f"{path}: {name!r} cannot be set, the rows go to the job's result"
            )
        if name not in _KNOWN:
            raise ScriptError("ValueError", f"{path}: to_csv has no argument {name!r}")
    return settings
