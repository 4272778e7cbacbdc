"""What a wait shows: in a notebook, on a terminal, elsewhere."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from package import SLOW, job_file, prs


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Notebook:
    """IPython in a kernel: notes what is displayed, and what becomes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[Any] = []
        module = ModuleType("IPython")
        module.get_ipython = lambda: SimpleNamespace(kernel=object())
        module.display = ModuleType("IPython.display")
        module.display.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", module)
        monkeypatch.setitem(sys.modules, "IPython.display", module.display)

    def display(self, what: Any, **_: Any) -> Any:
        self.shown.append(what)
        return SimpleNamespace(update=lambda what, raw: self.shown.append(what))


def test_a_terminal_has_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    prs.submit(job_file(folder, SLOW, files=10)).wait()
    shown = terminal.getvalue()
    assert shown.count("\n") == 1 and shown.count("\r") > 1
    last = shown.splitlines()[-1]
    assert "completed" in last and "10/10 mini-batches" in last


def test_a_notebook_without_widgets_has_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    notebook = Notebook(monkeypatch)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    prs.submit(job_file(folder, SLOW, files=10)).wait()
    texts = [shown["text/plain"] for shown in notebook.shown]
    assert len(texts) > 1 and texts[-1].startswith("completed") and "10/10" in texts[-1]


def test_a_notebook_with_widgets_has_a_bar(folder: Path, monkeypatch: pytest.MonkeyPatch):
    notebook = Notebook(monkeypatch)
    widgets = ModuleType("ipywidgets")
    widgets.IntProgress = lambda **values: SimpleNamespace(**values)
    widgets.Label = SimpleNamespace
    widgets.HBox = list
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    prs.submit(job_file(folder, SLOW, files=5)).wait()
    ((bar, label),) = notebook.shown
    assert (bar.value, bar.max, bar.bar_style) == (5, 5, "success")
    assert label.value.startswith("completed")


def test_elsewhere_a_short_job_has_none(folder: Path, capfd: pytest.CaptureFixture[str]):
    prs.submit(job_file(folder)).wait()
    prs.submit(job_file(folder), allow_reuse=False).wait(progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_long_one_has_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("prs.progress._LINE_INTERVAL", 0.0)
    prs.submit(job_file(folder, SLOW, files=10)).wait()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) > 1 and lines[-1].startswith("completed")
