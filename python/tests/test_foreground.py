"""A process with a terminal: what a debugger looks into, and what a test is given (`prs try`)."""

from __future__ import annotations

import importlib
import io
import sys

import pytest
from harness import PACKAGE


@pytest.fixture
def foreground(monkeypatch):
    """The module under test, which processes alone import."""
    monkeypatch.syspath_prepend(str(PACKAGE.parent))
    return importlib.import_module("azureml_user.parallel_run.foreground")


@pytest.fixture
def script(tmp_path, foreground):
    """A function of a script that fails in a library, and the foreground that knows its folder."""
    path = tmp_path / "main.py"
    path.write_text("import json\n\ndef run(text):\n    inner = text * 2\n    return json.loads(inner)\n")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)

    def make(debugger):
        terminal = foreground.Foreground(debugger)
        terminal.begin(str(tmp_path))
        return scope["run"], terminal

    return make


def describe(run, terminal, monkeypatch, typed):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(sys, "stdout", shown)
    try:
        run("n/k")
    except ValueError as error:
        return terminal.describe(error, "run()"), shown.getvalue()
    raise AssertionError("it does not fail")


def test_pdb_begins_at_the_last_line_of_the_script(script, monkeypatch):
    run, terminal = script("pdb")
    (category, _, traceback, frame), shown = describe(
        run, terminal, monkeypatch, "p 'inner is', inner\ndown\nup\nq\n"
    )
    assert category == "JSONDecodeError" and "main.py" in traceback and 5 in frame
    assert "main.py(5)run()" in shown and "('inner is', 'n/kn/k')" in shown
    # The library is one step down, and the script one up again.
    assert shown.index("json") < shown.rindex("main.py(5)run()")


def test_nothing_is_asked_without_pdb(script, monkeypatch):
    run, terminal = script("none")
    (category, *_), shown = describe(run, terminal, monkeypatch, "")
    assert (category, shown) == ("JSONDecodeError", "")


def test_an_end_that_was_asked_for_is_not_looked_into(script, monkeypatch):
    _, terminal = script("pdb")
    monkeypatch.setattr(sys, "stdin", io.StringIO("p 1\n"))
    assert terminal.describe(KeyboardInterrupt(), "run()")[0] == "KeyboardInterrupt"
    assert terminal.describe(SystemExit(3), "run()")[1] == "run() called sys.exit(3)"


def test_the_variable_is_taken_away(foreground, monkeypatch):
    monkeypatch.setenv("PRS_PROCESS_FOREGROUND", "none")
    assert foreground.take() is not None
    assert foreground.take() is None


def test_a_process_may_only_import(foreground):
    assert foreground.Foreground("import").only_imports
    assert not foreground.Foreground("none").only_imports
