"""What the kernel knows of running processes."""

from __future__ import annotations

import re
from pathlib import Path


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


def peak_megabytes(pid: int) -> float:
    """The most memory that was resident at a time; 0 when the process is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found.group(1)) * 1024 / 1e6 if found else 0.0
