"""What `run()` may return beside a list or a tuple (spec E6)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from azureml_user.parallel_run.tables import Tables

_EXPECTED = (
    "expected is a list, a tuple, a numpy array, a pandas Series or DataFrame, or an iterator, with one "
    "element for every item that succeeded"
)


class Results:
    """Sorts out results for one process."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def elements(self, result: Any) -> Iterable[Any] | None:
        """The elements of `result`, or `None` when it is a DataFrame. Refuses anything else."""
        pandas = sys.modules.get("pandas")
        if pandas is not None:
            if isinstance(result, pandas.DataFrame):
                return None
            if isinstance(result, (pandas.Series, pandas.Index)):
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
        raise TypeError(_refusal(result))


def _refusal(result: Any) -> str:
    if result is None:
        return f"run() returned None (is a return statement missing?); {_EXPECTED}"
    kind = type(result)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    if isinstance(result, (str, bytes, int, float, dict)):
        name += f" ({_shown(result)})"
    return f"run() returned {'an' if name[0] in 'aeiou' else 'a'} {name}; {_EXPECTED}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return "..."
    return text if len(text) <= 60 else f"{text[:60]}..."
