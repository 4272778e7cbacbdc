"""W1: no-op mini-batches of 10 paths, so that the cost per mini-batch is all there is."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from work import Peer, Work, WrongRows, job_file

PATHS = 10


class ManyTinyMiniBatches(Work):
    name = "W1"
    unit = "mini-batches"

    def __init__(self, size: str, folder: Path) -> None:
        self.n = {"tiny": 1_000, "full": 200_000}[size]
        self.title = f"{self.n:,} no-op mini-batches of {PATHS} paths, append_row"
        self.list_file = folder / f"w1-{self.n}-paths.txt"
        self.expected_sha256 = ""
        count = str(self.n)
        self.peers = [
            Peer("Pool chunksize=100", "w1_pool.py", (count, "100"), target=1.0),
            Peer("Pool chunksize=1", "w1_pool.py", (count, "1"), target=3.5),
            Peer("Ray actors", "w1_ray.py", (count,), needs="ray", target=30.0, once=True),
            Peer("Ray Data", "w1_ray_data.py", (count,), needs="ray", once=True),
            Peer("Dask", "w1_dask.py", (count,), needs="distributed", once=True),
        ]

    def prepare(self) -> None:
        expected = hashlib.sha256()
        with open(self.list_file, "w", encoding="utf-8", newline="\n") as file:
            for i in range(self.n):
                paths = [f"/data/images/{i:07d}_{j}.png" for j in range(PATHS)]
                file.write("\n".join(paths) + "\n")
                expected.update("".join(path + ": ok\n" for path in paths).encode())
        self.expected_sha256 = expected.hexdigest()

    def job(self) -> str:
        keys = f"{{name: paths, type: file, list: '{self.list_file}'}}"
        return job_file("bench-w1", "no_op.py", str(PATHS), keys)

    def check(self, rows: Path) -> None:
        if hashlib.sha256(rows.read_bytes()).hexdigest() != self.expected_sha256:
            raise WrongRows(f"{rows}: not the {self.n * PATHS:,} expected rows in input order")

    def compare(self, rows: Path, peer_rows: Path) -> str:
        if regardless_of_order(rows) != regardless_of_order(peer_rows):
            raise WrongRows(f"{peer_rows}: not the rows of {rows} in another order")
        return "same rows"


def regardless_of_order(path: Path) -> tuple[int, int]:
    """The number of rows and a sum over them: equal for equal rows in any order."""
    count = total = 0
    with open(path, "rb") as file:
        for row in file:
            count += 1
            total += zlib.crc32(row) * len(row)
    return count, total
