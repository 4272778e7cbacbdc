"""Which program is run, one that is not there, and one of another version."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from package import PROGRAM, job_file, prs


def program(path: Path, text: str) -> Path:
    """A program in place of prs."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answering(printed: Any) -> str:
    """The text of a program that gives its version, and prints the same to any command."""
    return f"[ \"$1\" = --version ] && echo prs 0.2.0 && exit\ncat <<'END'\n{json.dumps(printed)}\nEND"


def test_no_program(folder: Path, monkeypatch: pytest.MonkeyPatch):
    job_file(folder)
    monkeypatch.delenv("PRS_PROGRAM")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(folder / "none"))
    monkeypatch.setattr("sys.executable", str(folder / "none/python"))
    with pytest.raises(prs.ProgramNotFound, match="install the wheel prs-run in this environment"):
        prs.submit("job.yml")
    monkeypatch.setenv("PRS_PROGRAM", "absent")
    with pytest.raises(prs.ProgramNotFound, match="PRS_PROGRAM names absent"):
        prs.jobs()


def test_the_program_of_this_environment_comes_before_others(folder: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ["environment", "elsewhere"]:
        (folder / name).mkdir()
        (folder / name / "prs").symlink_to(PROGRAM)
    monkeypatch.delenv("PRS_PROGRAM")
    monkeypatch.setenv("PATH", str(folder / "elsewhere"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(folder / "environment"))
    assert prs.program.find() == str(folder / "environment/prs")
    (folder / "environment/prs").unlink()
    monkeypatch.setattr("sys.executable", str(folder / "none/python"))
    assert prs.program.find() == str(folder / "elsewhere/prs")


def test_an_older_program_is_refused_and_a_newer_one_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("prs.program.__version__", "9.2.0")
    with pytest.raises(
        prs.ProgramMismatch, match=r"older than this package, which is of 9\.2\.0: install the wheel"
    ):
        prs.jobs()
    monkeypatch.setattr("prs.program.__version__", "0.0.1")
    assert prs.jobs() == []
    other = program(folder / "other", "echo GNU prs")
    monkeypatch.setenv("PRS_PROGRAM", str(other))
    with pytest.raises(prs.ProgramNotFound, match="is not prs"):
        prs.jobs()


@pytest.mark.parametrize(
    ("printed", "kind", "message"),
    [
        ({"schema": 2, "jobs": []}, "ProgramMismatch", "schema 2, and this package reads 1"),
        (
            {
                "schema": 1,
                "error": {"code": "usage", "exit_code": 2, "message": "unexpected argument '--x' found"},
            },
            "ProgramMismatch",
            "does not know what this package asks",
        ),
        ({"schema": 1, "error": {"code": "failed", "exit_code": 42, "message": "odd"}}, "PrsError", "odd"),
        ("rubbish", "PrsError", "no record"),
    ],
)
def test_what_another_program_prints(
    folder: Path, monkeypatch: pytest.MonkeyPatch, printed: Any, kind: str, message: str
):
    other = program(folder / "other", answering(printed))
    monkeypatch.setenv("PRS_PROGRAM", str(other))
    with pytest.raises(getattr(prs, kind), match=message):
        prs.jobs()


def test_keys_that_are_not_known_are_left_aside(folder: Path):
    job = prs.submit(job_file(folder))
    record = {**job.wait().record, "of_a_later_version": 1}
    assert prs.Status.of(record).complete


def test_passwords_are_on_no_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    noting = f'echo "$@" >> {folder}/arguments; env >> {folder}/variables'
    seen = program(folder / "other", f'[ "$1" = --version ] || {{ {noting}; }}\n{answering({})}')
    monkeypatch.setenv("PRS_PROGRAM", str(seen))
    monkeypatch.setenv("PRS_PROFILE", "staging")
    with pytest.raises(prs.PrsError):
        prs.jobs(fleet=prs.Fleet("amqp://u:secret@h", "redis://h", "s3://b"))
    assert "secret" not in (folder / "arguments").read_text()
    variables = (folder / "variables").read_text().splitlines()
    assert "PRS_BROKER_URL=amqp://u:secret@h" in variables and "PRS_PROFILE=staging" not in variables
    assert os.environ["PRS_PROFILE"] == "staging"
