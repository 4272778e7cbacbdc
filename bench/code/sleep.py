"""The entry script of W7: about 20 ms, and a line beforehand that tells when and where it started."""

import os
import time

starts = open(os.path.join(os.environ["BENCH_STARTS"], str(os.getpid())), "a", buffering=1)  # noqa: SIM115


def run(mini_batch):
    starts.write(f"{time.time()} {mini_batch[0]}\n")
    time.sleep(0.02)
    return mini_batch
