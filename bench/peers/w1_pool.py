"""W1 with multiprocessing.Pool. Usage: w1_pool.py COUNT CHUNKSIZE"""

import multiprocessing
import sys

from harness import PROCESSES, mini_batches, no_op, output, timed, write_rows

if __name__ == "__main__":
    count, chunksize = int(sys.argv[1]), int(sys.argv[2])
    with (
        timed(f"multiprocessing.Pool chunksize={chunksize}", "W1", count),
        multiprocessing.Pool(PROCESSES) as pool,
        open(output("rows.txt"), "w") as file,
    ):
        for rows in pool.imap_unordered(no_op, mini_batches(count), chunksize=chunksize):
            write_rows(file, rows)
