"""W7: what it costs to lose a worker every few seconds, and how soon its work is taken up."""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import processes
from paths import write_list
from work import Bench, Figure, Study, WrongRows, job_file

WORKERS = 4
STARTS = "starts"
LOOK = 0.05  # seconds between two looks for the first mini-batch


@dataclass(frozen=True)
class Kill:
    """A worker that was killed."""

    at: float  # as time.time() has it
    processes: list[int]


class LosingWorkers(Study):
    name = "W7"

    def __init__(self, size: str, folder: Path) -> None:
        # Seconds between two kills, the most kills, and mini-batches: 200 a second at most.
        self.every, self.most, self.n = {"tiny": (0.5, 2, 200), "full": (5.0, 1_000, 12_000)}[size]
        self.title = (
            f"{self.n:,} mini-batches of 20 ms, {WORKERS} workers of one process, "
            f"kill -9 of one every {self.every:g} s"
        )
        self.list_file = folder / f"w7-{self.n}-paths.txt"
        self.expected = ""

    def prepare(self) -> None:
        self.expected = write_list(self.list_file, self.n, paths=1, row_end="")

    def job(self, starts: Path) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        more = (
            f"node_count: {WORKERS}\n"
            f"environment_variables: {{BENCH_STARTS: '{starts}', BENCH_SECONDS: '0.02'}}\n"
        )
        return job_file("bench-w7", "sleep.py", "1", keys, processes=1, more=more)

    def run(self, bench: Bench, starts: Path) -> tuple[float, float]:
        """Runs the job and checks its rows.

        Returns the seconds from its first mini-batch to its last one, and those of the whole command.
        """
        outcome = bench.run_prs(self.job(starts), starts.parent, bench.fleet.environment)
        if hashlib.sha256(outcome.rows.read_bytes()).hexdigest() != self.expected:
            raise WrongRows(f"{outcome.rows}: not the {self.n:,} expected rows in input order")
        at = [at for paths in started(starts).values() for at in paths.values()]
        return max(at) - min(at), outcome.wall

    def measure(self, bench: Bench) -> list[Figure]:
        quiet_starts, starts = (bench.scratch / name / STARTS for name in ("quiet", "kills"))
        quiet_starts.mkdir(parents=True)
        starts.mkdir(parents=True)
        with bench.fleet.workers(WORKERS, 1):
            quiet, quiet_wall = self.run(bench, quiet_starts)
        bench.progress(f"W7: quiet {quiet_wall:.2f} s")
        with bench.fleet.workers(WORKERS, 1) as workers, self.killing(bench, workers, starts) as kills:
            disturbed, disturbed_wall = self.run(bench, starts)
        bench.progress(f"W7: {len(kills)} workers killed, {disturbed_wall:.2f} s")
        if not kills:
            raise WrongRows("no worker was killed: the job was over before")
        delays = taken_up(starts, kills)
        if not delays:
            raise WrongRows("nothing that a killed worker had started was started again: nothing was lost")

        median = statistics.median(delays)
        figures = [
            Figure("quiet", self.n / quiet, "mini-batches/s"),
            Figure(f"{len(kills)} workers lost", self.n / disturbed, "mini-batches/s"),
            Figure("throughput that is left", quiet / disturbed, "x", ">= 0.85"),
            Figure("quiet: whole command", quiet_wall, "s"),
            Figure(f"{len(kills)} workers lost: whole command", disturbed_wall, "s"),
            Figure(f"lost work starts again, median of {len(delays)} kills", median, "s", "<= 1"),
            Figure("the same, longest", max(delays), "s"),
        ]
        return figures

    @contextlib.contextmanager
    def killing(self, bench: Bench, workers: list[subprocess.Popen], starts: Path) -> Iterator[list[Kill]]:
        """Kills one worker after the other, in turn, and starts another one in its place at once.

        Only such as have run something, from the first mini-batch on and while there is work left: before, a
        worker has nothing to lose, and after, one of them ends the job, which may take some seconds.
        """
        kills: list[Kill] = []
        over = threading.Event()

        def kill() -> None:
            while not any(started(starts).values()):
                if over.wait(LOOK):
                    return
            while len(kills) < self.most and not over.wait(self.every):
                begun = {pid: paths for pid, paths in started(starts).items() if paths}
                if len(set().union(*begun.values())) >= self.n:
                    return
                victim = next((one for one in workers if begun.keys() & processes.children(one.pid)), None)
                if victim is None:
                    continue
                workers.remove(victim)
                kills.append(Kill(time.time(), processes.children(victim.pid)))
                victim.kill()
                victim.wait()
                workers.append(bench.fleet.start_worker(1))

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield kills
        finally:
            over.set()
            thread.join()


def started(starts: Path) -> dict[int, dict[str, float]]:
    """When each process started which mini-batch."""
    found = {}
    for file in starts.iterdir():
        # The last line may not be whole yet.
        lines = (line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n"))
        found[int(file.name)] = {path: float(at) for at, path in lines}
    return found


def taken_up(starts: Path, kills: list[Kill]) -> list[float]:
    """For each kill, how long after it the first mini-batch started again that the worker had started."""
    by_process = started(starts)
    delays = []
    for kill in kills:
        lost = {path for pid in kill.processes for path in by_process.get(pid, ())}
        again = [
            at - kill.at
            for pid, paths in by_process.items()
            if pid not in kill.processes
            for path, at in paths.items()
            if path in lost and at > kill.at
        ]
        if again:
            delays.append(min(again))
    return delays
