"""W3 with a Dask DataFrame on two processes. Usage: w3_dask.py FOLDER"""

import os
import sys

import dask.dataframe as dd
from dask.distributed import Client, LocalCluster
from harness import PROCESSES, add_total, csv_files, megabytes, output, timed

if __name__ == "__main__":
    folder = sys.argv[1]
    cluster = LocalCluster(n_workers=PROCESSES, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.submit(os.getpid).result()
        with timed("dask.dataframe", "W3", megabytes(csv_files(folder))):
            frames = dd.read_csv(csv_files(folder), blocksize=1 << 20)
            frames.map_partitions(add_total).to_csv(output("rows"), sep=" ", header=False, index=False)
