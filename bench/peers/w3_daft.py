"""W3 with Daft's own expression; no Python function runs per row. Usage: w3_daft.py FOLDER"""

import os
import sys

import daft
from harness import csv_files, megabytes, output, timed

if __name__ == "__main__":
    folder = sys.argv[1]
    with timed("daft expression", "W3", megabytes(csv_files(folder))):
        frames = daft.read_csv(os.path.join(folder, "*.csv"))
        frames.with_column("total", daft.col("price") * daft.col("qty")).write_csv(output("rows"))
