"""W3: CSV in, a pandas column added, the DataFrame's rows out, so that parsing and formatting weigh most."""

from __future__ import annotations

import csv
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from work import Peer, Work, WrongRows, job_file

if TYPE_CHECKING:
    import pandas

# Two parsers may differ in the last digit of a float, and so in that of what is computed
# from it (the default parser of pandas does not always round correctly); nothing else may differ.
LAST_DIGITS = 1e-14


class AddAColumn(Work):
    name = "W3"
    unit = "MB"

    def __init__(self, size: str, folder: Path) -> None:
        self.files, self.rows_per_file, self.mini_batch_size = {
            "tiny": (2, 5_000, "64kb"),
            "full": (8, 400_000, "1mb"),
        }[size]
        self.n = 0.0
        self.title = ""
        self.folder = folder / f"w3-{self.files}x{self.rows_per_file}"
        place = str(self.folder)
        self.peers = [
            Peer("Pool + pandas", "w3_pool.py", (place,), target=3.0),
            Peer("Ray Data", "w3_ray_data.py", (place,), needs="ray", target=2.4),
            Peer("Dask", "w3_dask.py", (place,), needs="distributed", once=True),
            Peer("Daft, no Python", "w3_daft.py", (place,), needs="daft", target=1.4),
        ]

    def prepare(self) -> None:
        if not self.folder.exists():
            unfinished = self.folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            for k, frame in enumerate(frames(self.files, self.rows_per_file)):
                frame.to_csv(unfinished / f"part-{k:03d}.csv", index=False)
            unfinished.rename(self.folder)
        self.n = sum(path.stat().st_size for path in self.folder.glob("*.csv")) / 1e6
        rows = self.files * self.rows_per_file
        self.title = f"{self.n:.1f} MB of CSV, {rows:,} rows, pandas adds a column, append_row"

    def job(self) -> str:
        keys = f"{{name: rows, type: tabular, path: '{self.folder}', format: delimited, header: true}}"
        return job_file("bench-w3", "add_total.py", self.mini_batch_size, keys)

    def check(self, rows: Path) -> None:
        number = 0
        with open(rows, encoding="utf-8") as file:
            for number, row in enumerate(file, 1):
                if not row.startswith(f"{number - 1} "):
                    raise WrongRows(
                        f"{rows}:{number}: not the row with id {number - 1}, as the input order wants"
                    )
        if number != self.files * self.rows_per_file:
            raise WrongRows(f"{rows}: {number:,} rows instead of {self.files * self.rows_per_file:,}")

    def compare(self, rows: Path, peer_rows: Path) -> str:
        with open(peer_rows, encoding="utf-8") as file:
            sorted_rows = sorted(file, key=lambda row: int(row.split(" ", 1)[0]))
        if len(sorted_rows) != self.files * self.rows_per_file:
            raise WrongRows(f"{peer_rows}: {len(sorted_rows):,} rows")
        differing = 0
        with open(rows, encoding="utf-8") as file:
            for ours, theirs in zip(file, sorted_rows):
                if ours != theirs:
                    if not same_but_for_last_digits(ours, theirs):
                        raise WrongRows(f"prs: {ours!r}, {peer_rows}: {theirs!r}")
                    differing += 1
        if differing:
            return f"same rows, {differing:,} of {len(sorted_rows):,} with another last digit of a float"
        return "same rows"


def same_but_for_last_digits(left: str, right: str) -> bool:
    left_fields, right_fields = csv.reader([left, right], delimiter=" ")
    if len(left_fields) != len(right_fields):
        return False
    return all(same_field(a, b) for a, b in zip(left_fields, right_fields))


def same_field(a: str, b: str) -> bool:
    if a == b:
        return True
    try:
        return math.isclose(float(a), float(b), rel_tol=LAST_DIGITS)
    except ValueError:
        return False


def frames(files: int, rows: int) -> Iterator[pandas.DataFrame]:
    """Whole numbers, floats of few and of many digits, plain strings and strings that must be quoted."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(0)
    for k in range(files):
        yield pd.DataFrame(
            {
                "id": np.arange(k * rows, (k + 1) * rows),
                "date": "2020-01-01",
                "store": random.integers(1, 100, rows),
                "brand": random.choice(["dominicks", "minute.maid", "tropicana"], rows),
                "price": random.random(rows).round(4),
                "qty": random.integers(0, 100_000, rows),
                "x": random.normal(size=rows),
                "y": random.normal(size=rows),
                "note": random.choice(["plain", "with space", "comma, inside", 'quote "q" here'], rows),
            }
        )
