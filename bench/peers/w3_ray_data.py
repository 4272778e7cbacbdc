"""W3 with Ray Data, map_batches over DataFrames. Usage: w3_ray_data.py FOLDER"""

import sys

import ray
from harness import PROCESSES, add_total, csv_files, megabytes, output, timed

if __name__ == "__main__":
    folder = sys.argv[1]
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(10).materialize()

    with timed("ray.data map_batches(pandas)", "W3", megabytes(csv_files(folder))):
        frames = ray.data.read_csv(folder)
        frames.map_batches(add_total, batch_format="pandas", batch_size=10_000).write_csv(output("rows"))
