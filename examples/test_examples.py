"""Runs the examples as their READMEs say, but for digits and iris, which `examples/run` runs.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs, and the packages of requirements.txt in the
interpreter that runs this; the example for PyTorch is left out where PyTorch is not installed.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
# Seconds for one command: far more than any takes, so that one that hangs ends.
LONGEST = 300
# Nothing of the surroundings says how prs or its servers are to be used, or which Python runs the scripts.
SURROUNDINGS = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PRS_", "AWS_", "PYTHON", "VIRTUAL_ENV"))
} | {"XDG_CONFIG_HOME": os.devnull}


def program(name: str) -> str:
    folder = os.environ.get("PRS_TEST_BIN_DIR", "")
    assert os.path.isabs(folder), "PRS_TEST_BIN_DIR must name the folder with the built programs"
    return os.path.join(folder, name)


def prs(*arguments: object, code: int = 0, **variables: str) -> str:
    """Runs prs; returns its standard output, and fails when its exit code is another than `code`."""
    command = [program("prs"), *map(str, arguments)]
    env = SURROUNDINGS | {"VIRTUAL_ENV": sys.prefix} | variables
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=env, timeout=LONGEST)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def submit(example: str, run_dir: Path, **variables: str) -> Path:
    """Runs an example; returns the folder of its output."""
    prs("submit", HERE / example / "job.yml", "--run-dir", run_dir, **variables)
    return run_dir / "output"


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def pages() -> list[Path]:
    """What several examples work on, in the order of their results."""
    return sorted(DOCS.glob("*.md"))


def words() -> list[str]:
    return [f"{page.name}: {len(page.read_text(encoding='utf-8').split())}" for page in pages()]


@contextmanager
def started(*command: object, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A program beside the example; it is asked to end, and has ended, when the test goes on."""
    env = SURROUNDINGS | variables
    with subprocess.Popen([*map(str, command)], text=True, env=env, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def fleet_servers(bucket: str, folder: Path) -> Iterator[dict[str, str]]:
    """The servers of a fleet, and a bucket with the files of a folder; gives the variables that name them."""
    command = [program("fleet-servers"), "--bucket", f"{bucket}={folder}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    # They end with their standard input, which the end of the block closes; it waits for them, too.
    with subprocess.Popen(command, text=True, env=SURROUNDINGS, **pipes) as process:
        variables = {}
        while (line := process.stdout.readline().strip()) != "ready":
            name, value = line.removeprefix("export ").split("=", 1)
            variables[name] = value.strip("'")
        yield variables


def test_words(tmp_path: Path):
    assert lines(submit("words", tmp_path / "run") / "words.txt") == words()


def test_files(tmp_path: Path):
    output = submit("files", tmp_path / "run")
    contents = {file.name: json.loads(file.read_text()) for file in (output / "contents").iterdir()}
    assert set(contents) == {f"{page.stem}.json" for page in pages()}
    assert contents["architecture.json"][0] == "Architecture"


def test_csv(tmp_path: Path):
    with (submit("csv", tmp_path / "run") / "totals.csv").open(newline="") as file:
        totals = list(csv.DictReader(file))
    with (HERE / "csv/data/orders.csv").open(newline="") as file:
        orders = list(csv.DictReader(file))
    assert [row["order"] for row in totals] == [row["order"] for row in orders]
    assert all(float(row["total"]) == round(int(row["pieces"]) * float(row["price"]), 2) for row in totals)


def test_http_api(tmp_path: Path):
    with started(sys.executable, HERE / "http_api/server.py", "--port", "0") as server:
        url = server.stdout.readline().strip()
        output = submit("http_api", tmp_path / "run", API_URL=url)
    with (HERE / "http_api/data/questions.csv").open(newline="") as file:
        expected = [f"{row['id']}: {len(row['question'])}" for row in csv.DictReader(file)]
    assert lines(output / "answers.txt") == expected


def test_async(tmp_path: Path):
    with started(sys.executable, HERE / "http_api/server.py", "--port", "0") as server:
        url = server.stdout.readline().strip()
        output = submit("async", tmp_path / "run", API_URL=url)
    questions = sorted((HERE / "async/data").iterdir())
    expected = [f"{file.name}: {len(file.read_text(encoding='utf-8').strip())}" for file in questions]
    assert lines(output / "answers.txt") == expected


def test_flaky(tmp_path: Path):
    job, run_dir = tmp_path / "flaky", tmp_path / "run"
    shutil.copytree(HERE / "flaky", job)
    prs("submit", job / "job.yml", "--run-dir", run_dir, code=10)
    assert len(lines(run_dir / "output/means.txt")) == 8
    errors = prs("errors", run_dir)
    assert "ValueError" in errors and "ConnectionError" in errors
    missing = [str(job / f"data/sensor_{number}.txt") for number in ["06", "07"]]
    assert prs("errors", run_dir, "--items").splitlines() == missing

    script = job / "code/means.py"
    mended = 'for line in lines if line != "n/a"]'
    assert mended in (HERE / "flaky/README.md").read_text()
    script.write_text(script.read_text().replace("for line in lines]", mended))
    prs("try", run_dir, "--failed")
    prs("resume", run_dir, "--code", "new")
    names = [row.split(":")[0] for row in lines(run_dir / "output/means.txt")]
    assert names == [f"sensor_{number:02}.txt" for number in range(10)]


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorch(tmp_path: Path):
    rows = lines(submit("pytorch", tmp_path / "run") / "classes.txt")
    assert [row.split(":")[0] for row in rows] == [page.name for page in pages()]


def test_notebook(tmp_path: Path):
    """Runs every cell in a kernel of this interpreter; none may fail, and none is kept with its output."""
    source = HERE / "notebook/sensors.ipynb"
    notebook = nbformat.read(source, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    is_bare = all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    assert is_bare, f"jupyter nbconvert --clear-output --inplace {source}"
    env = SURROUNDINGS | {"PRS_PROGRAM": program("prs"), "PYTHONPATH": str(HERE.parent / "python")}
    # Where the server says where it is.
    env |= {"XDG_RUNTIME_DIR": str(tmp_path)}
    client = NotebookClient(notebook, timeout=LONGEST, kernel_name="python3")
    client.execute(env=env, cwd=str(tmp_path))

    def printed(cell: dict) -> str:
        """What stands below a cell."""
        return "".join(
            one.get("text", "") or one.get("data", {}).get("text/plain", "") for one in cell.outputs
        )

    assert "2 of 10 items are missing" in printed(cells[4])
    assert "sensor_06.txt" in printed(cells[5])
    assert printed(cells[6]) == "the script raises: could not convert string to float: 'n/a'\n"
    (result,) = (tmp_path / "prs-runs").glob("*/output/parallel_run_step.txt")
    rows = list(csv.DictReader(result.open(newline="")))
    assert [row["sensor"] for row in rows] == [f"sensor_{number:02}" for number in range(10)]
    assert rows[9]["sensor"] in printed(cells[9])
    assert printed(cells[10]).startswith("<prs.Server http://127.0.0.1:")
    assert printed(cells[12]) == "[('sensors', 'completed', 10)]"


def test_s3(tmp_path: Path):
    """Reads from a bucket without a fleet, and with one, whose storage is a bucket too."""
    with fleet_servers("prs-examples", DOCS) as fleet:
        only_s3 = {name: value for name, value in fleet.items() if name.startswith("AWS_")}
        assert lines(submit("s3", tmp_path / "run", **only_s3) / "words.txt") == words()

        variables = fleet | {"VIRTUAL_ENV": sys.prefix}
        with started(program("prs"), "worker", "--work-dir", tmp_path / "work", **variables):
            prs("submit", HERE / "s3/job.yml", **fleet)
        prs("result", "pages-on-s3", "--output-path", tmp_path / "copy", **fleet)
        assert lines(tmp_path / "copy/words.txt") == words()
