"""W8: what a server takes, and whether a job is slower for being watched."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import processes
from paths import PATHS, write_list
from work import PROCESSES, Bench, Figure, Study, WrongRows, job_file

LOAD = "server-load"
WATCHERS = 200
PAIRS = 5


class AServer(Study):
    name = "W8"

    def __init__(self, size: str, folder: Path) -> None:
        self.size = size
        self.n, self.pairs, self.watchers = {
            "tiny": (1_000, 1, 4),
            "full": (100_000, PAIRS, WATCHERS),
        }[size]
        self.title = f"a server on one core, and {self.n:,} mini-batches of W2 with {self.watchers} watchers"
        self.list_file = folder / f"w8-{self.n}-paths.txt"
        self.expected = ""

    def prepare(self) -> None:
        self.expected = write_list(self.list_file, self.n)

    def job(self) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        return job_file("bench-w8", "no_op.py", str(PATHS), keys)

    def measure(self, bench: Bench) -> list[Figure]:
        return self.load(bench) + self.harm(bench)

    def load(self, bench: Bench) -> list[Figure]:
        """What the server takes, of jobs that nobody runs."""
        command = [str(bench.fleet.bin_dir / LOAD), *(["--tiny"] if self.size == "tiny" else [])]
        done = subprocess.run(
            [*command, str(bench.fleet.bin_dir)],
            env={name: value for name, value in os.environ.items() if not name.startswith("PRS_")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise WrongRows(f"{LOAD} failed with exit code {done.returncode}")
        return [Figure(**figure) for figure in json.loads(done.stdout)]

    def harm(self, bench: Bench) -> list[Figure]:
        """W2's work in turn with nobody who watches and with many; the server runs each time."""
        seconds: dict[bool, list[float]] = {False: [], True: []}
        memory: dict[bool, list[float]] = {False: [], True: []}
        for pair in range(self.pairs):
            # Who comes first changes from pair to pair.
            for is_watched in (pair % 2 == 0, pair % 2 != 0):
                folder = bench.scratch / f"{pair}-{is_watched}"
                folder.mkdir()
                with (
                    bench.fleet.workers(1, PROCESSES) as workers,
                    serving(bench, folder) as url,
                    watching(bench, url, self.watchers if is_watched else 0),
                ):
                    outcome = bench.run_prs(self.job(), folder, bench.fleet.environment)
                    memory[is_watched].append(processes.peak_megabytes(workers[0].pid))
                rows = outcome.rows.read_bytes()
                if rows.count(b"\n") != self.n * PATHS:
                    raise WrongRows(f"{outcome.rows}: not the {self.n * PATHS:,} expected rows")
                outcome.rows.unlink()
                seconds[is_watched].append(outcome.wall)
                bench.progress(f"W8: watched {is_watched}: {outcome.wall:.2f} s")
        ratios = [watched / alone for alone, watched in zip(seconds[False], seconds[True], strict=True)]
        figures = []
        for is_watched, what in ((False, "nobody watches"), (True, f"{self.watchers} watch")):
            figures.append(Figure(f"W2, {what}: whole command", statistics.median(seconds[is_watched]), "s"))
            most = max(memory[is_watched])
            figures.append(Figure(f"W2, {what}: most memory of prs worker", most, "MB"))
        figures.append(Figure("W2: median of watched to alone", statistics.median(ratios), "x", "< 1.02"))
        figures.append(Figure("W2: least", min(ratios), "x"))
        figures.append(Figure("W2: most", max(ratios), "x"))
        return figures


@contextlib.contextmanager
def serving(bench: Bench, folder: Path) -> Iterator[str]:
    """A server of the fleet; its address."""
    command = [str(bench.fleet.bin_dir / "prs"), "serve", "--listen", "127.0.0.1:0", "--auth", "none"]
    for limit in ("--max-requests", "--max-requests-of-one", "--max-streams-of-one"):
        command += [limit, "1000"]
    command += ["-o", "json"]
    with open(folder / "serve.err", "wb") as stderr:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **bench.fleet.environment, "XDG_RUNTIME_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        record = "".join(iter(server.stdout.readline, "}\n")) + "}"
        yield json.loads(record)["url"]
    finally:
        server.terminate()
        server.wait(timeout=60)


@contextlib.contextmanager
def watching(bench: Bench, url: str, watchers: int) -> Iterator[None]:
    """So many watchers of the job that runs next."""
    if watchers == 0:
        yield
        return
    program = str(bench.fleet.bin_dir / LOAD)
    client = subprocess.Popen(
        [program, "watch", url, str(watchers)], stdin=subprocess.PIPE, stdout=sys.stderr, text=True
    )
    try:
        yield
        # A watcher that was refused ends all of them, and then nobody watched.
        if client.poll() not in (None, 0):
            raise WrongRows(f"{LOAD} watch failed with exit code {client.returncode}")
    finally:
        client.stdin.close()
        client.wait(timeout=60)
