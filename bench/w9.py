"""W9: many workers of one process on one host: what they cost while idle, and whether all are kept busy."""

from __future__ import annotations

import contextlib
import hashlib
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import processes
from paths import write_list
from w7 import STARTS, started
from work import Bench, Figure, Study, WrongRows, job_file

SECONDS = 1.0  # of a mini-batch
AT_A_TIME = 5  # workers that start side by side
READY = "the worker is ready"
LONGEST_START = 60  # seconds
LOOK = 0.5  # seconds between two looks for the first mini-batches


class ManyWorkers(Study):
    name = "W9"

    def __init__(self, size: str, folder: Path) -> None:
        # Workers, seconds of idleness, mini-batches.
        self.count, self.idle, self.n = {"tiny": (3, 1, 12), "full": (100, 60, 8_000)}[size]
        self.title = (
            f"{self.count} workers of one process on one host, {self.n:,} mini-batches of {SECONDS:g} s"
        )
        self.list_file = folder / f"w9-{self.n}-paths.txt"
        self.expected = ""

    def prepare(self) -> None:
        self.expected = write_list(self.list_file, self.n, paths=1, row_end="")

    def job(self, starts: Path) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        more = (
            f"node_count: {self.count}\n"
            f"environment_variables: {{BENCH_STARTS: '{starts}', BENCH_SECONDS: '{SECONDS}'}}\n"
        )
        return job_file("bench-w9", "sleep.py", "1", keys, processes=1, more=more)

    def measure(self, bench: Bench) -> list[Figure]:
        starts = bench.scratch / STARTS
        starts.mkdir()
        with workers(bench, self.count) as pids:
            figures = self.measure_idle(bench, pids)
            submitted = time.time()
            with Sampler(bench, pids, starts, self.n) as sampler:
                outcome = bench.run_prs(self.job(starts), bench.scratch, bench.fleet.environment)
        if hashlib.sha256(outcome.rows.read_bytes()).hexdigest() != self.expected:
            raise WrongRows(f"{outcome.rows}: not the {self.n:,} expected rows in input order")
        bench.progress(f"W9: {self.n:,} mini-batches in {outcome.wall:.2f} s")
        return figures + self.throughput(starts, submitted, outcome.wall) + sampler.figures()

    def measure_idle(self, bench: Bench, pids: list[int]) -> list[Figure]:
        before, since = counts(bench, pids), time.monotonic()
        time.sleep(self.idle)
        figures = differences("idle", before, counts(bench, pids), time.monotonic() - since, len(pids))
        memory = [found for found in map(processes.memory, pids) if found]
        for kind, target in (("resident", "< 15"), ("own", ""), ("share", "")):
            most = max(found[kind] for found in memory)
            name = f"idle: memory of a worker, {kind}"
            figures.append(Figure(name, statistics.median(found[kind] for found in memory), "MB", target))
            figures.append(Figure(f"{name}, the most", most, "MB"))
        return figures

    def throughput(self, starts: Path, submitted: float, wall: float) -> list[Figure]:
        """From the moment when each process has started a mini-batch to the last one that started."""
        firsts, all_starts = [], []
        for paths in started(starts).values():
            if paths:
                firsts.append(min(paths.values()))
                all_starts += paths.values()
        begun, joined, last = min(all_starts), max(firsts), max(all_starts)
        figures = [
            Figure("processes that took part", len(firsts), "", f"{self.count}"),
            Figure("until the first mini-batch", begun - submitted, "s"),
            Figure("from then until all had one", joined - begun, "s"),
            Figure("from the last one's end to the command's", submitted + wall - last - SECONDS, "s"),
            Figure("whole command", wall, "s"),
        ]
        if last > joined:
            rate = sum(at > joined for at in all_starts) / (last - joined)
            share = rate * SECONDS / self.count * 100
            figures.append(Figure("from when all had one", rate, "mini-batches/s"))
            figures.append(Figure("of what the processes can do", share, "%", ">= 95"))
        return figures


class Sampler:
    """Counts what the workers ask of the servers while all of them work, until half of the rest is done."""

    def __init__(self, bench: Bench, pids: list[int], starts: Path, n: int) -> None:
        self.bench, self.pids, self.starts, self.n = bench, pids, starts, n
        self.found: list[Figure] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def figures(self) -> list[Figure]:
        if not self.found:
            self.bench.progress("W9: the job was over before its calls could be counted")
        return self.found

    def _begun(self) -> int | None:
        """How many mini-batches have begun; None before all processes have."""
        begun = [len(paths) for paths in started(self.starts).values()]
        return sum(begun) if sum(map(bool, begun)) == len(self.pids) else None

    def _sample(self) -> None:
        while (begun := self._begun()) is None:
            if self._over.wait(LOOK):
                return
        enough = begun + (self.n - begun) // 2
        before, since = counts(self.bench, self.pids), time.monotonic()
        while (self._begun() or 0) < enough:
            if self._over.wait(LOOK):
                return
        after, seconds = counts(self.bench, self.pids), time.monotonic() - since
        self.found = differences("working", before, after, seconds, len(self.pids))


def counts(bench: Bench, pids: list[int]) -> dict[str, float]:
    """What the workers have asked of the servers so far, and of the host."""
    scripts, commands = bench.fleet.redis_calls()
    connections = bench.fleet.broker_connections()
    return {
        "CPU time": sum(map(processes.cpu_seconds, pids)),
        "scripts of Redis": scripts,
        "commands of Redis": commands,
        "packets to the broker": sum(connections),
        "connections": len(connections),
    }


def differences(
    when: str, before: dict[str, float], after: dict[str, float], seconds: float, workers: int
) -> list[Figure]:
    """The same for each worker and second."""
    figures = []
    for name in ("CPU time", "scripts of Redis", "commands of Redis", "packets to the broker"):
        each = (after[name] - before[name]) / seconds / workers
        if name == "CPU time":
            target = "< 0.1" if when == "idle" else ""
            figures.append(Figure(f"{when}: {name} of a worker", each * 100, "% of a core", target))
        else:
            figures.append(Figure(f"{when}: {name}, a worker", each, "a second"))
    connections = Figure(f"{when}: connections to the broker, all workers", after["connections"], "")
    return [*figures, connections]


@contextlib.contextmanager
def workers(bench: Bench, count: int) -> Iterator[list[int]]:
    """So many workers, a few started at a time; their process ids."""
    with bench.fleet.workers(0, 1) as running:
        while len(running) < count:
            news = [bench.fleet.start_worker(1) for _ in range(min(AT_A_TIME, count - len(running)))]
            running += news
            deadline = time.monotonic() + LONGEST_START
            while not all(READY in bench.fleet.said(worker) for worker in news):
                if time.monotonic() > deadline or any(worker.poll() is not None for worker in news):
                    raise WrongRows(f"of {count} workers only {len(running) - len(news)} could be started")
                time.sleep(0.1)
        bench.progress(f"W9: {count} workers are ready")
        yield [worker.pid for worker in running]
