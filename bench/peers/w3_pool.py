"""W3 with multiprocessing.Pool and pandas, splits of 1 MiB at line ends. Usage: w3_pool.py FOLDER"""

import io
import multiprocessing
import os
import sys

import pandas as pd
from harness import PROCESSES, add_total, csv_files, megabytes, output, timed

SPLIT = 1 << 20


def splits(folder):
    """Yields (path, header, start, end); no field of these files holds a newline."""
    for path in csv_files(folder):
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            header = file.readline()
            start = file.tell()
            while start < size:
                file.seek(min(start + SPLIT, size))
                file.readline()
                end = file.tell()
                yield path, header, start, end
                start = end


def run(split):
    path, header, start, end = split
    with open(path, "rb") as file:
        file.seek(start)
        frame = pd.read_csv(io.BytesIO(header + file.read(end - start)))
    return add_total(frame).to_csv(sep=" ", header=False, index=False)


if __name__ == "__main__":
    folder = sys.argv[1]
    with (
        timed("multiprocessing.Pool + pandas", "W3", megabytes(csv_files(folder))),
        multiprocessing.Pool(PROCESSES) as pool,
        open(output("rows.txt"), "w") as file,
    ):
        for text in pool.imap_unordered(run, splits(folder)):
            file.write(text)
