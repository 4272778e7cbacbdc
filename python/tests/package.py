"""What tests of the package `prs` share: the package itself, the program under test, and small jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Callable

from harness import PACKAGE, extension

SOURCES = PACKAGE.parent
sys.path.insert(0, str(SOURCES))
import prs  # noqa: E402

sys.path.remove(str(SOURCES))

PROGRAM = extension().with_name("prs")
# Seconds for anything that takes a moment: one that hangs ends.
DEADLINE = 60.0

NAMES = """\
    from pathlib import Path

    def run(mini_batch):
        return [Path(path).name for path in mini_batch]
"""
FAILS = """\
    from pathlib import Path

    def run(mini_batch):
        return [int(Path(path).read_text()) for path in mini_batch]
"""
SLOW = """\
    import time

    def run(mini_batch):
        time.sleep(0.2)
        return list(mini_batch)
"""
# Waits for `job`, and says so from within the wait.
WAITS = """
    wait = prs.child.Child.wait
    def told(child, timeout=None):
        print("waits", flush=True)
        return wait(child, timeout)
    prs.child.Child.wait = told
    job.wait()
"""


def held(folder: Path) -> str:
    """A script that waits with all but the first file until there is a file `go` in the folder."""
    return f"""\
    import time
    from pathlib import Path

    def run(mini_batch):
        path = Path(mini_batch[0])
        while path.name != "000.txt" and not Path({str(folder / "go")!r}).exists():
            time.sleep(0.01)
        return [path.name]
    """


def job_file(folder: Path, script: str = NAMES, files: int = 4, **keys: Any) -> Path:
    """A job of `files` files, one a mini-batch, with further keys."""
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code/score.py").write_text(textwrap.dedent(script))
    (folder / "data").mkdir(exist_ok=True)
    for number in range(files):
        (folder / f"data/{number:03}.txt").write_text(str(number))
    path = folder / "job.yml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in {**keys_of_job(), **keys}.items()) + "\n")
    return path


def keys_of_job() -> dict[str, Any]:
    """Those that `job_file` writes; a job file may have JSON."""
    return {
        "name": "names",
        "source_directory": "code",
        "entry_script": "score.py",
        "inputs": [{"type": "file", "path": "data"}],
        "mini_batch_size": 1,
        "process_count_per_node": 1,
        "run_max_try": 1,
    }


def python(code: str, *, folder: Path, **options: Any) -> subprocess.Popen[str]:
    """Another Python that has the package, to be ended by force."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), **options.pop("env", {})}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes, **options)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits for a condition."""
    until = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < until, f"after {DEADLINE} s: {what}"
        time.sleep(0.02)


__all__ = [
    "FAILS",
    "NAMES",
    "PROGRAM",
    "SLOW",
    "SOURCES",
    "WAITS",
    "held",
    "job_file",
    "keys_of_job",
    "prs",
    "python",
    "wait_until",
]
