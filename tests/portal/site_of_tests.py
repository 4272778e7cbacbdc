"""A folder with jobs, and a server in front of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page

PROGRAM = Path(os.environ["PRS_TEST_BIN_DIR"]) / "prs"
AXE = Path(os.environ["PRS_TEST_AXE"]).read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
# Seconds for anything that takes a moment.
DEADLINE = 60.0

SCRIPT = """\
import os, time

def run(mini_batch):
    time.sleep(0.2)
    print("batch of", len(mini_batch))
    number = int(os.path.basename(mini_batch[0])[1:4])
    if number % 7 == 3:
        raise ConnectionError("upstream API returned <503>")
    return list(mini_batch)
"""

DEPLOYMENT = """\
type: model
model: {path: model}
code_configuration: {code: src, scoring_script: score.py}
environment: local
"""

# Two steps that need nothing of each other, and one that needs both.
PIPELINE = """\
type: pipeline
name: flow
jobs:
  left: {command: "echo left > ${{outputs.rows}}", outputs: {rows: {type: uri_file}}}
  right: {command: "echo right > ${{outputs.rows}}", outputs: {rows: {type: uri_file}}}
  both:
    command: "cat ${{inputs.a}} ${{inputs.b}}"
    inputs:
      a: ${{parent.jobs.left.outputs.rows}}
      b: ${{parent.jobs.right.outputs.rows}}
"""


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def heard(page: Page) -> tuple[list[str], list[str]]:
    """What a page says on its console, and which addresses it asks."""
    said: list[str] = []
    asked: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        said.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.set_default_timeout(DEADLINE * 1000)
    return said, asked


class Site:
    """The folder, the server, and commands that are run in the folder."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, *options: str) -> None:
        self.folder = folder
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": "/dev/null"}
        self.environment |= environment or {}
        self.options = options
        self.url, self.link = "", ""
        self.begin("127.0.0.1:0")

    def begin(self, address: str) -> None:
        """Starts the server at this address."""
        command = [PROGRAM, "serve", "--listen", address, "-o", "json", *self.options]
        self.server = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.server.stdout.readline()
            assert line, "the server has ended"
            text += line
        told = json.loads(text)
        self.url, self.link = told["url"], told.get("link") or ""

    def stop(self) -> int:
        """Ends the server; its exit code."""
        self.server.send_signal(signal.SIGTERM)
        return self.server.wait(DEADLINE)

    def run(self, *arguments: str) -> str:
        """What a command prints that succeeds."""
        ended = subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def new_link(self) -> str:
        """A link that logs a browser in."""
        return self.run("serve", "--link", "--listen", self.url.removeprefix("http://")).strip()

    def token(self, name: str, role: str) -> str:
        """A new token."""
        made: dict[str, Any] = json.loads(self.run("token", "create", name, "--role", role, "-o", "json"))
        return str(made["secret"])

    def write(self, files: dict[str, str]) -> None:
        """Files below the folder."""
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def start(
        self, name: str, files: int, script: str = SCRIPT, keys: dict[str, Any] | None = None
    ) -> subprocess.Popen[str]:
        """Submits a job with a mini-batch for each file; some fail."""
        folder = self.folder / name
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text(script)
        for number in range(files):
            (folder / f"data/f{number:03}.txt").write_text("x")
        job: dict[str, Any] = {"name": name, "entry_script": "main.py"}
        job |= {"inputs": [{"type": "file", "path": "data"}]}
        job |= {"mini_batch_size": 1, "process_count_per_node": 1, "run_max_try": 1, "error_threshold": 1000}
        (folder / "job.yml").write_text(json.dumps(job | (keys or {})))
        command = [PROGRAM, "submit", f"{name}/job.yml", "-q", "--id-file", f"{name}/id"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, text=True
        )

    def id_of(self, name: str) -> str:
        """The id of a job, as soon as it has one."""
        path = self.folder / name / "id"
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{name} has an id")
        return path.read_text().strip()

    def deploy(self, endpoint: str) -> None:
        """Makes an endpoint whose deployment is called `first`, and registers data as `letters`."""
        self.write(
            {
                f"{endpoint}/src/score.py": "def run(batch):\n    return batch\n",
                f"{endpoint}/model/weights": "1",
                f"{endpoint}/letters/a.txt": "a",
                f"{endpoint}/deployment.yml": DEPLOYMENT,
            }
        )
        file = f"{endpoint}/deployment.yml"
        self.run("endpoint", "create", "-n", endpoint, "--set", "description=Says what it is given.", "-q")
        self.run("deployment", "create", "-f", file, "-e", endpoint, "-n", "first", "--set-default", "-q")
        self.run("dataset", "create", "--name", "letters", "--path", f"{endpoint}/letters", "-q")
