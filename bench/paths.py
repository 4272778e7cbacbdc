"""Lists of paths that need not exist, and the rows that entry scripts make of them."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from pathlib import Path

# In a mini-batch of a work that does nothing.
PATHS = 10


def write_list(file: Path, mini_batches: int, paths: int = PATHS, row_end: str = ": ok") -> str:
    """Writes the list file of so many mini-batches; returns the SHA-256 of the rows in input order."""
    expected = hashlib.sha256()
    with open(file, "w", encoding="utf-8", newline="\n") as out:
        for i in range(mini_batches):
            names = [f"/data/images/{i:07d}_{j}.png" for j in range(paths)]
            out.write("\n".join(names) + "\n")
            expected.update("".join(f"{name}{row_end}\n" for name in names).encode())
    return expected.hexdigest()


def sha256_of(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def regardless_of_order(path: Path, first: int | None = None) -> tuple[int, int]:
    """The number of rows and a sum over them, or the first of them: equal for equal rows in any order."""
    count = total = 0
    with open(path, "rb") as file:
        for row in itertools.islice(file, first):
            count += 1
            total += zlib.crc32(row) * len(row)
    return count, total
