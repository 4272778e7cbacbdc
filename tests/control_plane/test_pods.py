"""The pods of the overlay `keda` by hand: they serve, leave in order when asked to, and end when idle; and
those that hand jobs in.

Needs what `pods.py` and `cluster.py` say, and `fleet-servers` among the programs of prs.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from cluster import PATIENCE, Object, free_port, wait_for
from pods import PROGRAMS, Container, Pod

ROOT = Path(__file__).resolve().parents[2]
KUBECTL = Path(os.environ["PRS_TEST_CONTROL_PLANE"]).absolute() / "kubectl"
SCRIPT = """\
import os
import time


def run(mini_batch):
    time.sleep(0.3)
    try:
        open("/written", "w")
        root = "open"
    except OSError:
        root = "shut"
    return [f"{os.getuid()} {os.getgid()} {root}" for _ in mini_batch]
"""
JOB = """\
name: pods
entry_script: pods.py
source_directory: code
mini_batch_size: 1
allow_reuse: false
inputs:
  - {name: numbers, type: file, path: data}
"""
FILES = 200


class Fleet:
    """RabbitMQ, Redis and an S3 server, and prs outside of any pod."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with open(folder / "servers.err", "wb") as log:
            self._servers = subprocess.Popen(
                [PROGRAMS / "fleet-servers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.servers: dict[str, str] = {}
        assert self._servers.stdout
        for line in self._servers.stdout:
            if line == "ready\n":
                break
            if found := re.fullmatch(r"export (\w+)='(.*)'\n", line):
                self.servers[found[1]] = found[2]

    def end(self) -> None:
        assert self._servers.stdin
        self._servers.stdin.close()
        self._servers.wait(60)

    def prs(self, *words: str) -> Object:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PRS_")}
        environment = {**clean, **self.servers, "VIRTUAL_ENV": sys.prefix}
        command = [str(PROGRAMS / "prs"), *words, "-o", "json"]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answer: Object = json.loads(done.stdout)
        return answer

    def done(self, job: str) -> int:
        """Mini-batches that the job has behind it, which must not have failed."""
        status = self.prs("status", job)
        assert status["state"] not in ("failed", "canceled"), status["reason"]
        return int(status["mini_batches"]["succeeded"])

    def submit(self) -> str:
        for name in ("code", "data"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "code/pods.py").write_text(SCRIPT)
        (self.folder / "job.yml").write_text(JOB)
        for number in range(FILES):
            (self.folder / f"data/{number:04}").write_text(str(number))
        return str(self.prs("submit", "job.yml", "--detach")["job_id"])


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    yield made
    made.end()


def rendered(folder: str) -> list[Object]:
    command = [KUBECTL, "kustomize", ROOT / "ops/kubernetes" / folder]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [one for one in yaml.safe_load_all(text) if one]


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    return rendered("overlays/keda")


def of_kind(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = (one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def maps(objects: list[Object]) -> dict[str, dict[str, str]]:
    found = [one for one in objects if one["kind"] == "ConfigMap"]
    return {one["metadata"]["name"]: one.get("data", {}) for one in found}


def ask(port: int, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Status and body; 0 where nobody answers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, named)
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def worker(
    fleet: Fleet, objects: list[Object], name: str, folder: Path, idle: str
) -> tuple[Container, int, int]:
    """A worker's pod as the ScaledJob has it, but for how long it waits for a job; its port and its grace."""
    spec = of_kind(objects, "ScaledJob", "prs-worker-default")["spec"]["jobTargetRef"]["template"]["spec"]
    port = free_port()
    secrets = {"prs-servers": fleet.servers}
    pod = Pod(name, spec, folder, secrets, maps(objects), {"9465": port}, {"60": idle})
    return pod.start(), port, spec["terminationGracePeriodSeconds"]


def test_workers_serve_leave_and_end(fleet: Fleet, objects: list[Object], tmp_path: Path) -> None:
    job = fleet.submit()
    first, port, grace = worker(fleet, objects, "first", tmp_path / "1", "60")
    second = None
    try:
        wait_for("its startup probe succeeds", lambda: first.runs() and ask(port, "/livez")[0] == 200)
        wait_for("it works", lambda: first.runs() and fleet.done(job) > 4)
        assert 'prs_worker_slots{target="default"} 4' in ask(port, "/metrics")[1]
        began = time.monotonic()
        first.terminate()
        assert first.wait(grace) == 0, first.said()
        took = time.monotonic() - began
        assert took < 40, f"it left after {took:.0f} s:\n{first.said()}"
        assert fleet.done(job) < FILES
        # What is not done waits for the next one, which ends when there is nothing left.
        second, _, _ = worker(fleet, objects, "second", tmp_path / "2", "2")
        wait_for("the job completes", lambda: fleet.prs("status", job)["state"] == "completed")
        assert second.wait(60) == 0, second.said()
        assert "nothing to do" in second.said()
    finally:
        for one in (first, second):
            if one is not None:
                one.kill()
    fleet.prs("result", job, "--output-path", str(tmp_path / "result"))
    rows = [file.read_text() for file in (tmp_path / "result").rglob("*.txt")]
    assert rows == ["10001 10001 shut\n" * FILES]


@contextmanager
def serving(
    fleet: Fleet, objects: list[Object], folder: Path
) -> Iterator[tuple[Container, dict[str, int], dict[str, str]]]:
    """The server's pod, ready; its ports, and the headers of its administrator."""
    spec = of_kind(objects, "Deployment", "prs-server")["spec"]["template"]["spec"]
    command = [PROGRAMS / "prs", "token", "generate"]
    token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    secrets = {"prs-servers": fleet.servers, "prs-first-token": {"token": token}}
    ports = {"8470": free_port(), "9466": free_port()}
    server = Pod("server", spec, folder, secrets, maps(objects), ports).start()
    try:
        wait_for("it is ready", lambda: server.runs() and ask(ports["9466"], "/readyz")[0] == 200)
        yield server, ports, {"Authorization": f"Bearer {token}", "Host": "prs-server.prs.svc"}
    finally:
        server.kill()


def test_the_server_answers_and_leaves(fleet: Fleet, objects: list[Object], tmp_path: Path) -> None:
    spec = of_kind(objects, "Deployment", "prs-server")["spec"]["template"]["spec"]
    with serving(fleet, objects, tmp_path) as (server, ports, _):
        http, metrics = ports["8470"], ports["9466"]
        (trigger,) = of_kind(objects, "ScaledJob", "prs-worker-default")["spec"]["triggers"]
        host, path = re.fullmatch(r"http://([^/]+)(/.*)", trigger["metadata"]["url"]).groups()  # type: ignore[union-attr]
        keda = fleet.prs("token", "create", "keda", "--role", "metrics", "--days", "0")["secret"]
        headers = {"Authorization": f"Bearer {keda}"}
        status, body = ask(http, path, Host=host, **headers)
        assert status == 200 and json.loads(body)[trigger["metadata"]["valueLocation"]] == 0, body
        assert ask(http, path, Host="elsewhere.example.org", **headers)[0] == 421
        assert ask(http, "/api/v1/jobs", Host=host, **headers)[0] == 403
        server.terminate()
        wait_for("it is not ready any more", lambda: ask(metrics, "/readyz")[0] == 503)
        # Who has not heard of that yet is answered.
        assert ask(http, path, Host=host, **headers)[0] == 200
        assert server.wait(spec["terminationGracePeriodSeconds"]) == 0, server.said()


def archive(**files: str) -> bytes:
    """A tar.gz of files by their names without an ending."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{name}.py")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return written.getvalue()


def form(**parts: bytes) -> tuple[bytes, str]:
    """A form with files, and its type."""
    edge = "edge-of-a-part"
    lines = []
    for name, content in parts.items():
        name = name.replace("_", ".")
        said = f'Content-Disposition: form-data; name="{name}"; filename="{name}.tar.gz"'
        lines += [f"--{edge}".encode(), said.encode(), b"", content]
    return b"\r\n".join([*lines, f"--{edge}--".encode(), b""]), f"multipart/form-data; boundary={edge}"


def test_jobs_and_what_is_registered_come_through_the_server(
    fleet: Fleet, objects: list[Object], tmp_path: Path
) -> None:
    job = JOB.replace("source_directory: code\n", "").replace("path: data", "path: sent")
    code = archive(pods=SCRIPT.replace("0.3", "0.01"))
    sent, kind = form(job=job.encode(), code=code, input_numbers=archive(one="1", two="2"))
    with serving(fleet, objects, tmp_path / "server") as (server, ports, headers):
        http = ports["8470"]
        status, body = ask(http, "/api/v1/jobs", sent, Content_Type=kind, **headers)
        assert status == 201, (body, server.said())
        made = json.loads(body)["job_id"]
        sent, kind = form(file=b"type: uri_file\npath: one.py\n", code=archive(one="1"))
        status, body = ask(http, "/api/v1/registry/data/numbers/versions", sent, Content_Type=kind, **headers)
        assert status == 201, (body, server.said())
        one, _, _ = worker(fleet, objects, "worker", tmp_path / "worker", "2")
        try:
            wait_for("the job completes", lambda: fleet.prs("status", made)["state"] == "completed")
            assert one.wait(60) == 0, one.said()
        finally:
            one.kill()
        assert ask(http, f"/api/v1/jobs/{made}/result", **headers) == (200, "10001 10001 shut\n" * 2)


def test_a_pod_submits_a_job_and_shows_it(fleet: Fleet, objects: list[Object], tmp_path: Path) -> None:
    submit = rendered("submit")
    spec = of_kind(submit, "Job", "submit-words")["spec"]["template"]["spec"]
    secrets = {"prs-servers": fleet.servers}
    pod = Pod("submit", spec, tmp_path / "submit", secrets, maps(objects) | maps(submit), {})
    one, _, _ = worker(fleet, objects, "worker", tmp_path / "worker", "60")
    submitted = None
    try:
        submitted = pod.start()
        assert submitted.wait(PATIENCE) == 0, submitted.said() + one.said()
        assert "completed" in submitted.said(), submitted.said()
    finally:
        for program in (one, submitted):
            if program is not None:
                program.kill()


def test_a_pod_collects_what_no_job_needs(fleet: Fleet, objects: list[Object], tmp_path: Path) -> None:
    template = of_kind(objects, "CronJob", "prs-gc")["spec"]["jobTemplate"]["spec"]["template"]
    pod = Pod("gc", template["spec"], tmp_path, {"prs-servers": fleet.servers}, maps(objects), {})
    collecting = pod.start()
    try:
        assert collecting.wait(PATIENCE) == 0, collecting.said()
    finally:
        collecting.kill()
