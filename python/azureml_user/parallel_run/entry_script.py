"""`EntryScript`: what a script may know of the process it runs in (spec E12).

Without a fleet it stands for a process of its own in the current folder. Nothing is created before it is
asked for, so importing has no effect on the disk.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from io import TextIOWrapper
from typing import Any

from azureml_user.parallel_run import context, folders, logs

_LOGGER_NAME = "azureml_user.entry_script"
_FORMAT = "%(asctime)s|%(levelname)s|%(processName)s|%(process)d|%(message)s"
_FORMAT_OF_SEVERAL = "%(asctime)s|%(levelname)s|%(processName)s|%(process)d|%(mini_batch)s|%(message)s"


class EntryScript:
    """The one object of its class in a process: `EntryScript()` and unpickling always give the same.

    Its pickle carries the folders along, so that a child process started by the script sees the same ones.
    """

    _instance: EntryScript | None = None
    _lock = threading.RLock()

    _state: dict[str, Any]
    _logger: logging.Logger | None

    def __new__(cls) -> EntryScript:
        with cls._lock:
            if cls._instance is None:
                instance = super().__new__(cls)
                instance._state = {}
                instance._logger = None
                cls._instance = instance
            return cls._instance

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._state,)

    def __copy__(self) -> EntryScript:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> EntryScript:
        return self

    def __repr__(self) -> str:
        return f"<EntryScript of {self.agent_name} on node {self.node_id}>"

    def _configure(self, **state: Any) -> None:
        """Takes the values of a process of a job."""
        self._state = state
        self._logger = None

    def _has_lanes(self) -> None:
        """The process has several mini-batches under way: lines of its log say whose they are."""
        self._state["has_lanes"] = True
        self._logger = None

    def _folder(self, name: str, default: str) -> str:
        path = self._state.get(name) or os.path.abspath(default)
        folders.make(path)
        return path

    @property
    def agent_name(self) -> str:
        """`processNNN`."""
        return self._state.get("agent_name", "process000")

    @property
    def node_id(self) -> int:
        """Position of the node in the job, from 0."""
        return self._state.get("node_id", 0)

    @property
    def logging_level(self) -> str:
        """`WARNING`, `INFO` or `DEBUG`."""
        return self._state.get("logging_level", "INFO")

    @property
    def log_dir(self) -> str:
        """Folder of the script's own logs; it exists."""
        return self._folder("log_dir", "logs")

    @property
    def working_dir(self) -> str:
        """Folder for anything temporary, of this process alone; it exists."""
        return self._folder("working_dir", ".")

    @property
    def output_dir(self) -> str:
        """Files written below it belong to the output of the job, once their mini-batch is finished.

        Where a process has several mini-batches under way, it is another folder for each of them.
        """
        about = context.current.get()
        if about is not None:
            return about.output_dir
        return self._folder("output_dir", os.environ.get("AZUREML_BI_OUTPUT_PATH") or "outputs")

    @property
    def logger(self) -> logging.Logger:
        """Logs into `<log_dir>/<agent_name>.log.txt`; to standard error without a fleet and in `try`."""
        with self._lock:
            if self._logger is None:
                self._logger = self._make_logger()
            return self._logger

    def _make_logger(self) -> logging.Logger:
        logger = logging.getLogger(_LOGGER_NAME)
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()
        handler: logging.Handler
        if self._state and not self._state.get("has_terminal"):
            path = os.path.join(self.log_dir, f"{self.agent_name}.log.txt")
            handler = _LogHandler(path, encoding="utf-8", errors="backslashreplace")
        else:
            handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(
            logging.Formatter(_FORMAT_OF_SEVERAL if self._state.get("has_lanes") else _FORMAT)
        )
        handler.addFilter(logs.name_mini_batch)
        logger.addHandler(handler)
        logger.setLevel(self.logging_level)
        logger.propagate = False
        return logger


class _LogHandler(logging.FileHandler):
    """Appends to a file, and follows no link to it."""

    def _open(self) -> TextIOWrapper:
        return open(
            self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=folders.appended
        )


def _restore(state: dict[str, Any]) -> EntryScript:
    """Unpickles: the one object, which takes the values along when it has none of its own."""
    script = EntryScript()
    if state and not script._state:
        script._configure(**state)
    return script
