"""The entry script of W4: reads each file."""

import os
import zlib


def run(mini_batch):
    rows = []
    for path in mini_batch:
        with open(path, "rb") as file:
            rows.append(f"{os.path.basename(path)}: {zlib.crc32(file.read())}")
    return rows
