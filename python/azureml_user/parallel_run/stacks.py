"""The stack of a process that cannot tell it any more: one that crashes, or that the agent is about to kill.

Both are written by C code, whatever Python does at the moment, to a file that the agent reads. Nothing is
done per mini-batch.
"""

from __future__ import annotations

import faulthandler
import os
from typing import BinaryIO

from azureml_user.parallel_run import folders

# Descriptors that `faulthandler` writes to have to stay open.
_files: list[BinaryIO] = []


def set_up(path: str, signal_number: int) -> None:
    """Lets a crash, and the signal of the agent, write the stacks of all threads to the file `path`.

    With `PYTHONFAULTHANDLER` in the environment a crash is left to what that says: standard error, or, empty,
    nothing.
    """
    try:
        # Appended to, for the agent empties it before it asks; open until the process ends.
        file = open(path, "ab", buffering=0, opener=folders.appended)  # noqa: SIM115
        _files.append(file)
        faulthandler.register(signal_number, file=file, all_threads=True)
        if "PYTHONFAULTHANDLER" not in os.environ and not faulthandler.is_enabled():
            faulthandler.enable(file=file, all_threads=True)
    except (OSError, RuntimeError, ValueError):
        # A stack less is no reason to fail.
        pass
