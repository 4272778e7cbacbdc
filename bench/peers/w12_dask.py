"""W12 with a Dask DataFrame on two processes. Usage: w12_dask.py FOLDER"""

import os
import sys

import dask.dataframe as dd
from dask.distributed import Client, LocalCluster
from harness import PROCESSES, csv_files, megabytes, of_group, output, timed, write_rows

if __name__ == "__main__":
    folder = sys.argv[1]
    cluster = LocalCluster(n_workers=PROCESSES, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.submit(os.getpid).result()
        with timed("dask.dataframe groupby.apply", "W12", megabytes(csv_files(folder))):
            frames = dd.read_csv(csv_files(folder), blocksize=32 << 20)
            rows = frames.groupby("key").apply(of_group, meta=("row", "object")).compute()
            place = output("rows.txt")
            with open(place, "w", encoding="utf-8") as file:
                write_rows(file, rows)
