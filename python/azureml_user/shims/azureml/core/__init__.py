"""Stands in for `azureml.core` where that is not installed: `Model` and `Run`, as scripts of Azure use them.

There is no workspace outside Azure: anything else says so.
"""

from __future__ import annotations

from typing import Any

from azureml.core.model import Model
from azureml.core.run import Run

__all__ = ["Model", "Run"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"azureml.core.{name} is not available outside Azure: read the data from the mini-batch, or from an "
        "input of the job. An environment with azureml-core has the real one: list it in the requirements, "
        "and write environment: {requirements: FILE, keep: [azureml-core]}"
    )
