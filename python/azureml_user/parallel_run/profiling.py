"""`--profiling_module cProfile` (spec E14): where the time of `init()` and `run()` goes."""

from __future__ import annotations

import marshal
import os
import time
from collections.abc import Sequence
from typing import Callable

from azureml_user.parallel_run import folders
from azureml_user.parallel_run.errors import ScriptError

_EVERY_SECONDS = 10.0
_OPTION = "--profiling_module"


class Profiler:
    """Gathers figures while enabled and writes them to a file now and then."""

    def __init__(self, path: str) -> None:
        import cProfile

        profile = cProfile.Profile()
        self.enable: Callable[[], None] = profile.enable
        self.disable: Callable[[], None] = profile.disable
        self._profile = profile
        self._path = path
        self._due = time.monotonic() + _EVERY_SECONDS

    def dump_if_due(self) -> None:
        """Writes the figures when the last time is long ago."""
        if time.monotonic() >= self._due:
            self.dump()

    def dump(self) -> None:
        """Writes the figures, if there are any; a reader never sees half a file."""
        self._due = time.monotonic() + _EVERY_SECONDS
        if not self._profile.getstats():
            # Nothing ran; pstats cannot read a file without figures.
            return
        folders.make(os.path.dirname(self._path))
        self._profile.create_stats()
        folders.write_whole(self._path, marshal.dumps(self._profile.stats))


def requested(arguments: Sequence[str]) -> str | None:
    """The profiling module the arguments name, if any."""
    for index, argument in enumerate(arguments):
        if argument == _OPTION:
            return arguments[index + 1] if index + 1 < len(arguments) else ""
        if argument.startswith(f"{_OPTION}="):
            return argument[len(_OPTION) + 1 :]
    return None


def make(arguments: Sequence[str], path: str) -> Profiler | None:
    """The profiler the arguments ask for, writing to `path`."""
    name = requested(arguments)
    if name is None:
        return None
    if name != "cProfile":
        raise ScriptError("ValueError", f"{_OPTION} {name!r} is not known; cProfile is")
    return Profiler(path)
