"""W6: what the end of a job takes beyond its last mini-batch, and the memory, with a gigabyte of rows."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

from contestant import Outcome
from fleet import OTHERS_AWAY, S3_AWAY
from paths import write_list
from processes import Peaks
from work import PROCESSES, Bench, Figure, Study, WrongRows, job_file

PATHS = 100  # in a mini-batch
FILLING = 970  # bytes that a row has beyond its path
SENTENCES = ("the job is finalizing", "the job is completed")


class TheEnd(Study):
    name = "W6"

    def __init__(self, size: str, folder: Path) -> None:
        self.n = {"tiny": 20, "full": 10_000}[size]
        self.title = (
            f"{self.n:,} mini-batches of {PATHS} rows of 1 KB: embedded, and on a fleet of one worker, "
            f"S3 {S3_AWAY} ms and the others {OTHERS_AWAY} ms away"
        )
        self.list_file = folder / f"w6-{self.n}-paths.txt"
        self.expected = ""

    def prepare(self) -> None:
        self.expected = write_list(self.list_file, self.n, PATHS, ": " + "x" * FILLING)

    def job(self, ends: Path) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        more = f"environment_variables: {{BENCH_ENDS: '{ends}', BENCH_FILLING: '{FILLING}'}}\n"
        return job_file("bench-w6", "long_rows.py", str(PATHS), keys, more=more)

    def measure(self, bench: Bench) -> list[Figure]:
        figures = self.measure_at(bench, "embedded", {})
        with bench.fleet.workers(1, PROCESSES, bench.fleet.far):
            figures += self.measure_at(bench, "fleet", bench.fleet.far)
        return figures

    def measure_at(self, bench: Bench, place: str, servers: dict[str, str]) -> list[Figure]:
        """Runs the job once and looks at its end."""
        folder = bench.scratch / place
        ends = folder / "ends"
        ends.mkdir(parents=True)
        with Peaks() as peaks:
            outcome = bench.run_prs(self.job(ends), folder, servers)
        if outcome.sha256 != self.expected:
            raise WrongRows(f"{outcome.rows}: not the {self.n * PATHS:,} expected rows in input order")
        size = outcome.rows.stat().st_size
        outcome.rows.unlink()
        bench.progress(f"W6: {place}, {size / 1e6:,.0f} MB of rows, {outcome.wall:.2f} s")
        finalizing, recorded = times(bench, outcome, folder, servers)
        last = max(file.stat().st_mtime for file in ends.iterdir())
        figures = [
            Figure(f"{place}: whole command", outcome.wall, "s"),
            Figure(f"{place}: from the last mini-batch's end to the record", recorded - last, "s", "<= 1"),
            Figure(f"{place}: from when all is committed to the record", recorded - finalizing, "s", "<= 1"),
        ]
        for program, peak in sorted(peaks.megabytes.items()):
            target = "< 200" if program.startswith("prs ") else ""
            figures.append(Figure(f"{place}: peak memory of {program}", peak, "MB", target))
        return figures


def times(bench: Bench, outcome: Outcome, folder: Path, servers: dict[str, str]) -> list[float]:
    """When the orchestrator said the sentences of `SENTENCES`, as time.time() has it."""
    command = [
        str(bench.fleet.bin_dir / "prs"),
        "logs",
        outcome.job_id,
        "--file",
        "sys/master_role.txt",
    ]
    if not servers:
        command[2] = str(folder / "run")
    said = subprocess.run(command, env=servers, capture_output=True, text=True, check=True, timeout=60).stdout
    lines = [line.split(" ", 1) for line in said.splitlines()]
    at = {text: datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() for time, text in lines}
    missing = [sentence for sentence in SENTENCES if sentence not in at]
    if missing:
        raise WrongRows(f"the log of the orchestrator does not have {missing}")
    return [at[sentence] for sentence in SENTENCES]
