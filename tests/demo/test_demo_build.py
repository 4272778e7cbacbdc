"""The build of prs that `make demo` makes: it runs jobs on this machine, and refuses all else in words.

Needs `PRS_TEST_DEMO_BIN_DIR`, the folder with that build: `make test-demo`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# What the build lacks, as a command says it.
NO_S3 = "this build of prs has no S3 (feature s3)"
NO_HTTP = "this build of prs has no HTTP client (feature s3)"
NO_FLEET = "this build of prs has no fleet (feature fleet)"
NO_SERVER = "this build of prs has no server (feature serve)"
NO_PARQUET = "this build of prs has no Parquet (feature parquet)"

SCRIPT = """\
from pathlib import Path

def run(mini_batch):
    return [f"{Path(path).name}: {len(Path(path).read_text().split())}" for path in mini_batch]
"""
FILES = {"one.txt": "a", "three.txt": "a b c", "two.txt": "a b"}
# Servers that nobody asks: nothing listens there.
FLEET = [
    "--broker",
    "amqp://127.0.0.1:1/prs",
    "--redis",
    "redis://127.0.0.1:1/0",
    "--storage",
    "s3://jobs/prs",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script and its files."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/words.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "texts").mkdir()
    for name, text in FILES.items():
        (tmp_path / "texts" / name).write_text(text, encoding="utf-8")
    return tmp_path


def job(folder: Path, path: str = "texts", **more: object) -> Path:
    """A job file in the folder, whose input is at `path`."""
    settings = {
        "name": "words",
        "source_directory": "code",
        "entry_script": "words.py",
        "inputs": [{"type": "file", "path": path}],
        "environment": sys.executable,
    }
    file = folder / "job.yml"
    file.write_text(json.dumps(settings | more), encoding="utf-8")
    return file


def prs(
    folder: Path, *words: str | Path, program: str = "prs", **variables: str
) -> subprocess.CompletedProcess[str]:
    bin_dir = os.environ.get("PRS_TEST_DEMO_BIN_DIR", "")
    assert os.path.isabs(bin_dir), "PRS_TEST_DEMO_BIN_DIR must name the folder with the build of the demo"
    # The configuration folder is none: nobody's servers are used.
    surroundings = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_CONFIG_HOME": os.devnull}
    command = [f"{bin_dir}/{program}", *map(str, words)]
    return subprocess.run(
        command,
        cwd=folder,
        env=surroundings | variables,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


def lacks(done: subprocess.CompletedProcess[str], message: str) -> None:
    """The command refused what the build lacks."""
    assert done.returncode == 2, (done.args, done.stdout, done.stderr)
    assert message in done.stderr + done.stdout, (done.args, done.stdout, done.stderr)


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["serve", "--help"], ["worker", "--help"]])
def test_what_can_be_said_is_the_same(tmp_path: Path, words: list[str]) -> None:
    done = prs(tmp_path, *words)
    assert done.returncode == 0 and done.stdout, done.stderr


def test_a_job_runs_on_this_machine(folder: Path) -> None:
    done = prs(folder, "submit", job(folder), "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    rows = (folder / "run/output/parallel_run_step.txt").read_text(encoding="utf-8")
    assert rows == "one.txt: 1\nthree.txt: 3\ntwo.txt: 2\n"
    assert "<html" in (folder / "run/logs/report.html").read_text(encoding="utf-8")
    status = json.loads(prs(folder, "status", "run", "-o", "json").stdout)
    assert status["state"] == "completed"
    for words in [
        ["errors", "run"],
        ["logs", "run"],
        ["show", "run"],
        ["report", "run"],
        ["doctor"],
        ["profiles"],
    ]:
        done = prs(folder, *words)
        assert done.returncode == 0, (words, done.stderr)
    assert "one.txt: 1" in prs(folder, "try", job(folder)).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve"], NO_SERVER),
        (["serve", "--listen", "127.0.0.1:0", "--auth", "none", "--open"], NO_SERVER),
        (["take-up", "order.json"], NO_SERVER),
        (["worker"], NO_FLEET),
        (["worker", *FLEET], NO_FLEET),
        (["workers"], NO_FLEET),
        (["workers", "drain", "w1", *FLEET], NO_FLEET),
        (["list", *FLEET], NO_FLEET),
        (["status", "words-1", *FLEET], NO_FLEET),
        (["submit", "job.yml", *FLEET], NO_FLEET),
        (["validate", "job.yml", *FLEET], NO_FLEET),
        (["gc", *FLEET], NO_FLEET),
        (["dataset", "list", *FLEET], NO_FLEET),
        (["doctor", *FLEET], NO_FLEET),
    ],
)
def test_what_is_left_out_is_said(folder: Path, words: list[str], message: str) -> None:
    job(folder)
    lacks(prs(folder, *words), message)


def test_servers_that_variables_name_are_none_of_this_build(folder: Path) -> None:
    urls = {
        "PRS_BROKER_URL": "amqp://127.0.0.1:1/prs",
        "PRS_REDIS_URL": "redis://127.0.0.1:1/0",
        "PRS_STORAGE_URL": "s3://jobs/prs",
    }
    lacks(prs(folder, "submit", job(folder), **urls), NO_FLEET)
    lacks(prs(folder, program="prs-worker", **urls), NO_FLEET)
    done = prs(folder, "submit", job(folder), "--local", "--run-dir", "run", **urls)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["submit", "validate", "try"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "s3://bucket/texts"}, NO_S3),
        ({"path": "https://127.0.0.1:1/one.txt"}, NO_HTTP),
        ({"side_inputs": {"more": "s3://bucket/more"}}, NO_S3),
        ({"output_format": "parquet"}, NO_PARQUET),
    ],
)
def test_a_job_that_takes_what_is_left_out_is_refused(
    folder: Path, command: str, settings: dict[str, object], message: str
) -> None:
    lacks(prs(folder, command, job(folder, **settings)), message)


@pytest.mark.parametrize("command", ["submit", "validate"])
def test_an_output_in_a_bucket_is_refused(folder: Path, command: str) -> None:
    lacks(prs(folder, command, job(folder, output="s3://bucket/words")), NO_S3)


def test_programs_are_told_that_usage_is_wrong(folder: Path) -> None:
    done = prs(folder, "submit", job(folder, "s3://bucket/texts"), "-o", "json")
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["exit_code"]) == ("usage", 2)
    assert NO_S3 in error["message"]
