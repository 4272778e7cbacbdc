"""What the peers share: the inputs of each work, where rows go, and the line that reports a time.

A peer is a program of its own: it does one work, writes its rows below $TMPDIR, and prints one JSON line
`{"peer", "work", "n", "seconds", "per_second"}`. It times the work alone, after its imports and the start of
its cluster; a pool of processes starts within the time, because starting one is part of using it.
"""

import contextlib
import glob
import json
import os
import sys
import tempfile
import time

PROCESSES = 2


def mini_batches(count):
    """The mini-batches of W1: 10 paths each, made when they are asked for."""
    return ([f"/data/images/{i:07d}_{j}.png" for j in range(10)] for i in range(count))


def no_op(mini_batch):
    """What an entry script of W1 does."""
    return [path + ": ok" for path in mini_batch]


def add_total(frame):
    """What an entry script of W3 and W11 does."""
    frame["total"] = frame["price"] * frame["qty"]
    return frame


def of_group(frame):
    """What an entry script of W12 makes of a group."""
    worth = int((frame["price"] * frame["qty"]).sum())
    # pandas may keep the key from the function, and name the group by it.
    key = frame["key"].iloc[0] if "key" in frame else frame.name
    return f"{key} {len(frame)} {worth}"


def csv_files(folder):
    """The files of W3 and W12."""
    return files(folder, ".csv")


def parquet_files(folder):
    """The files of W11."""
    return files(folder, ".parquet")


def files(folder, end):
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*" + end)))


def megabytes(paths):
    return sum(map(os.path.getsize, paths)) / 1e6


def output(name):
    """A place for rows, in a fresh folder below $TMPDIR."""
    return os.path.join(tempfile.mkdtemp(prefix="peer-"), name)


def write_rows(file, rows):
    file.writelines(row + "\n" for row in rows)


@contextlib.contextmanager
def timed(peer, work, n):
    """Times the block; prints the line when the block succeeded."""
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    line = {
        "peer": peer,
        "work": work,
        "n": n,
        "seconds": round(seconds, 3),
        "per_second": round(n / seconds, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
