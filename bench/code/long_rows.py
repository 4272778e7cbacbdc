"""The entry script of W6: a long row for each path, and a file that tells by its time when it last ended."""

import os

ended = os.path.join(os.environ["BENCH_ENDS"], str(os.getpid()))
open(ended, "w").close()
FILLING = ": " + "x" * int(os.environ["BENCH_FILLING"])


def run(mini_batch):
    rows = [path + FILLING for path in mini_batch]
    os.utime(ended)
    return rows
