"""The package on a fleet: jobs go on without this Python, and the folder of `output` is filled with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from package import FAILS, SLOW, WAITS, held, job_file, prs, python, wait_until


@pytest.fixture
def fleet(folder: Path, servers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> prs.Fleet:
    """The fleet; how its bucket is reached stands in variables."""
    for name, value in servers.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return prs.Fleet(*(servers[f"PRS_{name}_URL"] for name in ("BROKER", "REDIS", "STORAGE")))


def test_a_job_of_a_fleet(folder: Path, fleet: prs.Fleet):
    job = prs.submit(job_file(folder, output="out"), fleet=fleet)
    assert job.wait().complete
    assert job.result() == folder / "out/parallel_run_step.txt"
    assert len(job.result().read_text().splitlines()) == 4
    found = prs.job("names", fleet=fleet)
    assert found.id == job.id and found.wait().complete
    with pytest.raises(prs.UsageError, match="give output_path, a folder to copy it to"):
        found.result()
    assert found.dataframe(folder / "copy")["row"][0] == "000.txt"
    assert job.id in [status.job_id for status in prs.jobs(fleet=fleet)]
    with pytest.raises(prs.UsageError, match="--runs is for jobs of this machine"):
        prs.submit("job.yml", fleet=fleet, runs="runs")


def test_nobody_needs_to_wait(folder: Path, fleet: prs.Fleet):
    path = job_file(folder, FAILS, name="detached")
    (folder / "data/002.txt").write_text("n/a")
    job = prs.submit(path, fleet=fleet, detach=True)
    with pytest.raises(prs.Incomplete, match="1 of 4 items"):
        job.wait()
    assert [one.minibatch_index for one in job.failed_items()] == [2]
    with pytest.raises(ValueError, match="invalid literal"):
        prs.try_batch(job, failed=True)
    (folder / "code/score.py").write_text("def run(mini_batch): return mini_batch\n")
    assert job.resume(code="new").wait().complete


def test_a_job_goes_on_without_the_python_that_handed_it_in(folder: Path, fleet: prs.Fleet):
    job_file(folder, held(folder), files=10, name="left", output="out")
    code = f"""
    import prs
    fleet = prs.Fleet({fleet.broker!r}, {fleet.redis!r}, {fleet.storage!r})
    job = prs.submit("job.yml", fleet=fleet)
    print(job.id, job._child._pid, flush=True)
    {WAITS}"""
    child = python(code, folder=folder, start_new_session=True)
    job_id, pid = child.stdout.readline().split()
    assert child.stdout.readline() == "waits\n"
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt"), err
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the program that waited is gone")
    (folder / "go").touch()
    job = prs.job(job_id, fleet=fleet)
    assert job.wait().complete and not (folder / "out/parallel_run_step.txt").exists()


def test_a_job_is_waited_for_without_the_program_that_waited(folder: Path, fleet: prs.Fleet):
    job = prs.submit(job_file(folder, held(folder), files=10, name="followed"), fleet=fleet)
    os.kill(job._child._pid, signal.SIGKILL)
    (folder / "go").touch()
    assert job.wait().complete


def test_a_result_is_fetched_where_output_could_not_be_filled(folder: Path, fleet: prs.Fleet):
    job = prs.submit(job_file(folder, held(folder), name="taken", output="out"), fleet=fleet)
    wait_until((folder / "out").is_dir, "the folder is claimed")
    (folder / "out/parallel_run_step.txt").write_text("mine")
    (folder / "go").touch()
    copied = job.result(folder / "copy")
    assert len(copied.read_text().splitlines()) == 4 and job.wait().complete
    assert any("is not overwritten" in note for note in job.notes)
    (folder / "go").unlink()
    path = job_file(folder, held(folder), name="taken", output="other", allow_reuse="false")
    again = prs.submit(path, fleet=fleet)
    wait_until((folder / "other").is_dir, "the folder is claimed")
    (folder / "other/parallel_run_step.txt").write_text("mine")
    (folder / "go").touch()
    with pytest.raises(prs.PrsError, match=r"is not overwritten.*result.*--output-path"):
        again.result()
    assert again.wait().complete


def test_a_job_of_a_fleet_is_canceled(folder: Path, fleet: prs.Fleet):
    job = prs.submit(job_file(folder, SLOW, files=300, name="long"), fleet=fleet)
    assert job.cancel().state == "canceled"
    with pytest.raises(prs.Canceled):
        job.wait()
