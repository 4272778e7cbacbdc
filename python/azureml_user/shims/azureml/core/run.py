"""Stands in for `azureml.core.run`: the id of the job, and values that go to the log."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

_ELSEWHERE = "not available outside Azure"


class Run:
    """The run that the script is a part of."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"azureml.core.Run() is {_ELSEWHERE}: use Run.get_context()")

    @classmethod
    def get_context(cls, allow_offline: bool = True, **_: Any) -> Run:
        """The run of the job."""
        run = object.__new__(cls)
        job = os.environ.get("AZUREML_RUN_ID", "")
        run.__dict__.update(
            id=job,
            parent=SimpleNamespace(id=job),
            experiment=SimpleNamespace(name=os.environ.get("MLFLOW_EXPERIMENT_NAME", "")),
        )
        return run

    def log(self, name: str, value: Any, description: str = "", step: int | None = None) -> None:
        """Writes the value to the log of the script."""
        from azureml_user.parallel_run import EntryScript

        at = "" if step is None else f" (step {step})"
        EntryScript().logger.info("%s: %s%s", name, value, at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"azureml.core.Run.{name} is {_ELSEWHERE}")
