"""W1 with two Ray actors and at most 1,000 calls in flight. Usage: w1_ray.py COUNT"""

import sys

import ray
from harness import PROCESSES, mini_batches, no_op, output, timed, write_rows

IN_FLIGHT = 1000


@ray.remote
class Actor:
    def run(self, mini_batch):
        return no_op(mini_batch)


if __name__ == "__main__":
    count = int(sys.argv[1])
    ray.init(num_cpus=PROCESSES, include_dashboard=False, log_to_driver=False)
    actors = [Actor.remote() for _ in range(PROCESSES)]
    ray.get([actor.run.remote([]) for actor in actors])

    with timed("ray actors", "W1", count), open(output("rows.txt"), "w") as file:
        pending = []
        for i, mini_batch in enumerate(mini_batches(count)):
            pending.append(actors[i % PROCESSES].run.remote(mini_batch))
            if len(pending) >= IN_FLIGHT:
                done, pending = ray.wait(pending, num_returns=IN_FLIGHT // 2)
                for rows in ray.get(done):
                    write_rows(file, rows)
        for rows in ray.get(pending):
            write_rows(file, rows)
