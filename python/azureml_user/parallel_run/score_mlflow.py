"""The entry script of a deployment of an MLflow model that has none of its own.

Each file of a mini-batch is read as its suffix and the signature of the model say, `predict` gets it, and
what that returns becomes rows. Whether the data fits the signature MLflow itself judges. A file that fails
makes the try fail, so it is tried again with the others; in the last try the rows of the good files stay, and
the bad ones are items that failed.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from azureml_user.parallel_run import errors, mlflow_rows
from azureml_user.parallel_run.errors import ScriptError
from azureml_user.parallel_run.mlflow_inputs import FileReader
from azureml_user.parallel_run.results import Scored

_MODEL_DIR = "AZUREML_MODEL_DIR"
# Of what MLflow logs while a model is loaded, what is quoted where that fails, characters.
_MOST_LOGGED = 4_000


class Scorer:
    """A loaded model, and how its files are read."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._reader = FileReader(model.metadata.get_input_schema())

    def rows(self, path: str, name: str) -> bytes:
        """The rows of the file at `path`, which is called `name` in them; raises where they are not
        complete."""
        data = self._reader.read(path)
        if len(data) == 0:
            return b""
        rows, count = mlflow_rows.written(self._model.predict(data), name)
        if count == 0:
            raise ValueError(f"predict() returned no rows for {len(data)} of the file")
        return rows


class ModelNotLoaded(Exception):
    """MLflow cannot load the model."""


_scorer: Scorer | None = None
_most_tries = 1


def configure(run_max_try: int) -> None:
    """Says how many tries a mini-batch has."""
    global _most_tries
    _most_tries = run_max_try


def init() -> None:
    """Loads the model below `AZUREML_MODEL_DIR`, where it is the only one."""
    global _scorer
    folder = os.environ[_MODEL_DIR]
    [name] = os.listdir(folder)
    # It is a link, and MLflow takes what a link leads to for an attempt to leave the folder.
    _scorer = Scorer(_load(os.path.realpath(os.path.join(folder, name))))


def run(mini_batch: list[str], context: Any) -> Scored:
    """Scores the files one after the other."""
    assert _scorer is not None
    is_last = context.retry_count + 1 >= _most_tries
    rows: list[bytes] = []
    failed: list[errors.Description] = []
    for path, name in zip(mini_batch, context.items):
        try:
            rows.append(_scorer.rows(path, name))
        except Exception as error:
            category, message, traceback, _ = errors.describe(error, "predict()")
            failed.append((category, f"{name}: {message}", traceback, None))
            if not is_last:
                break
    if not failed:
        return Scored(b"".join(rows), len(rows), None)
    described = _together(failed, len(mini_batch))
    if not is_last or not rows:
        raise ScriptError(*described[:3])
    return Scored(b"".join(rows), len(rows), described)


def _together(failed: list[errors.Description], files: int) -> errors.Description:
    """What is wrong with all of these files as one error, in the class of the first."""
    if len(failed) == 1:
        return failed[0]
    lines = [f"{len(failed)} of {files} files cannot be scored:"]
    lines += [f"{message} ({category})" for category, message, _, _ in failed]
    tracebacks = [traceback for _, _, traceback, _ in failed if traceback]
    return failed[0][0], errors.clean("\n".join(lines)), errors.clean("\n".join(tracebacks)), None


def _load(path: str) -> Any:
    try:
        import mlflow.pyfunc
    except ImportError as error:
        raise ScriptError(type(error).__name__, _not_imported(error)) from None
    logged = _Logged()
    logger = logging.getLogger("mlflow")
    logger.addHandler(logged)
    try:
        return mlflow.pyfunc.load_model(path)
    except Exception as error:
        text = errors.describe(error, "mlflow.pyfunc.load_model()")[1]
        message = f"{type(error).__name__}: {text}"
        if logged.lines:
            message += "\nMLflow logged:\n" + "\n".join(logged.lines)[:_MOST_LOGGED]
        raise ModelNotLoaded(message) from error
    finally:
        logger.removeHandler(logged)


def _not_imported(error: ImportError) -> str:
    if error.name in ("mlflow", "mlflow.pyfunc"):
        return (
            f"{sys.executable} has no mlflow, which a model without a scoring script needs: give the "
            "deployment an environment with it (environment: {conda_file: FILE}), or leave that out where "
            "the model names its packages (python_env.yaml, conda.yaml or requirements.txt beside MLmodel)"
        )
    hint = "; mlflow-skinny comes without it, mlflow brings it" if error.name in ("numpy", "pandas") else ""
    return f"{sys.executable} cannot import mlflow.pyfunc: {error}{hint}: correct the environment"


class _Logged(logging.Handler):
    """The warnings that MLflow logs: packages that are others than those of the model."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
