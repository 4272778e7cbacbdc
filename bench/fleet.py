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

from redis_client import Redis

# Files of a work that its fleet has as objects: BUCKET/PREFIX/FILE.
BUCKET = "inputs"
PREFIX = "objects/"

# The commands of Redis that run scripts.
SCRIPTS = ("eval", "evalsha", "fcall")

# Both ways together, milliseconds.
S3_AWAY = 30
OTHERS_AWAY = 2


class Fleet:
    """The servers. `environment` is what programs need to reach them, prs and its peers alike; by the way of
    `far` each question and its answer take `S3_AWAY` or `OTHERS_AWAY` longer.
    """

    def __init__(self, bin_dir: Path, scratch: Path, objects: Path | None) -> None:
        self.bin_dir = bin_dir
        # Of the servers and of all workers, kept until the end.
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=scratch))
        command = [str(bin_dir / "fleet-servers"), "--far", f"{S3_AWAY},{OTHERS_AWAY}"]
        if objects is not None:
            command += ["--bucket", f"{BUCKET}={objects}"]
        with open(self.folder / "servers.err", "wb") as stderr:
            self._servers = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self.environment = {}
        for line in self._answer():
            name, value = re.fullmatch(r"export (\w+)='(.*)'", line).groups()
            self.environment[name] = value
        far = {name: value for name, value in self.environment.items() if name.startswith("FAR_")}
        for name in far:
            del self.environment[name]
        self.far = {**self.environment, **{name.removeprefix("FAR_"): value for name, value in far.items()}}
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
        self._logs: dict[int, Path] = {}

    def close(self) -> None:
        """Ends the servers and forgets what they had."""
        self._servers.stdin.close()
        self._servers.wait(timeout=60)

    def _answer(self) -> list[str]:
        """What the servers say, line by line, until they are ready for more."""
        lines = []
        for line in self._servers.stdout:
            if line == "ready\n":
                return lines
            if line != "\n":
                lines.append(line.rstrip("\n"))
        raise RuntimeError(f"the servers have ended; see {self.folder / 'servers.err'}")

    def rabbitmqctl(self, *arguments: str) -> list[str]:
        """The lines that it prints; about half a second."""
        self._servers.stdin.write(" ".join(arguments) + "\n")
        self._servers.stdin.flush()
        return self._answer()

    def broker_connections(self) -> list[int]:
        """For each connection to the broker, how many packets came on it so far."""
        lines = self.rabbitmqctl("list_connections", "recv_cnt")
        return [int(line) for line in lines if line.isdigit()]

    def redis_calls(self) -> tuple[int, int]:
        """How many scripts Redis has run since its start, and how many other commands, theirs included."""
        with Redis(self.environment["PRS_REDIS_URL"]) as redis:
            answer = redis.call("INFO", "commandstats").decode()
        calls = re.findall(r"^cmdstat_([^:\s]+):calls=(\d+)", answer, re.MULTILINE)
        scripts = sum(int(count) for name, count in calls if name in SCRIPTS)
        return scripts, sum(int(count) for _, count in calls) - scripts

    def start_worker(self, slots: int, servers: dict[str, str] | None = None) -> subprocess.Popen:
        """Starts one, which serves the next job that wants a node."""
        number, self._started = self._started, self._started + 1
        environment = {**os.environ, **(servers or self.environment), "VIRTUAL_ENV": sys.prefix}
        command = [str(self.bin_dir / "prs"), "worker", "--slots", str(slots), "--name", f"worker-{number}"]
        command += ["--work-dir", str(self.folder / "work")]
        with open(self.folder / f"worker-{number}.err", "wb") as stderr:
            worker = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        self._logs[worker.pid] = Path(stderr.name)
        return worker

    def said(self, worker: subprocess.Popen) -> str:
        """The log of a worker so far."""
        return self._logs[worker.pid].read_text(encoding="utf-8", errors="replace")

    @contextlib.contextmanager
    def workers(
        self, count: int, slots: int, servers: dict[str, str] | None = None
    ) -> Iterator[list[subprocess.Popen]]:
        """Workers for the time of the block; those that are in the list at its end are ended."""
        workers = [self.start_worker(slots, servers) for _ in range(count)]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(timeout=60)
