"""W11 with Ray Data, map_batches over DataFrames. Usage: w11_ray_data.py FOLDER"""

import sys

import ray
from harness import PROCESSES, add_total, megabytes, output, parquet_files, timed

if __name__ == "__main__":
    folder = sys.argv[1]
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(10).materialize()

    with timed("ray.data map_batches(pandas)", "W11", megabytes(parquet_files(folder))):
        frames = ray.data.read_parquet(folder)
        frames.map_batches(add_total, batch_format="pandas", batch_size=10_000).write_csv(output("rows"))
