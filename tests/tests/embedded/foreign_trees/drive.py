"""Runs a job and the commands on it while a neighbour plants in its folders; says how each command ended."""

import json
import os
import random
import signal
import subprocess
import sys
import time

PRS, JOB, RUN, SEED = sys.argv[1:]
PATIENCE = 40
sys.path.insert(0, "code")

from planter import Planter  # noqa: E402


def neighbour() -> int:
    """Plants until it is ended; gives its id."""
    pid = os.fork()
    if pid:
        return pid
    planter = Planter(f"{SEED}/neighbour")
    # Nothing of a run may be there before it begins.
    while not os.path.exists(os.path.join(RUN, "job.json")):
        time.sleep(0.002)
    time.sleep(planter.random.random() * 0.2)
    while True:
        planter.plant()
        time.sleep(planter.random.choice([0.005, 0.05, 0.2]))


def command(*arguments: str) -> None:
    began = time.monotonic()
    process = subprocess.Popen(
        [PRS, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        said, _ = process.communicate()
        said += "\nended by the test"
    took = time.monotonic() - began
    print(
        json.dumps({"command": arguments[0], "code": process.returncode, "said": said, "took": took}),
        flush=True,
    )


def main() -> None:
    chance = random.Random(SEED)
    planter = Planter(f"{SEED}/after")
    other = neighbour()
    command("submit", JOB, "--run-dir", RUN)
    after = [
        ("result", RUN),
        ("result", RUN, "--output-path", "fetched"),
        ("resume", RUN),
        ("errors", RUN),
        ("logs", RUN),
        ("report", RUN, "--file", "report.html"),
        ("rm", RUN, "-y"),
        ("gc", "-y"),
    ]
    for arguments in chance.sample(after, 3):
        if chance.random() < 0.5:
            planter.plant()
        command(*arguments)
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    planter.plant()
    command("rm", RUN, "-y")


main()
