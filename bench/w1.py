"""W1: no-op mini-batches of 10 paths, so that the cost per mini-batch is all there is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from paths import PATHS, regardless_of_order, write_list
from work import Peer, Work, WrongRows, job_file


class ManyTinyMiniBatches(Work):
    name = "W1"
    unit = "mini-batches"
    tiny, full = 1_000, 200_000

    def __init__(self, size: str, folder: Path) -> None:
        self.n = {"tiny": self.tiny, "full": self.full}[size]
        self.title = f"{self.n:,} no-op mini-batches of {PATHS} paths, append_row"
        self.list_file = folder / f"{self.name.lower()}-{self.n}-paths.txt"
        self.expected_sha256 = ""
        self.peers = self.make_peers(size)

    def make_peers(self, size: str) -> list[Peer]:
        count = str(self.n)
        return [
            Peer("Pool chunksize=100", "w1_pool.py", (count, "100"), target=1.0),
            Peer("Pool chunksize=1", "w1_pool.py", (count, "1"), target=3.5),
            Peer("Ray actors", "w1_ray.py", (count,), needs="ray", target=30.0, once=True),
            Peer("Ray Data", "w1_ray_data.py", (count,), needs="ray", once=True),
            Peer("Dask", "w1_dask.py", (count,), needs="distributed", once=True),
        ]

    def prepare(self) -> None:
        self.expected_sha256 = write_list(self.list_file, self.n)

    def job(self) -> str:
        keys = f"{{name: paths, type: file, mode: direct, list: '{self.list_file}'}}"
        return job_file(f"bench-{self.name.lower()}", "no_op.py", str(PATHS), keys)

    def check(self, rows: Path) -> None:
        if hashlib.sha256(rows.read_bytes()).hexdigest() != self.expected_sha256:
            raise WrongRows(f"{rows}: not the {self.n * PATHS:,} expected rows in input order")

    def compare(self, rows: Path, peer_rows: Path) -> str:
        if regardless_of_order(rows) != regardless_of_order(peer_rows):
            raise WrongRows(f"{peer_rows}: not the rows of {rows} in another order")
        return "same rows"
