"""W2 with Celery, a worker of two processes, messages acknowledged late. Usage: w2_celery.py COUNT

Wants RabbitMQ at $BROKER_URL and Redis, for the results, at $RESULT_URL.
"""

import os
import subprocess
import sys

from celery import Celery
from harness import PROCESSES, mini_batches, no_op, output, timed, write_rows

app = Celery("w2_celery", broker=os.environ["BROKER_URL"], backend=os.environ["RESULT_URL"])
app.conf.update(
    accept_content=["msgpack"],
    broker_connection_retry_on_startup=True,
    result_serializer="msgpack",
    task_acks_late=True,
    task_serializer="msgpack",
    worker_prefetch_multiplier=16,
)

run = app.task(no_op, name="no_op")

if __name__ == "__main__":
    count = int(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "w2_celery", "worker", "-c", str(PROCESSES), "-l", "ERROR"],
        env={**os.environ, "PYTHONPATH": here},
        stdout=subprocess.DEVNULL,
    )
    try:
        run.delay([]).get(timeout=60)
        with timed("celery", "W2", count), open(output("rows.txt"), "w") as file:
            results = [run.delay(mini_batch) for mini_batch in mini_batches(count)]
            for result in results:
                write_rows(file, result.get())
    finally:
        worker.terminate()
        worker.wait(timeout=30)
