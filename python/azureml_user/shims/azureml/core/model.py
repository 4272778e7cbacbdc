"""Stands in for `azureml.core.model`: where the models of the job lie."""

from __future__ import annotations

import json
import os
from typing import Any

# The file with the paths of the job's model and side inputs by their names, as JSON.
_MODELS = "PRS_MODELS"


class Model:
    """A model that was registered; here only the way to its path."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError("azureml.core.Model is not available outside Azure: use get_model_path()")

    @staticmethod
    def get_model_path(model_name: str, version: Any = None, _workspace: Any = None) -> str:
        """The path of the job's model or side input of this name. The version does not count: a job has
        one of each."""
        models: dict[str, str] = {}
        if file := os.environ.get(_MODELS):
            with open(file, encoding="utf-8") as text:
                models = json.load(text)
        path = models.get(model_name)
        if path is not None:
            return path
        there = ", ".join(sorted(models)) or "none"
        raise FileNotFoundError(
            f"the job has no model {model_name!r}; there are: {there}. "
            "The key model of the job file brings one, under the name of its file or folder, and side_inputs "
            "bring others"
        )
