"""Asks a service over HTTP, many questions at once from one process. The service is where `API_URL` says.

`run` is an `async def`: while one question waits for its answer, others are asked. As many mini-batches are
under way as `max_concurrency` says, so many questions are asked at once at most, and each has its own timeout
and its own tries.
"""

import asyncio
import json
import os
import random
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

REFUSED = 429
# Requests for one question. With their waiting they must fit into run_invocation_timeout.
ATTEMPTS = 40

url = None


async def init():
    """Called once in each process, on the loop that run() has: the place for a session of an HTTP library."""
    global url
    url = os.environ.get("API_URL", "http://127.0.0.1:8765")
    # urllib waits in threads. Without a number there are a few only.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))


async def run(mini_batch):
    """Returns "<file>: <answer>" for every file of the mini-batch."""
    return await asyncio.gather(*[ask(path) for path in mini_batch])


async def ask(path):
    """The answer to the question in one file."""
    with open(path, encoding="utf-8") as file:
        body = json.dumps({"question": file.read().strip()}).encode()
    for _ in range(ATTEMPTS):
        try:
            answer = await asyncio.to_thread(post, body)
            return f"{os.path.basename(path)}: {answer}"
        except urllib.error.HTTPError as error:
            if error.code != REFUSED:
                raise
            # Never time.sleep(), which stops all that the process has under way.
            await asyncio.sleep(float(error.headers.get("Retry-After", 1)) * random.uniform(0.5, 1.5))
    raise RuntimeError(f"the service refused the question {ATTEMPTS} times")


def post(body):
    """One request. Without a timeout, one that hangs would keep its thread."""
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as response:
        return json.load(response)["answer"]
