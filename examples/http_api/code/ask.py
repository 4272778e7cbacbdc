"""Asks a service over HTTP, no faster than it allows. The service is where `API_URL` says.

A request that is refused (429) waits as long as the service asks for and is sent again. One that is refused
again and again, or fails otherwise, raises, which costs one try of its mini-batch. After `run_max_try` tries
the questions of the mini-batch are missing from the result, and `prs resume` asks them again.
"""

import json
import os
import random
import time
import urllib.error
import urllib.request

REFUSED = 429
# Requests for one question. At some seconds each they must fit into run_invocation_timeout.
ATTEMPTS = 20

url = None


def init():
    """Called once in each process. Keys belong here too, from the environment and never from the job file."""
    global url
    url = os.environ.get("API_URL", "http://127.0.0.1:8765")


def run(mini_batch):
    """Returns "<id>: <answer>" for every question of the mini-batch, a DataFrame."""
    return [f"{row.id}: {ask(row.question)}" for row in mini_batch.itertuples()]


def ask(question):
    """The answer to one question."""
    body = json.dumps({"question": question}).encode()
    for _ in range(ATTEMPTS):
        try:
            # Without a timeout, a connection that hangs would hang until run_invocation_timeout.
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as response:
                return json.load(response)["answer"]
        except urllib.error.HTTPError as error:
            if error.code != REFUSED:
                raise
            # All processes are refused at about the same time: the random part keeps them from coming back
            # together.
            time.sleep(float(error.headers.get("Retry-After", 1)) * random.uniform(1, 1.5))
    raise RuntimeError(f"the service refused the question {ATTEMPTS} times")
