"""The wheel in an empty environment: it needs no index, and the first job has its result in seconds.

Needs `PRS_TEST_BIN_DIR`, the folder with the built programs: the wheel is made of these.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Seconds of processor time from `pip install` to the result: however busy this machine is.
LONGEST = 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"PRS_WHEEL_PROGRAMS": bin_dir()})
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    run(folder / "bin/pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    return folder


def bin_dir() -> str:
    folder = os.environ.get("PRS_TEST_BIN_DIR", "")
    assert os.path.isabs(folder), "PRS_TEST_BIN_DIR must name the folder with the built programs"
    return folder


def run(*command: str | Path, **settings: object) -> str:
    """Runs a command as a user without any environment would; returns its standard output."""
    known = {name: os.environ[name] for name in ["HOME", "LANG"] if name in os.environ}
    # The configuration folder is none: nobody's servers are used.
    surroundings = known | {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": os.devnull}
    settings = {"env": surroundings} | settings
    done = subprocess.run(command, text=True, capture_output=True, check=False, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def readme(name: str) -> str:
    """The block of the README whose first line is the comment `# NAME`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```\w+\n(# {re.escape(name)}\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    return block


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_it_is_for_every_python_from_3_9_on(wheel: Path):
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert wheel.name.startswith(f"prs_run-{version}-cp39-abi3-linux_")
    names = zipfile.ZipFile(wheel).namelist()
    programs = {f"prs_run-{version}.data/scripts/{name}" for name in ["prs", "prs-producer", "prs-worker"]}
    modules = {"azureml_user/parallel_run/process.py", "prs/__init__.py", "prs/py.typed"}
    assert {*programs, "prs_process.abi3.so", *modules} <= {*names}


def test_the_first_job_of_the_readme(environment: Path, wheel: Path, tmp_path: Path):
    job = {name: readme(name) for name in ["code/words.py", "job.yml"]}
    write(tmp_path, job | {"texts/one.txt": "one", "texts/two.txt": "one two"})

    start = processor_seconds()
    run(environment / "bin/pip", "install", "--no-index", "--force-reinstall", wheel)
    run(environment / "bin/prs", "submit", "job.yml", "--run-dir", "run", cwd=tmp_path)
    assert processor_seconds() - start < LONGEST
    assert (tmp_path / "run/output/parallel_run_step.txt").read_text() == "one.txt: 1\ntwo.txt: 2\n"


def test_the_script_runs_in_the_environment_of_the_wheel(environment: Path, tmp_path: Path):
    script = "import sys\ndef run(mini_batch):\n    return [sys.prefix for _ in mini_batch]\n"
    job = "name: where\nentry_script: where.py\ninputs: [{type: file, path: job.yml}]\n"
    write(tmp_path, {"where.py": script, "job.yml": job})
    run(environment / "bin/prs", "submit", "job.yml", "--run-dir", "run", cwd=tmp_path)
    assert (tmp_path / "run/output/parallel_run_step.txt").read_text() == f"{environment}\n"


def test_what_scripts_import_is_there_without_prs_too(environment: Path):
    code = (
        "import prs_process; from azureml_user.parallel_run import EntryScript, testing; print(EntryScript())"
    )
    assert run(environment / "bin/python", "-c", code) == "<EntryScript of process000 on node 0>\n"


def test_the_package_runs_jobs_with_the_standard_library_alone(environment: Path, tmp_path: Path):
    script = "import sys\ndef run(mini_batch):\n    return [sys.prefix for _ in mini_batch]\n"
    job = "name: where\nentry_script: where.py\ninputs: [{type: file, path: job.yml}]\n"
    write(tmp_path, {"where.py": script, "job.yml": job})
    code = """
import prs
assert prs.__version__, prs.__version__
job = prs.submit("job.yml")
assert job.wait().complete
assert prs.try_batch(job).result == [job.result().read_text().rstrip()]
print(prs.try_batch(job).result[0])
"""
    assert run(environment / "bin/python", "-c", code, cwd=tmp_path) == f"{environment}\n"
