"""A run of `prs submit` or `prs resume` beside this Python: its id as soon as there is one, its record at the
end.

The program never outlives this process unseen. An embedded run is its job: where this process ends, also
by kill -9, the system sends the program SIGTERM, which cancels the job; what is done is kept. A program
that waits for a fleet is killed, and the job goes on. The program has a session of its own, so that Ctrl-C
reaches it only through `Job.wait`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Becomes the program after it has asked for the signal that this thread's end sends it, and has seen to it
# that signals arrive which this Python may ignore or block. The option of prctl is PR_SET_PDEATHSIG; the
# check behind it is for a parent that had ended before. The system may send that signal again for each other
# thread of a process that is killed: the program takes SIGTERMs that follow one another for one, and a second
# SIGINT for a person who does not want to wait.
_LAUNCHER = """\
import ctypes, os, signal, sys
parent, last_wish = int(sys.argv[1]), int(sys.argv[2])
heard = [signal.SIGINT, signal.SIGTERM]
for number in heard:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
if ctypes.CDLL(None, use_errno=True).prctl(1, last_wish, 0, 0, 0) != 0 or os.getppid() != parent:
    sys.exit(125)
os.execv(sys.argv[3], sys.argv[3:])
"""
# Between two looks for the id, seconds.
_LOOK = 0.01
# How long one that is interrupted has to end by itself, seconds.
_PATIENCE = 5.0
# How long the end of this Python waits for jobs that it cancels, seconds.
_AT_EXIT = 10.0

_running: weakref.WeakSet[Child] = weakref.WeakSet()


class Child:
    """The program, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_embedded: bool,
        document: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """Starts it. `command` lacks `--id-file`; `document` is the job file on its standard input, `folder`
        the folder that it runs in, by default that of this Python."""
        self._current_folder = folder
        self.is_embedded = is_embedded
        self.id = ""
        self.exit_code: int | None = None
        self._pid: int | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        # Whether it is to be interrupted as soon as it has a number.
        self._is_left = False
        self._started = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="prs-python-"))
        self._printed = self._said = ""
        (self._folder / "job").write_text(document or "", encoding="utf-8")
        # The signal at the parent's end is that of the thread which started the program: this one stays until
        # then.
        thread = threading.Thread(
            target=self._run, args=(list(command), dict(environment)), name="prs", daemon=True
        )
        _running.add(self)
        try:
            thread.start()
            self._started.wait()
        except KeyboardInterrupt:
            # Nobody has this object then.
            with self._lock:
                self._is_left, has_number = True, self._pid is not None
            if has_number:
                self.interrupt()
            raise
        if self._error is not None:
            raise self._error

    @property
    def is_ours(self) -> bool:
        """Whether this process started it. A fork of that process has neither the thread that follows the
        program nor a say in its end."""
        return self._owner == os.getpid()

    @property
    def has_ended(self) -> bool:
        """Whether the program has."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for its end, for `timeout` seconds at most; says whether it has ended."""
        return self._ended.wait(timeout)

    def wait_for_id(self) -> str:
        """Waits until there is a job; returns its id, or nothing where the program ended without one."""
        path = self._folder / "id"
        while not self.id:
            ended = self.has_ended
            with contextlib.suppress(OSError):
                text = path.read_text(encoding="utf-8")
                self.id = self.id or text.strip() if text.endswith("\n") else self.id
            if ended:
                break
            if not self.id:
                self._ended.wait(_LOOK)
        return self.id

    def interrupt(self) -> None:
        """As Ctrl-C does."""
        if not self.is_ours:
            # The lock may have been held when this process was forked, and nobody gives it back.
            return
        # Under the lock, so that the number is not that of another process by now.
        with self._lock:
            if self._pid is not None and self.exit_code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGINT)

    def wait_for_start(self) -> str:
        """As `wait_for_id`. Ctrl-C meanwhile ends the program, which then leaves nothing that runs here."""
        try:
            return self.wait_for_id()
        except KeyboardInterrupt:
            self.interrupt()
            if not self.wait(_PATIENCE):
                self.interrupt()
            raise

    @property
    def printed(self) -> str:
        """What it printed on standard output, once it has ended."""
        return self._printed

    @property
    def said(self) -> str:
        """What it wrote to standard error so far."""
        if self.has_ended:
            return self._said
        return self._text("err")

    def _run(self, command: list[str], environment: dict[str, str]) -> None:
        """Body of the thread that the program belongs to."""
        try:
            process = self._start(command, environment)
        except BaseException as error:
            self._error = error
            shutil.rmtree(self._folder, ignore_errors=True)
            self._ended.set()
            self._started.set()
            return
        with self._lock:
            self._pid, is_left = process.pid, self._is_left
        if is_left:
            self.interrupt()
        self._started.set()
        # The process stays a zombie, and its number its own, until it is waited for under the lock.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            exit_code = process.wait()
            self.exit_code = exit_code
        with contextlib.suppress(OSError):
            text = (self._folder / "id").read_text(encoding="utf-8")
            self.id = text.strip() if text.endswith("\n") else self.id
        self._printed, self._said = self._text("out"), self._text("err")
        shutil.rmtree(self._folder, ignore_errors=True)
        _running.discard(self)
        self._ended.set()

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        last_wish = signal.SIGTERM if self.is_embedded else signal.SIGKILL
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(int(last_wish))]
        # Files, not pipes: nothing is held up where nobody reads, or where a process of a script keeps them
        # open.
        with contextlib.ExitStack() as files:
            stdin = files.enter_context(open(self._folder / "job", "rb"))
            stdout = files.enter_context(open(self._folder / "out", "wb"))
            stderr = files.enter_context(open(self._folder / "err", "wb"))
            return subprocess.Popen(
                [*launcher, *command, "--id-file", str(self._folder / "id")],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                cwd=self._current_folder,
                start_new_session=True,
            )

    def _text(self, name: str) -> str:
        try:
            return (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _cancel_at_exit(self) -> bool:
        """Cancels an embedded job of this process; says whether there is one."""
        if self.has_ended or not self.is_embedded or not self.is_ours:
            return False
        named = self.id or "a job that was about to start"
        print(f"prs: {named} is canceled, for this Python ends; prs resume goes on with it", file=sys.stderr)
        self.interrupt()
        return True


def _at_exit(*_: Any) -> None:
    until = time.monotonic() + _AT_EXIT
    for child in [child for child in list(_running) if child._cancel_at_exit()]:
        child.wait(max(0.0, until - time.monotonic()))


atexit.register(_at_exit)
