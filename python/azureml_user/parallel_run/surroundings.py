"""What scripts import or call on Azure and may find missing here: packages of Azure, a place for MLflow.

Each counts only where the real one is missing: the stand-ins are looked for last, and what the job sets
stays.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from azureml_user.parallel_run import folders

_TRACKING_URI = "MLFLOW_TRACKING_URI"
# The agent has chosen it, not the job.
_CHOSEN = "PRS_MLFLOW_FOLDER"


def set_up() -> None:
    """Puts the stand-ins behind everything else on `sys.path`, and sees to a place for MLflow."""
    shims = str(Path(__file__).resolve().parent.parent / "shims")
    if shims not in sys.path:
        sys.path.append(shims)
    folder = os.environ.pop(_CHOSEN, None)
    if folder is not None and _TRACKING_URI not in os.environ:
        os.environ[_TRACKING_URI] = _tracking_uri(folder, _mlflow())


def _mlflow() -> Path | None:
    """The folder of the package, which is not imported."""
    try:
        spec = importlib.util.find_spec("mlflow")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _tracking_uri(folder: str, mlflow: Path | None) -> str:
    """Files, as far as this MLflow has a store of files; a database in its later versions."""
    if mlflow is None or (mlflow / "store" / "tracking" / "file_store.py").is_file():
        return Path(folder).as_uri()
    folders.make(folder)
    return f"sqlite:///{folder}/mlflow.db"
