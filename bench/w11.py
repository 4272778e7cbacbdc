"""W11: Parquet in, a pandas column added, the DataFrame's rows out: W3's rows, and no text to parse."""

from __future__ import annotations

import shutil
from pathlib import Path

from w3 import AddAColumn, frames
from work import Peer, job_file

# Some MB when they are not compressed: a mini-batch.
ROWS_IN_A_GROUP = 100_000


class AddAColumnToParquet(AddAColumn):
    name = "W11"

    def __init__(self, size: str, folder: Path) -> None:
        self.files, self.rows_per_file, self.mini_batch_size = {
            "tiny": (2, 5_000, "64kb"),
            "full": (8, 1_050_000, "4mb"),
        }[size]
        self.rows_in_a_group = min(ROWS_IN_A_GROUP, self.rows_per_file // 3)
        self.n = 0.0
        self.title = ""
        self.folder = folder / f"w11-{self.files}x{self.rows_per_file}"
        place = str(self.folder)
        self.peers = [
            Peer("Pool + pandas", "w11_pool.py", (place,), target=3.0),
            Peer("Ray Data", "w11_ray_data.py", (place,), needs="ray"),
            Peer("Daft, no Python", "w11_daft.py", (place,), needs="daft", target=1.0),
        ]

    def prepare(self) -> None:
        if not self.folder.exists():
            unfinished = self.folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            for k, frame in enumerate(frames(self.files, self.rows_per_file)):
                path = unfinished / f"part-{k:03d}.parquet"
                frame.to_parquet(path, index=False, row_group_size=self.rows_in_a_group)
            unfinished.rename(self.folder)
        self.n = sum(path.stat().st_size for path in self.folder.glob("*.parquet")) / 1e6
        rows = self.files * self.rows_per_file
        self.title = f"{self.n:.1f} MB of Parquet, {rows:,} rows, pandas adds a column, append_row"

    def job(self) -> str:
        keys = f"{{name: rows, type: tabular, path: '{self.folder}', format: parquet}}"
        return job_file("bench-w11", "add_total.py", self.mini_batch_size, keys)
