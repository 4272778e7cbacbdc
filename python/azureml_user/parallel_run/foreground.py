"""A process that has a terminal: `prs try` starts one, so that a script can be debugged, and `prs validate`
one that only imports the script.

It does what every process does. Beside that its logger writes to standard error, and a debugger may wait for
an editor to connect, or look into what the script raises, before the exception is described and gone.
"""

from __future__ import annotations

import os
import pdb
import sys
from types import FrameType, TracebackType
from typing import Any

from azureml_user.parallel_run import errors
from azureml_user.parallel_run.errors import ScriptError

_VARIABLE = "PRS_PROCESS_FOREGROUND"
_NO_DEBUGGER = "DebuggerUnavailable"
_LISTEN = "listen:"
_IMPORT = "import"
_HOST = "127.0.0.1"
# They ask for an end, not for a look.
_ENDS = (KeyboardInterrupt, SystemExit)


class Foreground:
    """What is different in the foreground. `debugger` is `none`, `pdb` or `listen:PORT`, or `import`: the
    process ends when the script is imported."""

    def __init__(self, debugger: str) -> None:
        self._debugger = debugger
        self.only_imports = debugger == _IMPORT
        self._code_dir = ""

    def begin(self, code_dir: str) -> None:
        """Before the script in `code_dir` is imported."""
        self._code_dir = os.path.realpath(code_dir)
        if self._debugger.startswith(_LISTEN):
            _wait_for_editor(int(self._debugger[len(_LISTEN) :]))

    def describe(self, error: BaseException, place: str) -> errors.Description:
        """As `errors.describe`, after the debugger has looked into it."""
        if self._debugger == "pdb" and not isinstance(error, _ENDS):
            self._look_into(error)
        return errors.describe(error, place, self._code_dir)

    def _look_into(self, error: BaseException) -> None:
        frames = error.__traceback__
        if frames is None or not any(self._is_of_script(frame) for frame in _frames_of(frames)):
            print("pdb has nothing to show: no line of the script is in the traceback", file=sys.stderr)
            return
        category, message, *_ = errors.describe(error, "the script")
        print(f"{category}: {message}", file=sys.stderr, flush=True)
        debugger = _PostMortem(self._is_of_script)
        debugger.reset()
        debugger.interaction(None, frames)

    def _is_of_script(self, frame: FrameType) -> bool:
        return os.path.realpath(frame.f_code.co_filename).startswith(self._code_dir + os.sep)


def take() -> Foreground | None:
    """The foreground of this process; `None` for a process of a job."""
    debugger = os.environ.pop(_VARIABLE, None)
    return None if debugger is None else Foreground(debugger)


class _PostMortem(pdb.Pdb):
    """Begins at the last line of the script, also where a library that it called raised."""

    def __init__(self, is_of_script: Any) -> None:
        super().__init__()
        self._is_of_script = is_of_script

    def setup(self, frame: FrameType | None, traceback: TracebackType | None) -> None:
        super().setup(frame, traceback)
        for index in range(len(self.stack) - 1, -1, -1):
            if self._is_of_script(self.stack[index][0]):
                self.curindex = index
                self.curframe = self.stack[index][0]
                if sys.version_info < (3, 14):
                    # Later ones read the locals of the frame itself.
                    self.curframe_locals = self.curframe.f_locals
                return


def _frames_of(traceback: TracebackType | None) -> list[FrameType]:
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return frames


def _wait_for_editor(port: int) -> None:
    # It warns that it cannot stop in some of the standard library, in lines that look like an error.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        import debugpy
    except ModuleNotFoundError:
        raise ScriptError(
            _NO_DEBUGGER,
            f"debugpy is not installed for {sys.executable}: install it with {sys.executable} -m pip install "
            "debugpy, or use --pdb, which needs nothing",
        ) from None
    try:
        debugpy.listen((_HOST, port))
    except (OSError, RuntimeError) as error:
        raise ScriptError(
            _NO_DEBUGGER, f"debugpy cannot listen on {_HOST}:{port}: {error}; give another port"
        ) from None
    print(f"debugpy waits for an editor at {_HOST}:{port}", file=sys.stderr, flush=True)
    debugpy.wait_for_client()
