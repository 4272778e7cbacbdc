"""The number of lines of each file; one of them fails its mini-batch."""

import argparse
import os


def init():
    global given
    parser = argparse.ArgumentParser()
    parser.add_argument("--bad", required=True)
    parser.add_argument("--error_threshold", type=int, required=True)
    parser.add_argument("--allowed_failed_count", type=int, required=True)
    parser.add_argument("--metrics_name_prefix", required=True)
    given, _ = parser.parse_known_args()


def run(mini_batch):
    rows = []
    for path in mini_batch:
        name = os.path.basename(path)
        if name == given.bad:
            raise ValueError(f"{name} is bad")
        with open(path) as file:
            lines = len(file.readlines())
        rows.append(
            f"{name} {lines} {given.error_threshold} {given.allowed_failed_count} {given.metrics_name_prefix}"
        )
    return rows
