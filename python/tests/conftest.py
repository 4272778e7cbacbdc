"""Fixtures: processes that are gone when the test is over."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from harness import Process, extension


def pytest_sessionstart() -> None:
    """Nothing can be tested without the extension; that is a failure, never a skip."""
    # Shells have what they start in the background ignore Ctrl-C, and so would all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        extension()
    except RuntimeError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a process in a folder of its own."""
    processes: list[Process] = []

    def make(script: Any = None, **options: Any) -> Process:
        folder = tmp_path / str(len(processes))
        folder.mkdir()
        processes.append(Process(folder, script, **options))
        return processes[-1]

    yield make
    for process in processes:
        process.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a test of the package `prs`, on a machine without a fleet."""
    program = extension().with_name("prs")
    for name in list(os.environ):
        if name.startswith(("PRS_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    monkeypatch.setenv("PRS_PROGRAM", str(program))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Starts a server of prs in front of the runs of the folder. The package itself has no program then."""
    from serve import Serve

    (folder / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    monkeypatch.setenv("PRS_PROGRAM", str(folder / "no-program"))
    servers: list[Any] = []

    def make(*options: str, **more: Any) -> Any:
        servers.append(Serve(folder, *options, **more))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The servers of a fleet and a worker; gives the variables that name them."""
    program = extension().with_name("prs")
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("PRS_", "AWS_"))}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # They end with their standard input, which the end of the block closes.
    with subprocess.Popen([program.with_name("fleet-servers")], env=quiet, **pipes) as process:
        variables = {}
        while (line := process.stdout.readline().strip()) != "ready":
            name, value = line.removeprefix("export ").split("=", 1)
            variables[name] = value.strip("'")
        work = tmp_path_factory.mktemp("work")
        command = [program, "worker", "--work-dir", work]
        with subprocess.Popen(command, env=quiet | variables, stderr=subprocess.DEVNULL) as worker:
            yield variables
            worker.terminate()
