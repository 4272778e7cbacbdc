"""W4: many small objects from S3, each read by run(), so that fetching them weighs most."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

from fleet import BUCKET, PREFIX
from paths import regardless_of_order
from work import Peer, Work, WrongRows, job_file

SIZE = 10_240  # bytes
MINI_BATCH_SIZE = 10  # files


class SmallObjects(Work):
    name = "W4"
    unit = "objects"
    on_fleet = True

    def __init__(self, size: str, folder: Path) -> None:
        self.n = {"tiny": 50, "full": 5_000}[size]
        self.title = f"{self.n:,} objects of 10 KB from S3, {MINI_BATCH_SIZE} in a mini-batch, CRC of each"
        self.objects = folder / f"w4-{self.n}"
        self.peers = [Peer("boto3, 16 threads", "w4_boto3.py", (str(self.n),), needs="boto3", target=5.0)]

    def prepare(self) -> None:
        if not self.objects.exists():
            unfinished = self.objects.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            for i in range(self.n):
                (unfinished / f"{i:05d}.bin").write_bytes(os.urandom(SIZE))
            unfinished.rename(self.objects)

    def job(self) -> str:
        keys = f"{{name: objects, type: file, path: 's3://{BUCKET}/{PREFIX}'}}"
        return job_file("bench-w4", "crc.py", str(MINI_BATCH_SIZE), keys)

    def check(self, rows: Path) -> None:
        files = sorted(self.objects.iterdir())
        expected = [f"{file.name}: {zlib.crc32(file.read_bytes())}" for file in files]
        if rows.read_text(encoding="utf-8").splitlines() != expected:
            raise WrongRows(f"{rows}: not the checksums of the {self.n:,} objects in input order")

    def compare(self, rows: Path, peer_rows: Path) -> str:
        if regardless_of_order(rows) != regardless_of_order(peer_rows):
            raise WrongRows(f"{peer_rows}: not the rows of {rows}")
        return "same rows"
