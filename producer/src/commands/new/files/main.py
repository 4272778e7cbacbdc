"""Counts the words of text files.

prs starts several processes with this script. Each calls init() once, and then run() for one mini-batch after
another, until all inputs are done.
"""

from pathlib import Path


def init():
    """Runs once in each process, before any mini-batch: the place to load a model or open a connection."""
    global ignored
    ignored = {"a", "and", "of", "the"}


def run(mini_batch):
    """Gets a mini-batch, here a list of paths, and returns one element for each of them.

    The elements become the rows of the result, in the order of the inputs. Where run() raises, the mini-batch
    is tried again (run_max_try in job.yml); the others go on. What is printed is in the logs: prs logs JOB.
    """
    rows = []
    for path in mini_batch:
        words = [word for word in Path(path).read_text(encoding="utf-8").split() if word not in ignored]
        rows.append(f"{Path(path).name}: {len(words)} words")
    return rows
