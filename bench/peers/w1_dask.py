"""W1 with dask.distributed, two processes of one thread. Usage: w1_dask.py COUNT"""

import sys

from dask.distributed import Client, LocalCluster, as_completed
from harness import PROCESSES, mini_batches, no_op, output, timed, write_rows

if __name__ == "__main__":
    count = int(sys.argv[1])
    cluster = LocalCluster(n_workers=PROCESSES, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.submit(no_op, []).result()
        with timed("dask.distributed", "W1", count), open(output("rows.txt"), "w") as file:
            futures = client.map(no_op, list(mini_batches(count)), pure=False, batch_size=1000)
            for _, rows in as_completed(futures, with_results=True):
                write_rows(file, rows)
