"""The program `prs`: which one it is, a call of one of its commands, and its refusals as exceptions."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prs._version import __version__
from prs.errors import JobFileError, ProgramMismatch, ProgramNotFound, PrsError, Unreachable, UsageError
from prs.records import SCHEMA
from prs.servers import Place

_NAME = "prs"
# Names another program than that of this environment.
_VARIABLE = "PRS_PROGRAM"
_JSON = ("-o", "json")
_SAME = "install the wheel prs-run anew, which brings both"


def find() -> str:
    """The program: what `PRS_PROGRAM` names, that of this Python's environment, or the one on `PATH`."""
    named = os.environ.get(_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise ProgramNotFound(f"{_VARIABLE} names {named}, which is no program")
        return _checked(named)
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable or "")]
    for folder in folders:
        path = os.path.join(folder, _NAME) if folder else ""
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return _checked(path)
    found = shutil.which(_NAME)
    if found is None:
        raise ProgramNotFound(
            f"there is no program {_NAME} in {folders[0]} nor on PATH: install the wheel prs-run in this "
            f"environment, or name the program in the variable {_VARIABLE}"
        )
    return _checked(found)


def _checked(path: str) -> str:
    """The absolute path of a program, for it may run in another folder than this Python. Refuses one that is
    older than this package: it lacks what this asks of it. A newer one prints what this package knows as long
    as the number of its schema is the same, which every record says."""
    path = os.path.abspath(path)
    changed = os.stat(path)
    said = _version_of(path, (changed.st_mtime_ns, changed.st_size))
    if __version__ is not None and _numbers(said) < _numbers(__version__):
        raise ProgramMismatch(
            f"{path} is prs {said}, older than this package, which is of {__version__}: {_SAME}"
        )
    return path


@functools.lru_cache(maxsize=8)
def _version_of(path: str, _identity: tuple[int, int]) -> str:
    """The version of the program, which is asked for once as long as the file is the same."""
    try:
        said = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise ProgramNotFound(f"{path} cannot be started: {error.strerror or error}") from None
    found = re.match(r"prs (\d+(?:\.\d+)*)", said.stdout)
    if found is None:
        raise ProgramNotFound(f"{path} is not prs: it gives its version as {said.stdout.strip()!r}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


def settings(given: Mapping[str, Any]) -> list[str]:
    """Settings as `--set` takes them. A value is text, a number, a path, `True`, `False`, or a list or
    mapping, which is written as JSON."""
    arguments = []
    for key, value in given.items():
        arguments += ["--set", f"{key}={as_text(value)}"]
    return arguments


def as_text(value: Any) -> str:
    """A value as `--set` has it."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return json.dumps(value, default=plain)


def plain(value: Any) -> Any:
    """What JSON has for a value that it does not know: `default` of `json.dumps`."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        # A number of numpy.
        return value.item()
    raise TypeError(f"{value!r} is no value of a job file: give text, numbers, paths, lists and mappings")


def call(
    command: str, arguments: Sequence[str], place: Place, *, document: str | None = None
) -> dict[str, Any]:
    """Runs a command to its end; returns the record that it prints, whatever the exit code. `document` is
    the job file that it reads from standard input."""
    done = _run([command, *_JSON, *arguments], place, document)
    return record_of(done.stdout, done.stderr, done.returncode, is_job_file=document is not None)


def text(command: str, arguments: Sequence[str], place: Place, *, document: str | None = None) -> str:
    """The same for a command that prints text, such as a log."""
    done = _run([command, *_JSON, *arguments], place, document)
    if done.returncode != 0:
        record_of(done.stdout, done.stderr, done.returncode, is_job_file=document is not None)
        raise PrsError(
            f"prs ended with exit code {done.returncode}: {done.stderr.strip()}", None, done.returncode
        )
    return done.stdout


def _run(command: Sequence[str], place: Place, document: str | None) -> subprocess.CompletedProcess[str]:
    program = find()
    source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if document is None else {"input": document}
    return subprocess.run(
        [program, *command],
        env=place.environment(),
        cwd=place.folder,
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
        **source,
    )


def record_of(printed: str, said: str, exit_code: int, is_job_file: bool = False) -> dict[str, Any]:
    """The record in `printed`; raises what a failure in it means. `said` is what standard error has, and
    `is_job_file` whether what is wrong with the usage is wrong with a job file."""
    try:
        record = json.loads(printed)
    except ValueError:
        record = None
    if not isinstance(record, dict) or "schema" not in record:
        raise PrsError(f"prs ended with exit code {exit_code} and no record: {said.strip()}", None, exit_code)
    if record["schema"] != SCHEMA:
        raise ProgramMismatch(
            f"prs prints records of schema {record['schema']}, and this package reads {SCHEMA}: {_SAME}"
        )
    error = record.get("error")
    # What `try` prints of a mini-batch has an error of its own, without an exit code.
    if isinstance(error, dict) and "exit_code" in error:
        raise refusal(error["message"], error["code"], error["exit_code"], is_job_file)
    return record


def refusal(message: str, code: str, exit_code: int, is_job_file: bool = False) -> PrsError:
    """The exception for a command that failed."""
    if code == "usage" and message.startswith("unexpected argument"):
        return ProgramMismatch(
            f"prs does not know what this package asks of it ({message}): {_SAME}", code, exit_code
        )
    kinds: dict[str, type[PrsError]] = {
        "usage": JobFileError if is_job_file else UsageError,
        "cannot_connect": Unreachable,
    }
    return kinds.get(code, PrsError)(message, code, exit_code)


def runs_of(place: Place) -> Path | None:
    """The folder of the runs, where jobs of `place` run on this machine; `None` for a fleet."""
    if place.fleet is not False:
        options = [one for one in place.arguments(with_runs=False) if one != "--local"]
        if place.is_fleet(call("profiles", options, place)["used"]):
            return None
    return place.runs if place.runs is not None else (place.folder or Path.cwd()) / "prs-runs"
