"""W5: how the cost of a mini-batch, memory and the time of `status` grow with the length of a job."""

from __future__ import annotations

import hashlib
import os
import re
import statistics
import subprocess
import threading
import time
from pathlib import Path

from contestant import STDERR
from paths import PATHS, write_list
from processes import Peaks
from work import PROCESSES, Bench, Figure, Study, WrongRows, job_file

ASK = 1.0  # seconds between two calls of status


class Scale(Study):
    name = "W5"

    def __init__(self, size: str, folder: Path) -> None:
        self.sizes = {"tiny": (500, 1_000), "full": (10_000, 100_000, 1_000_000)}[size]
        counts = ", ".join(f"{n:,}" for n in self.sizes)
        self.title = f"{counts} no-op mini-batches of {PATHS} paths on a fleet, one worker"
        self.lists = {n: folder / f"w5-{n}-paths.txt" for n in self.sizes}
        self.expected = {}

    def prepare(self) -> None:
        for n, file in self.lists.items():
            self.expected[n] = write_list(file, n)

    def job(self, n: int) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.lists[n]}'}}"
        return job_file("bench-w5", "no_op.py", str(PATHS), keys)

    def measure(self, bench: Bench) -> list[Figure]:
        seconds = {}
        for n in self.sizes:
            folder = bench.scratch / str(n)
            folder.mkdir()
            # A worker for each, so that its peak is of this job.
            with bench.fleet.workers(1, PROCESSES), Peaks() as peaks, Asker(bench, folder) as asker:
                outcome = bench.run_prs(self.job(n), folder, bench.fleet.environment)
            if hashlib.sha256(outcome.rows.read_bytes()).hexdigest() != self.expected[n]:
                raise WrongRows(f"{outcome.rows}: not the {n * PATHS:,} expected rows in input order")
            outcome.rows.unlink()
            seconds[n] = outcome.wall
            bench.progress(f"W5: {n:,} mini-batches in {outcome.wall:.2f} s")

        least, most = self.sizes[0], self.sizes[-1]
        figures = []
        for n in self.sizes:
            figures.append(Figure(f"{n:,}: whole command", seconds[n], "s"))
            figures.append(Figure(f"{n:,}: a mini-batch", seconds[n] / n * 1e6, "µs"))
        for fewer, more in zip(self.sizes, self.sizes[1:]):
            each = (seconds[more] - seconds[fewer]) / (more - fewer)
            figures.append(Figure(f"{fewer:,} to {more:,}: one mini-batch more", each * 1e6, "µs"))
        growth = (seconds[most] / most) / (seconds[least] / least)
        figures.append(Figure(f"cost of a mini-batch, {most:,} to {least:,}", growth, "x", "<= 1.2"))
        for program, peak in sorted(peaks.megabytes.items()):
            figures.append(Figure(f"{most:,}: peak memory of {program}", peak, "MB", "< 300"))
        return figures + asker.status_figures()


class Asker:
    """Asks for the status of a job while it runs, as a user would."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench, self.said = bench, folder / STDERR
        self.producer = str(bench.fleet.bin_dir / "prs")
        self.asked: list[float] = []
        self.refusal = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.wait(ASK):
            found = re.search(r"^job (\S+) is handed in", self.said.read_text(), re.MULTILINE)
            if found:
                seconds, refusal = self._time("status", found.group(1))
                if refusal:
                    self.refusal = refusal
                    return
                self.asked.append(seconds)

    def _time(self, *arguments: str) -> tuple[float, str]:
        """How long a command took, and why it failed."""
        start = time.perf_counter()
        environment = {**os.environ, **self.bench.fleet.environment}
        done = subprocess.run(
            [self.producer, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        seconds = time.perf_counter() - start
        return seconds, "" if done.returncode == 0 else done.stderr.strip() or "it failed"

    def status_figures(self) -> list[Figure]:
        if self.refusal:
            self.bench.progress(f"W5: status was not measured: {self.refusal}")
        if not self.asked or self.refusal:
            return []
        start = statistics.median(self._time("--version")[0] for _ in range(5))
        beyond = (statistics.median(self.asked) - start) * 1e3
        return [
            Figure(f"status meanwhile, beyond process start ({len(self.asked)} calls)", beyond, "ms", "< 50"),
            Figure("slowest of them, with process start", max(self.asked) * 1e3, "ms"),
        ]
