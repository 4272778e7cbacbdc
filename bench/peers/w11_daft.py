"""W11 with Daft's own expression; no Python function runs per row. Usage: w11_daft.py FOLDER"""

import os
import sys

import daft
from harness import megabytes, output, parquet_files, timed

if __name__ == "__main__":
    folder = sys.argv[1]
    with timed("daft expression", "W11", megabytes(parquet_files(folder))):
        frames = daft.read_parquet(os.path.join(folder, "*.parquet"))
        frames.with_column("total", daft.col("price") * daft.col("qty")).write_csv(output("rows"))
