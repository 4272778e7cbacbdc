"""The progress of a job while `Job.wait` waits: a widget in a notebook, a line on a terminal, else a line
now and then."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from typing import Any

from prs.records import Status

_WIDTH = 24
# Between two lines where nothing can be rewritten, seconds: as the program has it.
_LINE_INTERVAL = 10.0


class Display:
    """Shows nothing: what a wait has without progress."""

    is_shown = False

    def show(self, status: Status) -> None:
        """Shows how the job stands."""

    def close(self) -> None:
        """Leaves what is shown as it is; nothing is shown from then on. May be called again."""


def display_for(progress: bool) -> Display:
    """The display that this Python has."""
    if not progress:
        return Display()
    if _is_notebook():
        try:
            return _Widget()
        except Exception:
            # Without ipywidgets, or with a kernel that has them and a front end that has not.
            return _NotebookLine()
    return _TerminalLine() if sys.stderr is not None and sys.stderr.isatty() else _Lines()


def line(status: Status) -> str:
    """A job in a line."""
    done, all_of_them = status.mini_batches.ended, status.mini_batches.scheduled
    waited = status.record.get("waited_seconds", 0.0)
    parts = [f"{status.state} {_time(waited + status.seconds)}"]
    if all_of_them:
        filled = _WIDTH * done // all_of_them
        parts.append(f"{'█' * filled}{'░' * (_WIDTH - filled)}")
        parts.append(f"{done:,}/{all_of_them:,} mini-batches")
    if status.items.total:
        parts.append(f"{status.items.total:,} items")
    if status.items.failed:
        parts.append(f"{status.items.failed:,} items failed")
    if status.eta_seconds is not None and not status.is_final:
        parts.append(f"{_time(status.eta_seconds)} left")
    return "  ".join(parts)


def _time(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _is_notebook() -> bool:
    """Whether this is the kernel of a notebook: it has loaded IPython, and says so."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _TerminalLine(Display):
    """One line that is rewritten."""

    is_shown = True

    def __init__(self) -> None:
        self._last = ""

    def show(self, status: Status) -> None:
        text = line(status)[: max(1, shutil.get_terminal_size().columns - 1)]
        if text != self._last:
            self._write(f"\r\x1b[2K{text}")
            self._last = text

    def close(self) -> None:
        if self._last:
            self._write("\n")
            self._last = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class _Lines(Display):
    """A line every ten seconds while anything changes, and none of a job that takes less."""

    is_shown = True

    def __init__(self) -> None:
        self._last, self._next = "", time.monotonic() + _LINE_INTERVAL

    def show(self, status: Status) -> None:
        text = line(status)
        if time.monotonic() >= self._next and text != self._last and sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)
            self._last, self._next = text, time.monotonic() + _LINE_INTERVAL


class _NotebookLine(Display):
    """A line of text below the cell that is rewritten."""

    is_shown = True

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = ""

    def show(self, status: Status) -> None:
        text = line(status)
        if text == self._last:
            return
        self._last = text
        shown = {"text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(shown, raw=True, display_id=True)
        elif self._handle is not None:
            self._handle.update(shown, raw=True)


class _Widget(Display):
    """A bar of ipywidgets and a line beside it."""

    is_shown = True

    def __init__(self) -> None:
        widgets = importlib.import_module("ipywidgets")
        self._bar = widgets.IntProgress(min=0, max=1)
        self._text = widgets.Label()
        self._box = widgets.HBox([self._bar, self._text])
        self._is_displayed = False

    def show(self, status: Status) -> None:
        self._bar.max = max(1, status.mini_batches.scheduled)
        self._bar.value = status.mini_batches.ended
        ended = {"completed": "success" if not status.items.failed else "warning", "failed": "danger"}
        self._bar.bar_style = ended.get(status.state, "")
        self._text.value = line(status)
        if not self._is_displayed:
            importlib.import_module("IPython.display").display(self._box)
            self._is_displayed = True
