"""W12 with Daft: a Python function for each group. Usage: w12_daft.py FOLDER"""

import os
import sys

import daft
import pandas
from harness import csv_files, megabytes, of_group, output, timed, write_rows


@daft.udf(return_dtype=daft.DataType.string())
def row_of(key, price, qty):
    columns = {"key": key.to_pylist(), "price": price.to_pylist(), "qty": qty.to_pylist()}
    return [of_group(pandas.DataFrame(columns))]


if __name__ == "__main__":
    folder = sys.argv[1]
    with timed("daft map_groups", "W12", megabytes(csv_files(folder))):
        frames = daft.read_csv(os.path.join(folder, "*.csv"))
        groups = frames.groupby("key").map_groups(
            row_of(daft.col("key"), daft.col("price"), daft.col("qty")).alias("row")
        )
        rows = groups.to_pydict()["row"]
        with open(output("rows.txt"), "w", encoding="utf-8") as file:
            write_rows(file, rows)
