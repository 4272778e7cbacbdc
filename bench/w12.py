"""W12: rows of CSV put together by a column of the data, and a Python function for each group: a shuffle."""

from __future__ import annotations

import shutil
from pathlib import Path

from work import Peer, Work, WrongRows, job_file

# The group with this key has a tenth of the rows.
LARGEST = 7


class Shuffle(Work):
    name = "W12"
    unit = "MB"

    def __init__(self, size: str, folder: Path) -> None:
        self.files, self.rows_per_file, self.groups = {
            "tiny": (2, 20_000, 100),
            "full": (16, 1_000_000, 10_000),
        }[size]
        self.n = 0.0
        self.title = ""
        self.folder = folder / f"w12-{self.files}x{self.rows_per_file}"
        place = str(self.folder)
        self.peers = [
            Peer("Dask", "w12_dask.py", (place,), needs="distributed", target=1.0, once=True),
            Peer("Daft", "w12_daft.py", (place,), needs="daft", target=1.0),
        ]

    def prepare(self) -> None:
        if not self.folder.exists():
            unfinished = self.folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            write_files(unfinished, self.files, self.rows_per_file, self.groups)
            unfinished.rename(self.folder)
        self.n = sum(path.stat().st_size for path in self.folder.glob("*.csv")) / 1e6
        rows = self.files * self.rows_per_file
        self.title = f"{self.n:.1f} MB of CSV, {rows:,} rows in {self.groups:,} groups, run() for each"

    def job(self) -> str:
        keys = f"{{name: rows, type: tabular, path: '{self.folder}', format: delimited, header: true}}"
        job = job_file("bench-w12", "of_group.py", "1mb", keys, more="partition_keys: [key]\n")
        # Fewer rows come back than go in.
        return job.replace("mini_batch_size: 1mb\n", "").replace("error_threshold: 0", "error_threshold: -1")

    def check(self, rows: Path) -> None:
        groups = read(rows)
        if len(groups) != self.groups:
            raise WrongRows(f"{rows}: {len(groups):,} groups instead of {self.groups:,}")
        found = sum(int(row.split(" ")[1]) for row in groups)
        if found != self.files * self.rows_per_file:
            raise WrongRows(f"{rows}: groups of {found:,} rows in all")

    def compare(self, rows: Path, peer_rows: Path) -> str:
        if sorted(read(rows)) != sorted(read(peer_rows)):
            raise WrongRows(f"{peer_rows}: other groups than in {rows}")
        return "same groups"


def read(rows: Path) -> list[str]:
    return rows.read_text(encoding="utf-8").splitlines()


def write_files(folder: Path, files: int, rows: int, groups: int) -> None:
    """Keys at random, one of them in a tenth of the rows, and text beside the numbers."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    for k in range(files):
        keys = random.integers(0, groups, rows)
        keys[random.random(rows) < 0.1] = LARGEST
        if k == 0:
            keys[:groups] = np.arange(groups)
        frame = pd.DataFrame(
            {
                "id": np.arange(k * rows, (k + 1) * rows),
                "key": keys,
                "brand": random.choice(["dominicks", "minute.maid", "tropicana"], rows),
                "price": random.integers(1, 10_000, rows),
                "qty": random.integers(0, 1_000, rows),
                "x": random.normal(size=rows).round(6),
                "note": random.choice(["plain", "with space", "comma, inside", 'quote "q" here'], rows),
            }
        )
        frame.to_csv(folder / f"part-{k:03d}.csv", index=False)
