"""Fixtures: processes that are gone when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from harness import Process, extension


def pytest_sessionstart() -> None:
    """Nothing can be tested without the extension; that is a failure, never a skip."""
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
