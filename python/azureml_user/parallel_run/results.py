"""What `run()` may return beside a list or a tuple (spec E6)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from azureml_user.parallel_run import json_lines
from azureml_user.parallel_run.errors import Description
from azureml_user.parallel_run.parquet_output import ParquetOutput
from azureml_user.parallel_run.tables import Tables

_TABLE_EXPECTED = (
    "the job file has output_format, so expected is a pandas DataFrame, with one row for every item that "
    "succeeded"
)
_EXPECTED = (
    "expected is a list, a tuple, a numpy array, a pandas Series or DataFrame, or an iterator, with one "
    "element for every item that succeeded"
)


class Scored(NamedTuple):
    """What `run()` of prs's own scorer returns: rows as they go into the result, how many items they are of,
    and what is wrong with the others."""

    rows: bytes
    items: int
    failed: Description | None


class Results:
    """Sorts out results for one process.

    With `only_tables`, a DataFrame is all that `run()` may return; with `is_json`, `json_lines` writes them,
    with `parquet` that does. Where the script `is_scored`, it returns `Scored` and nothing else.
    """

    def __init__(
        self,
        tables: Tables,
        only_tables: bool = False,
        is_json: bool = False,
        parquet: ParquetOutput | None = None,
        is_scored: bool = False,
    ) -> None:
        self.tables = tables
        self.is_scored = is_scored
        self.only_tables = only_tables
        self.is_json = is_json
        self.parquet = parquet

    def json_lines(self, result: Any) -> tuple[bytes, int]:
        """`result` as JSON lines, and how many there are."""
        elements = self.elements(result)
        return json_lines.of_table(result) if elements is None else json_lines.of_elements(elements)

    def elements(self, result: Any) -> Iterable[Any] | None:
        """The elements of `result`, or `None` when it is a DataFrame. Refuses anything else."""
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(result, pandas.DataFrame):
            return None
        if self.only_tables:
            raise TypeError(_refusal(result, _TABLE_EXPECTED))
        if pandas is not None and isinstance(result, (pandas.Series, pandas.Index)):
            return result
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(result, numpy.ndarray):
            if result.ndim == 0:
                raise TypeError(
                    f"run() returned a numpy array without dimensions, {result!r:.100}; {_EXPECTED}"
                )
            return result
        is_text = isinstance(result, (str, bytes, bytearray, memoryview))
        if isinstance(result, (Iterator, Sequence)) and not is_text:
            return result
        raise TypeError(_refusal(result, _EXPECTED))


def _refusal(result: Any, expected: str) -> str:
    if result is None:
        return f"run() returned None (is a return statement missing?); {expected}"
    kind = type(result)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    if isinstance(result, (str, bytes, int, float, dict)):
        name += f" ({_shown(result)})"
    return f"run() returned {'an' if name[0] in 'aeiou' else 'a'} {name}; {expected}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return "..."
    return text if len(text) <= 60 else f"{text[:60]}..."
