"""Adds a column to tables.

prs starts several processes with this script. Each calls init() once, and then run() for one mini-batch after
another, until all inputs are done.
"""


def init():
    """Runs once in each process, before any mini-batch: the place to load a model or open a connection."""
    global rates
    rates = {"EUR": 1.0, "USD": 0.92, "GBP": 1.17}


def run(mini_batch):
    """Gets a mini-batch, here a pandas.DataFrame with rows of one file, and returns one row for each of them.

    The rows go to the result in the order of the inputs. Where run() raises, the mini-batch is tried again
    (run_max_try in job.yml); the others go on. What is printed is in the logs: prs logs JOB.
    """
    mini_batch["euros"] = (mini_batch["price"] * mini_batch["currency"].map(rates)).round(2)
    return mini_batch
