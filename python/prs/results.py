"""A result file as a DataFrame: read as the job wrote it (`output_format` of the job file)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prs.errors import ProgramMismatch, UsageError

if TYPE_CHECKING:
    import pandas

_COLUMN = "row"


def dataframe(path: Path, output_format: Any, options: Mapping[str, Any]) -> pandas.DataFrame:
    """What is in the file. `output_format` is that of the job as it is stored, `options` are for the
    reader.

    Values of JSON lines are those in the file, as `json` reads them: `pandas.read_json` rounds floats, and
    has no number beyond 64 bits. It reads them where options for it are given, and is told not to make a
    number of the text "007", or a time of what a column called `date` has."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ImportError(
            "a DataFrame needs pandas: pip install pandas; Job.result() gives the path of the file"
        ) from None
    if not path.is_file():
        raise UsageError(
            f"{path} is no result file: the job has none, and its script keeps what it makes elsewhere"
        )
    kind, details = _kind(output_format)
    if kind == "json_lines" and not options:
        with open(path, encoding="utf-8") as lines:
            return pd.DataFrame([json.loads(line) for line in lines])
    if kind == "json_lines":
        as_written: dict[str, Any] = {"lines": True, "dtype": False, "precise_float": True}
        dates = inspect.signature(pd.read_json).parameters.get("convert_dates")
        if dates is not None and dates.default is True:
            # From pandas 3.1 on `dtype` is for dates, too.
            as_written["convert_dates"] = False
        frame: pandas.DataFrame = pd.read_json(path, **{**as_written, **options})
        return frame
    if kind == "parquet":
        frame = pd.read_parquet(path, **options)
        return frame
    if kind not in (None, "csv"):
        raise ProgramMismatch(
            f"{path} is written as {kind}, which this package does not know: install the wheel prs-run anew; "
            "Job.result() gives the path of the file"
        )
    if kind is None and not options:
        rows = path.read_bytes().decode("utf-8", "replace").split("\n")
        return pd.DataFrame({_COLUMN: rows[:-1] if rows[-1] == "" else rows}, dtype=object)
    written = {"sep": details.get("delimiter", ","), "header": 0 if details.get("header", True) else None}
    try:
        frame = pd.read_csv(path, **{**(written if kind == "csv" else {}), **options})
        return frame
    except pd.errors.EmptyDataError:
        return pd.DataFrame()


def _kind(output_format: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Its name, and how it is written: the program stores a name, or the mapping of a CSV."""
    if isinstance(output_format, Mapping):
        return "csv", output_format
    return (None if output_format is None else str(output_format)), {}
