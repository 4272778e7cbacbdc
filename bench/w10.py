"""W10: what distance costs: the same jobs beside the servers and milliseconds away from them, in turn."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable
from pathlib import Path

from contestant import Outcome
from fleet import OTHERS_AWAY, S3_AWAY
from paths import write_list
from w2 import ManyTinyMiniBatchesOnAFleet
from w4 import SmallObjects
from w7 import STARTS
from work import PROCESSES, Bench, Figure, Study, WrongRows, job_file

SECONDS = 0.05  # of a long mini-batch


class Distance(Study):
    name = "W10"
    title = f"W2, W4 and long mini-batches, one worker, S3 {S3_AWAY} ms and the others {OTHERS_AWAY} ms away"

    def __init__(self, size: str, folder: Path) -> None:
        self.rounds = {"tiny": 1, "full": 3}[size]
        self.tiny_ones = ManyTinyMiniBatchesOnAFleet(size, folder)
        self.small_objects = SmallObjects(size, folder)
        self.objects = self.small_objects.objects
        self.long = {"tiny": 20, "full": 2_000}[size]
        self.list_file = folder / f"w10-{self.long}-paths.txt"
        self.expected = ""

    def prepare(self) -> None:
        self.tiny_ones.prepare()
        self.small_objects.prepare()
        self.expected = write_list(self.list_file, self.long, paths=1, row_end="")

    def long_job(self, folder: Path) -> str:
        starts = folder / STARTS
        starts.mkdir()
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        more = f"environment_variables: {{BENCH_STARTS: '{starts}', BENCH_SECONDS: '{SECONDS}'}}\n"
        return job_file("bench-w10", "sleep.py", "1", keys, more=more)

    def check_long(self, rows: Path) -> None:
        if hashlib.sha256(rows.read_bytes()).hexdigest() != self.expected:
            raise WrongRows(f"{rows}: not the {self.long:,} expected rows in input order")

    def measure(self, bench: Bench) -> list[Figure]:
        tiny_ones, small_objects = self.tiny_ones, self.small_objects
        works = [
            (
                f"W2, {tiny_ones.n:,} mini-batches",
                lambda _: tiny_ones.job(),
                tiny_ones.check,
                self.rounds,
                ">= 0.8",
            ),
            (
                f"W4, {small_objects.n:,} objects",
                lambda _: small_objects.job(),
                small_objects.check,
                self.rounds,
                ">= 0.8",
            ),
            (
                f"{self.long:,} mini-batches of {SECONDS * 1e3:g} ms",
                self.long_job,
                self.check_long,
                1,
                ">= 0.95",
            ),
        ]
        figures = []
        for number, (name, job, check, rounds, target) in enumerate(works):
            folder = bench.scratch / str(number)
            folder.mkdir()
            near, far = self.in_turn(bench, name, folder, job, check, rounds)
            figures += [
                Figure(f"{name}: near", near, "s"),
                Figure(f"{name}: far", far, "s"),
                Figure(f"{name}: far is", near / far, "x", target),
            ]
        return figures

    def in_turn(
        self,
        bench: Bench,
        name: str,
        folder: Path,
        job: Callable[[Path], str],
        check: Callable[[Path], None],
        rounds: int,
    ) -> list[float]:
        """Seconds of the whole command near and far, medians."""
        seconds: list[list[float]] = [[], []]
        for number in range(rounds):
            for place, servers in enumerate((bench.fleet.environment, bench.fleet.far)):
                here = folder / f"{number}-{place}"
                here.mkdir()
                # What a worker keeps of a run is gone with it.
                with bench.fleet.workers(1, PROCESSES, servers):
                    outcome: Outcome = bench.run_prs(job(here), here, servers)
                check(outcome.rows)
                seconds[place].append(outcome.wall)
                bench.progress(f"W10: {name}, {('near', 'far')[place]}: {outcome.wall:.2f} s")
        return [statistics.median(one) for one in seconds]
