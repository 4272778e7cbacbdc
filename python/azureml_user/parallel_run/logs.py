"""Standard output and the root logger of a process (spec E13)."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from azureml_user.parallel_run import context

_FORMAT = "%(asctime)s|%(levelname)s|%(name)s|%(message)s"
_FORMAT_OF_SEVERAL = "%(asctime)s|%(levelname)s|%(name)s|%(mini_batch)s|%(message)s"


class _OutputHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to the standard output there is at the moment; a script may replace or close it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO | None:
        return getattr(sys, "stdout", None)

    def emit(self, record: logging.LogRecord) -> None:
        stream = self.stream
        if stream is not None and not getattr(stream, "closed", False):
            super().emit(record)


def set_up(level: str) -> None:
    """Sends the root logger's messages of `level` and above to standard output, and makes `print` write whole
    lines at once."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, errors="backslashreplace")
    handler = _OutputHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)


def name_mini_batches() -> None:
    """Has the root logger's lines say which of several mini-batches they are of."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _OutputHandler):
            handler.addFilter(name_mini_batch)
            handler.setFormatter(logging.Formatter(_FORMAT_OF_SEVERAL))


def name_mini_batch(record: logging.LogRecord) -> bool:
    """Notes in `record` which mini-batch it is of; `-` where it is of none."""
    about = context.current.get()
    record.mini_batch = "-" if about is None else about.mini_batch_id
    return True


def close_output() -> None:
    """Before the interpreter ends: a standard output that cannot be written must not spoil the exit code."""
    for name in ("stdout", "stderr"):
        try:
            stream = getattr(sys, name, None)
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            setattr(sys, name, None)
