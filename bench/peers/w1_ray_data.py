"""W1 with Ray Data, map_batches of 10 rows. Usage: w1_ray_data.py COUNT"""

import sys

import numpy as np
import ray
from harness import PROCESSES, mini_batches, no_op, output, timed


def run(batch):
    return {"row": np.array(no_op(batch["path"]), dtype=object)}


if __name__ == "__main__":
    count = int(sys.argv[1])
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.range(10).materialize()

    with timed("ray.data map_batches", "W1", count):
        paths = ray.data.from_items([{"path": path} for batch in mini_batches(count) for path in batch])
        paths.map_batches(run, batch_size=10).write_csv(output("rows"))
