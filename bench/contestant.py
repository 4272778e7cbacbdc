"""Runs prs or a peer once, in a folder of its own, and tells how long it took and where its rows are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from paths import sha256_of
from work import Peer

LONGEST = 1800  # seconds
# What a contestant says besides its result, in its folder.
STDERR = "stderr.txt"
SERVERS = ("PRS_BROKER_URL", "PRS_REDIS_URL", "PRS_STORAGE_URL")


# A Unix socket has a path of at most 107 bytes, and Ray puts some 65 behind its temporary folder.
LONGEST_RAY_FOLDER = 40


class Failed(Exception):
    """A contestant did not get to its end."""

    @property
    def reason(self) -> str:
        """Its last line, where programs say what is wrong."""
        lines = [line.strip() for line in str(self).splitlines() if line.strip()]
        return lines[-1][:200] if lines else "no reason given"


@dataclass(frozen=True)
class Outcome:
    """One run. `seconds` is what the contestant says, `wall` the whole command from outside."""

    seconds: float
    wall: float
    # None where the contestant writes its rows in a form of its own.
    rows: Path | None
    # Of prs's rows; checked against what prs reported.
    sha256: str = ""
    # Its id, by which the commands of prs find it.
    job_id: str = ""


def run_prs(job_text: str, bin_dir: Path, folder: Path, servers: dict[str, str]) -> Outcome:
    """Submits a job and waits for its end. Without servers it runs embedded."""
    job = folder / "job.yml"
    job.write_text(job_text, encoding="utf-8")
    command = [str(bin_dir / "prs"), "submit", str(job), "-o", "json"]
    if not servers:
        command += ["--run-dir", str(folder / "run")]
    stdout, wall = run(command, folder, {"VIRTUAL_ENV": sys.prefix, **servers})
    result = json.loads(stdout)
    if result["state"] != "completed":
        raise Failed(f"job {result['state']}: {result['reason']}; see {result['logs']}")
    rows = Path(unquote(urlparse(result["output"]["file"]).path))
    sha256 = sha256_of(rows)
    if sha256 != result["output"]["sha256"]:
        raise Failed(f"{rows} has the sha256 {sha256}, prs reported {result['output']['sha256']}")
    return Outcome(result["seconds"], wall, rows, sha256, result["job_id"])


def run_peer(peer: Peer, scripts: Path, python: Path, folder: Path, servers: dict[str, str]) -> Outcome:
    """Runs a peer's script, which prints one JSON line and writes below $TMPDIR."""
    command = [str(python), str(scripts / peer.script), *peer.arguments]
    with tempfile.TemporaryDirectory(prefix="ray-", dir=short_folder(), ignore_cleanup_errors=True) as ray:
        stdout, wall = run(command, folder, {"TMPDIR": str(folder), "RAY_TMPDIR": ray, **servers})
    lines = [line for line in stdout.splitlines() if line.startswith('{"peer"')]
    if len(lines) != 1:
        raise Failed(f"{peer.script} printed no line with its time")
    rows = next((path for path in folder.glob("*/rows.txt") if path.is_file()), None)
    return Outcome(json.loads(lines[0])["seconds"], wall, rows)


def short_folder() -> str:
    """A folder for temporary files below which the path of a socket is short enough."""
    candidates = [tempfile.gettempdir(), "/tmp", "/dev/shm"]
    return next(
        (path for path in candidates if len(path) + len("/ray-12345678") <= LONGEST_RAY_FOLDER), "/tmp"
    )


def run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[str, float]:
    """Returns stdout and the wall time; stderr goes to a file in `folder`.

    What earlier runs wrote is on the disk before the clock starts. Servers that the caller's own environment
    names are no part of a benchmark.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in SERVERS}
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")])
    os.sync()
    start = time.perf_counter()
    with open(folder / STDERR, "w", encoding="utf-8") as stderr:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**inherited, "PATH": path, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)}: no end within {LONGEST} s") from None
    wall = time.perf_counter() - start
    if done.returncode != 0:
        said = (folder / STDERR).read_text(encoding="utf-8", errors="replace")
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{said[-2000:]}")
    return done.stdout, wall


def can_import(python: Path, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", code], stdin=subprocess.DEVNULL).returncode == 0
