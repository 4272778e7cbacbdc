"""Measures prs against its peers, side by side in one run, and prints the ratios.

    bench/run.py W1 W3 [--size tiny|full] [--repeat N]

Works on a fleet get RabbitMQ, Redis and an S3 server that are started once for all of them, and a worker of
their own. Studies (W5 to W10) compare prs with itself and run once.

Every round runs each contestant once, one after the other, so that whatever else the machine does falls on
all of them; the figures are medians over the rounds. Rows are checked in the first round, and prs's are
compared with those of every peer that writes the same form; wrong rows fail the run. A peer that does not run
is a line with the reason. Nothing fails for being slow. The table goes to stderr, the same figures as one
JSON object to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from contestant import Failed, Outcome, can_import, run_peer, run_prs
from fleet import Fleet
from w1 import ManyTinyMiniBatches
from w2 import ManyTinyMiniBatchesOnAFleet
from w3 import AddAColumn
from w4 import SmallObjects
from w5 import Scale
from w6 import TheEnd
from w7 import LosingWorkers
from w8 import AServer
from w9 import ManyWorkers
from w10 import Distance
from w11 import AddAColumnToParquet
from w12 import Shuffle
from work import PROCESSES, Bench, Figure, Peer, Study, Work, WrongRows

HERE = Path(__file__).resolve().parent
WORKS = {
    work.name: work
    for work in (
        ManyTinyMiniBatches,
        ManyTinyMiniBatchesOnAFleet,
        AddAColumn,
        SmallObjects,
        Scale,
        TheEnd,
        LosingWorkers,
        AServer,
        ManyWorkers,
        Distance,
        AddAColumnToParquet,
        Shuffle,
    )
}


@dataclass
class Measured:
    """All rounds of one contestant."""

    name: str
    peer: Peer | None = None
    seconds: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    note: str = ""
    # Why it has no figures.
    failed: str = ""

    def add(self, outcome: Outcome) -> None:
        self.seconds.append(outcome.seconds)
        self.wall.append(outcome.wall)


def measure(work: Work, settings: argparse.Namespace, fleet: Fleet | None) -> tuple[Measured, list[Measured]]:
    """Runs the rounds of one work."""
    prs_servers, peer_servers = (fleet.environment, fleet.peer_environment) if fleet else ({}, {})
    prs = Measured("prs")
    peers = []
    for peer in work.peers:
        measured = Measured(peer.name, peer)
        if not (settings.peers / peer.script).exists():
            measured.failed = f"{settings.peers} has no {peer.script}"
        elif peer.needs and not can_import(settings.peer_python, peer.needs):
            measured.failed = f"{settings.peer_python} has no module {peer.needs}"
        if measured.failed:
            progress(f"{work.name}: {peer.name} left out, {measured.failed}")
        peers.append(measured)

    first_sha256 = ""
    for number in range(settings.repeat):
        # Left behind when something fails, so that one can look.
        scratch = Path(tempfile.mkdtemp(prefix="round-", dir=settings.work_dir))
        outcome = run_prs(work.job(), settings.bin_dir, fresh(scratch / "prs"), prs_servers)
        prs.add(outcome)
        progress(f"{work.name} round {number + 1}: prs {outcome.wall:.2f} s")
        if number == 0:
            work.check(outcome.rows)
            first_sha256 = outcome.sha256
        elif outcome.sha256 != first_sha256:
            raise WrongRows(f"{outcome.rows}: other bytes than in round 1")

        for measured in peers:
            if measured.failed or (number > 0 and measured.peer.once):
                continue
            folder = fresh(scratch / "peer")
            try:
                theirs = run_peer(measured.peer, settings.peers, settings.peer_python, folder, peer_servers)
            except Failed as error:
                # The others are measured all the same.
                measured.failed = error.reason
                progress(f"{work.name}: {measured.name} does not run: {error}")
                shutil.rmtree(folder, ignore_errors=True)
                continue
            measured.add(theirs)
            progress(f"{work.name} round {number + 1}: {measured.name} {theirs.seconds:.2f} s")
            if number == 0:
                measured.note = (
                    work.compare(outcome.rows, theirs.rows) if theirs.rows else "rows not compared"
                )
            shutil.rmtree(folder)
        shutil.rmtree(scratch)
    return prs, peers


def figures(work: Work, prs: Measured, peers: list[Measured]) -> dict:
    """The medians and ratios of one work; a ratio above 1 means that prs is faster."""
    wall, seconds = statistics.median(prs.wall), statistics.median(prs.seconds)
    rows = []
    for measured in peers:
        if measured.failed:
            rows.append({"peer": measured.name, "failed": measured.failed})
            continue
        theirs = statistics.median(measured.seconds)
        n = measured.peer.n or work.n
        # Their time for all of the work.
        scaled = theirs * work.n / n
        rows.append(
            {
                "peer": measured.name,
                "n": round(n, 1),
                "seconds": round(theirs, 3),
                "per_second": round(n / theirs, 1),
                "ratio": round(scaled / wall, 2),
                "ratio_own_clock": round(scaled / seconds, 2),
                "target": measured.peer.target,
                "rounds": [round(value, 3) for value in measured.seconds],
                "note": measured.note,
            }
        )
    return {
        "work": work.name,
        "title": work.title,
        "n": round(work.n, 1),
        "unit": work.unit,
        "prs": {
            "wall_seconds": round(wall, 3),
            "seconds": round(seconds, 3),
            "per_second": round(work.n / wall, 1),
            "rounds": [round(value, 3) for value in prs.wall],
        },
        "peers": rows,
    }


def table(result: dict) -> str:
    """The figures of one work, for a person."""
    prs = result["prs"]
    lines = [
        f"{result['work']}  {result['title']}",
        f"  {'':24}{'seconds':>9}{result['unit'] + '/s':>16}{'prs is':>9}{'target':>9}",
        f"  {'prs, whole command':24}{prs['wall_seconds']:>9.2f}{prs['per_second']:>16,.1f}",
        f"  {'prs, its own clock':24}{prs['seconds']:>9.2f}{result['n'] / prs['seconds']:>16,.1f}",
    ]
    for row in result["peers"]:
        if "failed" in row:
            lines.append(f"  {row['peer']:24}  did not run: {row['failed']}")
            continue
        target = "" if row["target"] is None else f"{row['target']}x"
        lines.append(
            f"  {row['peer']:24}{row['seconds']:>9.2f}{row['per_second']:>16,.1f}"
            f"{str(row['ratio']) + 'x':>9}{target:>9}  {row['note']}"
        )
    return "\n".join(lines)


def study(work: Study, settings: argparse.Namespace, fleet: Fleet) -> dict:
    """Runs a study and returns what it found."""
    scratch = Path(tempfile.mkdtemp(prefix="study-", dir=settings.work_dir))

    def run(job: str, folder: Path, servers: dict[str, str]) -> Outcome:
        return run_prs(job, settings.bin_dir, folder, servers)

    found = work.measure(Bench(fleet, scratch, run, progress))
    shutil.rmtree(scratch)
    return {"work": work.name, "title": work.title, "figures": [vars(figure) for figure in found]}


def study_table(result: dict) -> str:
    """What a study found, for a person."""
    lines = [f"{result['work']}  {result['title']}"]
    for figure in (Figure(**fields) for fields in result["figures"]):
        target = f"   (aim: {figure.target})" if figure.target else ""
        lines.append(f"  {figure.name:60}{figure.value:>12,.2f} {figure.unit}{target}")
    return "\n".join(lines)


def measure_all(works: list[Work | Study], settings: argparse.Namespace) -> list[dict]:
    """The figures of all works, one after the other."""
    for work in works:
        progress(f"{work.name}: preparing the inputs")
        work.prepare()
    results = []
    with contextlib.ExitStack() as stack:
        fleet = None
        if any(work.on_fleet for work in works):
            progress("starting RabbitMQ, Redis and an S3 server")
            objects = next((work.objects for work in works if work.objects), None)
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=settings.work_dir)))
            fleet = stack.enter_context(contextlib.closing(Fleet(settings.bin_dir, scratch, objects)))
        for work in works:
            if isinstance(work, Study):
                results.append(study(work, settings, fleet))
            elif work.on_fleet:
                with fleet.workers(1, PROCESSES):
                    results.append(figures(work, *measure(work, settings, fleet)))
            else:
                results.append(figures(work, *measure(work, settings, None)))
    return results


def machine() -> dict:
    """What the figures were taken on."""
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    root = HERE.parent
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="+", choices=sorted(WORKS), help="what to measure")
    parser.add_argument(
        "--size", choices=["tiny", "full"], default="full", help="tiny checks rows only [full]"
    )
    parser.add_argument("--repeat", type=int, default=3, help="rounds [3]")
    parser.add_argument("--bin-dir", type=Path, default=root / "target/release", help="folder of prs")
    parser.add_argument(
        "--work-dir", type=Path, default=root / "target/bench", help="inputs and scratch files"
    )
    parser.add_argument("--peers", type=Path, default=HERE / "peers", help="folder of the peers' scripts")
    parser.add_argument(
        "--peer-python", type=Path, default=Path(sys.executable), help="interpreter of the peers"
    )
    settings = parser.parse_args()
    if settings.repeat < 1:
        parser.error("--repeat must be at least 1")
    # Not resolved: the interpreter of a virtual environment is a link, and knows itself by the link's place.
    for name in ("bin_dir", "work_dir", "peers", "peer_python"):
        setattr(settings, name, getattr(settings, name).absolute())
    if not (settings.bin_dir / "prs").exists():
        parser.error(f"no prs in {settings.bin_dir}: build it (make build) or name its folder with --bin-dir")
    return settings


def main() -> int:
    settings = arguments()
    settings.work_dir.mkdir(parents=True, exist_ok=True)
    works = [WORKS[name](settings.size, settings.work_dir) for name in settings.works]
    try:
        results = measure_all(works, settings)
    except (Failed, WrongRows) as error:
        print(error, file=sys.stderr)
        return 1
    for result in results:
        print("\n" + (study_table if "figures" in result else table)(result), file=sys.stderr)
    print(json.dumps({"size": settings.size, "machine": machine(), "results": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
