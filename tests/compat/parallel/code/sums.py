"""The sum of each file's lines, times a factor, with what the job file gives."""

import argparse
import os
import sys

from azureml_user.parallel_run import EntryScript


def init():
    global given
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--label", required=True)
    parser.add_argument("--factor", type=int, required=True)
    parser.add_argument("--exact", required=True)
    parser.add_argument("--note", required=True)
    parser.add_argument("--error_threshold", type=int, required=True)
    parser.add_argument("--allowed_failed_percent", type=float, required=True)
    parser.add_argument("--mini_batch_size", type=int, required=True)
    given, _ = parser.parse_known_args()
    assert EntryScript().logging_level == "DEBUG"
    flags = [word.split("=")[0] for word in sys.argv]
    assert flags.count("--error_threshold") == flags.count("--allowed_failed_percent") == 1, sys.argv
    assert "--resource_monitor_interva" in flags, sys.argv


def run(mini_batch):
    assert len(mini_batch) <= given.mini_batch_size == 3
    rows = []
    for path in mini_batch:
        with open(path) as file:
            total = sum(int(line) for line in file) * given.factor
        columns = [os.path.basename(path), total, given.label, given.exact, given.note]
        columns += [given.error_threshold, os.environ["ROUND"], os.environ["EXACT"]]
        rows.append(os.environ["SEPARATOR"].join(str(column) for column in columns))
    return rows
