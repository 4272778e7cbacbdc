"""W11 with multiprocessing.Pool and pandas, a row group at a time. Usage: w11_pool.py FOLDER"""

import multiprocessing
import sys

import pyarrow.parquet as pq
from harness import PROCESSES, add_total, megabytes, output, parquet_files, timed


def row_groups(folder):
    """Yields (path, number of the row group)."""
    for path in parquet_files(folder):
        for group in range(pq.read_metadata(path).num_row_groups):
            yield path, group


def run(row_group):
    path, group = row_group
    # One thread a process, as the processes are as many as the cores.
    frame = pq.ParquetFile(path).read_row_group(group, use_threads=False).to_pandas(use_threads=False)
    return add_total(frame).to_csv(sep=" ", header=False, index=False)


if __name__ == "__main__":
    folder = sys.argv[1]
    with (
        timed("multiprocessing.Pool + pandas", "W11", megabytes(parquet_files(folder))),
        multiprocessing.Pool(PROCESSES) as pool,
        open(output("rows.txt"), "w") as file,
    ):
        for text in pool.imap_unordered(run, row_groups(folder)):
            file.write(text)
