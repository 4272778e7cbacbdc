"""Describes each row of a table with the types of its columns, so that both can be compared as text."""

from __future__ import annotations

from typing import Any

import pandas as pd


def shown(value: Any) -> str:
    """A value, exactly: a float by its bits, what is missing as one word, an array as its values."""
    if isinstance(value, float):
        return "missing" if value != value else value.hex()
    if value is None or value is pd.NA or value is pd.NaT:
        return "missing"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {shown(one)}' for key, one in value.items())}}}"
    if (hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0) or isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{type(value).__name__} {value!r}"


def described(name: str, frame: Any) -> list[str]:
    """A line for each row."""
    types = [f"{column}:{kind}" for column, kind in frame.dtypes.items()]
    for column, kind in frame.dtypes.items():
        if isinstance(kind, pd.CategoricalDtype):
            types.append(f"{column} of {list(kind.categories)}")
    head = f"{name} | {' '.join(types)}"
    columns = [frame.iloc[:, position] for position in range(frame.shape[1])]
    return [f"{head} | {', '.join(map(shown, row))}" for row in zip(*columns)]


def run(mini_batch: Any, context: Any) -> list[str]:
    return described(context.dataset_name, mini_batch)
