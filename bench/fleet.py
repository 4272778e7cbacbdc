"""A fleet for a benchmark: RabbitMQ, Redis and an S3 server of its own, and workers that come and go."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

# Files of a work that its fleet has as objects: BUCKET/PREFIX/FILE.
BUCKET = "inputs"
PREFIX = "objects/"


class Fleet:
    """The servers. `environment` is what programs need to reach them, prs and its peers alike."""

    def __init__(self, bin_dir: Path, scratch: Path, objects: Path | None) -> None:
        self.bin_dir = bin_dir
        # Of the servers and of all workers, kept until the end.
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=scratch))
        command = [str(bin_dir / "fleet-servers")]
        if objects is not None:
            command += ["--bucket", f"{BUCKET}={objects}"]
        with open(self.folder / "servers.err", "wb") as stderr:
            self._servers = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self.environment = {}
        for line in self._servers.stdout:
            if line == "ready\n":
                break
            name, value = re.fullmatch(r"export (\w+)='(.*)'\n", line).groups()
            self.environment[name] = value
        else:
            raise RuntimeError(f"the servers did not start; see {self.folder / 'servers.err'}")
        redis = urlsplit(self.environment["PRS_REDIS_URL"])
        self.peer_environment = {
            **self.environment,
            "BROKER_URL": self.environment["PRS_BROKER_URL"],
            "RESULT_URL": redis._replace(path="/1").geturl(),
            "S3_ENDPOINT": self.environment["AWS_ENDPOINT_URL_S3"],
            "S3_BUCKET": BUCKET,
            "S3_PREFIX": PREFIX,
            "BIN_DIR": str(bin_dir),
        }
        self._started = 0

    def close(self) -> None:
        """Ends the servers and forgets what they had."""
        self._servers.stdin.close()
        self._servers.wait(timeout=60)

    def start_worker(self, slots: int) -> subprocess.Popen:
        """Starts one; it serves the next job that wants a node."""
        number, self._started = self._started, self._started + 1
        environment = {**os.environ, **self.environment, "VIRTUAL_ENV": sys.prefix}
        command = [str(self.bin_dir / "prs-worker"), "--slots", str(slots), "--name", f"worker-{number}"]
        command += ["--work-dir", str(self.folder / "work")]
        with open(self.folder / f"worker-{number}.err", "wb") as stderr:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @contextlib.contextmanager
    def workers(self, count: int, slots: int) -> Iterator[list[subprocess.Popen]]:
        """Workers for the time of the block; those that are in the list at its end are ended."""
        workers = [self.start_worker(slots) for _ in range(count)]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(timeout=60)
