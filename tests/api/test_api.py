"""Every operation of `/openapi.json`, good and bad, asked by schemathesis once for each role.

A server of a folder has a job that ended, one that runs, an endpoint and things that are registered; so has
one of a fleet, with workers beside it. Half of the parameters of a path are those of something that is there
(`hooks.py`), so that more than refusals are looked at. The seed is fixed; `PRS_API_EXAMPLES` says how many
requests an operation gets beside those that its form asks for [10]. Streams of events are left out: they have
no end, and schemathesis waits for it.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROGRAMS = Path(os.environ["PRS_TEST_BIN_DIR"]).absolute()
EXAMPLES = os.environ.get("PRS_API_EXAMPLES", "10")
SEED = "20261126"
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
    "use_after_free",
]
# Streams have no end of their own.
STREAMS = r"/events$"
# Seconds for anything that takes a moment.
DEADLINE = 60.0

SCRIPT = """\
import os, time
from pathlib import Path


def run(mini_batch):
    print("batch of", len(mini_batch))
    number = int(os.path.basename(mini_batch[0])[1:4])
    hold = os.environ.get("PRS_TEST_HOLD")
    while hold and number > 3 and Path(hold).exists():
        time.sleep(0.1)
    if number % 7 == 3:
        raise ConnectionError("upstream API returned <503>")
    return [f"{os.path.basename(path)},{number}" for path in mini_batch]
"""

DEPLOYMENT = """\
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
"""


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """What is given once anything is."""
    deadline = time.monotonic() + DEADLINE
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
    return found


class Site:
    """A folder with jobs, and a server in front of them; of a fleet, where its servers are given."""

    def __init__(self, folder: Path, servers: dict[str, str] | None = None) -> None:
        self.folder = folder
        own = {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": "/dev/null"}
        self.environment = {**os.environ, **own, **(servers or {})}
        self.programs: list[subprocess.Popen[str]] = []
        self.hold = folder / "hold"
        self.hold.touch()
        rates = ["--read-rate", "100000", "--write-rate", "100000", "--stranger-rate", "100000"]
        rates += ["--max-wrong-tokens", "100000"]
        rates += ["--max-searches-of-one", "64", "--max-previews-of-one", "64"]
        self.server = self.begin("serve", "--listen", "127.0.0.1:0", "-o", "json", *rates)
        assert self.server.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            text += self.server.stdout.readline()
        self.url = json.loads(text)["url"]

    def begin(self, *arguments: str, program: str = "prs") -> subprocess.Popen[str]:
        """A program that runs on."""
        command = [PROGRAMS / program, *arguments]
        begun = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        self.programs.append(begun)
        return begun

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [PROGRAMS / "prs", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def job(self, name: str, files: int, **more: object) -> list[str]:
        """The words that submit a job; some of its mini-batches fail."""
        folder = self.folder / name
        (folder / "data").mkdir(parents=True)
        (folder / "main.py").write_text(SCRIPT)
        for number in range(files):
            (folder / f"data/f{number:03}.txt").write_text("x")
        keys: dict[str, object] = {"name": name, "entry_script": "main.py", "tags": {"team": "vision"}}
        keys |= {"inputs": [{"type": "file", "path": "data"}], "mini_batch_size": 1, "run_max_try": 1}
        keys |= {"process_count_per_node": 1, "error_threshold": 1000, **more}
        (folder / "job.yml").write_text(json.dumps(keys))
        return ["submit", f"{name}/job.yml", "-q", "--id-file", f"{name}/id"]

    def id_of(self, name: str) -> str:
        """The id of a job, as soon as it has one."""
        path = self.folder / name / "id"
        return wait_until(lambda: path.exists() and path.read_text().strip(), f"{name} has an id")

    def held(self, name: str) -> list[str]:
        """The words that submit a job which runs until it is let go."""
        return self.job(name, 12, environment_variables={"PRS_TEST_HOLD": str(self.hold)})

    def register(self) -> None:
        """An endpoint with a deployment, and data."""
        for name, text in [
            ("src/score.py", "def run(batch):\n    return batch\n"),
            ("model/weights", "1"),
            ("letters/a.txt", "a"),
            ("deployment.yml", DEPLOYMENT),
        ]:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        self.run("endpoint", "create", "-n", "letters-batch", "--set", "description=Says what it is given.")
        of = ["-f", "deployment.yml", "-e", "letters-batch", "-n", "first"]
        self.run("deployment", "create", *of, "--set-default")
        self.run("dataset", "create", "--name", "letters", "--path", "letters")

    def token(self, role: str) -> str:
        """The secret of a new token."""
        endpoints = ["--endpoint", "letters-batch"] if role == "invoke" else []
        made = self.run("token", "create", f"of-{role}", "--role", role, *endpoints, "-o", "json")
        return str(json.loads(made)["secret"])

    def get(self, path: str, secret: str) -> Any:
        """The JSON at an address."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {secret}"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return json.load(answer)

    def known(self, ended: str, running: str) -> dict[str, list[str]]:
        """What is there, by the names of parameters of paths."""
        secret = self.token("admin")
        of_ended = f"/api/v1/jobs/{ended}"
        groups = self.get(f"{of_ended}/errors", secret)["value"]
        names = {
            "job": [ended, running],
            "endpoint": ["letters-batch"],
            "deployment": ["first"],
            "kind": ["data", "models"],
            "name": ["letters"],
            "version": ["1", "@latest"],
            "index": ["0", "3"],
            "target": ["default"],
            "group": [one["group"] for one in groups],
            "code": [one["path"] for one in self.get(f"{of_ended}/code", secret)["value"]],
            "logs": [one["path"] for one in self.get(f"{of_ended}/logs?delimiter=none", secret)["value"]],
            "outputs": [one["path"] for one in self.get(f"{of_ended}/outputs", secret)["value"]],
            "files": ["a.txt", "letters/a.txt"],
            "worker": [one["worker"] for one in self.get("/api/v1/workers", secret)["value"]],
        }
        assert all(names[name] for name in ("group", "code", "logs", "outputs")), names
        return names

    def end(self) -> None:
        """Ends what runs."""
        self.hold.unlink(missing_ok=True)
        for program in reversed(self.programs):
            program.send_signal(signal.SIGTERM)
        for program in self.programs:
            try:
                program.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


