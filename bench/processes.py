"""What the kernel knows of running processes: their memory and CPU time."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

LOOK = 0.1  # seconds between two looks at the memory


def children(pid: int) -> list[int]:
    """Process ids; empty when the process is gone."""
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in tasks.read_text().split()]
        except OSError:
            continue
    return found


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def command(pid: int) -> str:
    """The program and its command, as in `prs submit`."""
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return " ".join([Path(program).name, *arguments[:1]])


def peak_megabytes(pid: int) -> float:
    """The most memory that was resident at a time; 0 when the process is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found.group(1)) * 1024 / 1e6 if found else 0.0


def memory(pid: int) -> dict[str, float]:
    """Megabytes now. `resident`: all that is in memory; `own`: without the pages of files, which processes of
    one program share; `share`: `own`, and of each shared page the part of one process. Empty when it is gone.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return {}
    found = {}
    for name, text, field in (
        ("resident", status, "VmRSS"),
        ("own", status, "RssAnon"),
        ("share", rollup, "Pss"),
    ):
        found[name] = int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE).group(1)) * 1024 / 1e6
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of the threads that the process has now."""
    seconds = 0.0
    for threads in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            seconds += int(threads.read_text().split()[0]) / 1e9
        except OSError:
            continue
    return seconds


class Peaks:
    """Looks at the programs below this one while the block runs. `megabytes`: for each program of prs, and
    for `a process` of a job, the most memory that one of that name had resident at a time.
    """

    def __init__(self) -> None:
        self.megabytes: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            programs = children(os.getpid())
            for pid in [*programs, *(child for program in programs for child in children(program))]:
                program = name(pid)
                if program.startswith("python"):
                    program = "a process"
                elif program == "prs":
                    program = command(pid)
                else:
                    continue
                self.megabytes[program] = max(self.megabytes.get(program, 0.0), peak_megabytes(pid))