@contextlib.contextmanager
def fleet_servers() -> Iterator[dict[str, str]]:
    """The servers of a fleet; gives the variables that name them."""
    command = [PROGRAMS / "fleet-servers"]
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("PRS_", "AWS_"))}
    # They end with their standard input, which the end of the block closes.
    with subprocess.Popen(
        command, env=quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        variables = {}
        while (line := process.stdout.readline().strip()) != "ready":
            name, value = line.removeprefix("export ").split("=", 1)
            variables[name] = value.strip("'")
        yield variables


@pytest.fixture(scope="module", params=["folder", "fleet"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder, or a fleet."""
    with contextlib.ExitStack() as stack:
        is_fleet = request.param == "fleet"
        servers = stack.enter_context(fleet_servers()) if is_fleet else None
        site = Site(tmp_path_factory.mktemp("site"), servers)
        stack.callback(site.end)
        if is_fleet:
            # Two jobs have a place: one that is held runs beside those that are handed in.
            site.begin("worker", "--work-dir", str(site.folder / "work"))
            site.begin("worker", "--work-dir", str(site.folder / "work-2"))
        site.run(*site.job("ended", 10))
        site.register()
        site.begin(*site.held("running"))
        names = site.known(site.id_of("ended"), site.id_of("running"))
        assert names["worker"] or not is_fleet, names
        (site.folder / "known.json").write_text(json.dumps(names))
        yield site
        assert site.server.poll() is None, "the server has ended"


def ask(site: Site, secret: str, report: Path, *more: str) -> None:
    """Asks a server for everything, as the holder of this secret."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")]
    command += ["--no-color", "run", f"{site.url}/openapi.json", "--checks", ",".join(CHECKS), "--seed", SEED]
    command += [
        "--max-examples",
        EXAMPLES,
        "--exclude-path-regex",
        STREAMS,
        "--no-shrink",
        "--continue-on-failure",
    ]
    command += ["--request-timeout", "60", "--request-retries", "2", "--warnings", "off", *more]
    if secret:
        command += ["--header", f"Authorization: Bearer {secret}"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE)}
    environment["PRS_TEST_KNOWN"] = str(site.folder / "known.json")
    done = subprocess.run(command, cwd=report, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-60_000:]}\n{done.stderr[-4_000:]}"


# The administrator comes last: what they delete is gone.
@pytest.mark.parametrize("role", ["nobody", "invoke", "read", "submit", "admin"])
def test_each_operation_answers_as_the_document_says(site: Site, role: str, tmp_path: Path) -> None:
    ask(site, "" if role == "nobody" else site.token(role), tmp_path)
