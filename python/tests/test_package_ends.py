"""Programs and Pythons that are ended by force: no job lingers unseen, and each goes on afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from package import SLOW, WAITS, held, job_file, prs, python, wait_until

Child = prs.child.Child

SUBMITS = """
    import os, prs, sys
    job = prs.submit("job.yml")
    while not job.status().nodes:
        pass
    print(job.id, job._child._pid, flush=True)
"""


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_killed_program_is_told_and_its_job_goes_on(folder: Path):
    job = prs.submit(job_file(folder, held(folder), files=20))
    wait_until(lambda: job.status().mini_batches.ended > 0, "something is done")
    os.kill(job._child._pid, signal.SIGKILL)
    (folder / "go").touch()
    with pytest.raises(prs.Killed, match=r"killed by signal 9; .* job\.resume\(\) goes on"):
        job.wait()
    found = prs.job(job.id)
    with pytest.raises(prs.Killed, match=r"the program that ran it is gone"):
        found.wait(check=False)
    assert found.resume().wait().complete and job.wait().complete
    assert len(job.result().read_text().splitlines()) == 20
    assert job.resume().wait().complete


def test_a_job_that_another_goes_on_with_is_followed(folder: Path):
    job = prs.submit(job_file(folder, held(folder), files=20))
    wait_until(lambda: job.status().mini_batches.ended > 0, "something is done")
    os.kill(job._child._pid, signal.SIGKILL)
    (folder / "go").touch()
    wait_until(lambda: job.status().is_final, "it is known to be gone")
    other = prs.job(job.id).resume()
    assert job.wait().complete and other.wait().complete
    assert any("runs in" in note for note in job.notes)


# The system tells the end of a process of many threads many times.
THREADS = "import threading as t; [t.Thread(target=t.Event().wait, daemon=True).start() for _ in range(50)]; "
KILLED = "os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("end", [KILLED, THREADS + KILLED, "pass", "os._exit(0)", "raise SystemExit(3)"])
def test_a_job_ends_with_its_python_and_goes_on_later(folder: Path, end: str):
    job_file(folder, SLOW, files=100)
    child = python(f"{SUBMITS}    {end}\n", folder=folder)
    out, err = child.communicate()
    assert out, err
    job_id, pid = out.split()
    wait_until(lambda: not is_alive(int(pid)), "the program has ended")
    job = prs.job(job_id)
    assert job.status().state == "canceled"
    assert ("is canceled, for this Python ends" in err) == (end in ("pass", "raise SystemExit(3)"))
    job.resume(run_invocation_timeout=50)
    job.cancel()


def test_ctrl_c_in_a_wait_cancels_the_job(folder: Path):
    job_file(folder, SLOW, files=100)
    child = python(f"{SUBMITS.rstrip()}{WAITS}", folder=folder, start_new_session=True)
    job_id, _ = child.stdout.readline().split()
    assert child.stdout.readline() == "waits\n"
    # As a terminal does: to the whole group.
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt"), err
    assert prs.job(job_id).state == "canceled"


def test_ctrl_c_elsewhere_leaves_the_job(folder: Path):
    job_file(folder, held(folder), files=8)
    code = f"""{SUBMITS}
    import time
    try:
        print("sleeps", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        open("go", "w").close()
        print(job.wait().state)
    """
    child = python(code, folder=folder, start_new_session=True)
    child.stdout.readline()
    assert child.stdout.readline() == "sleeps\n"
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert out == "completed\n", err


def test_a_fork_of_this_python_ends_no_job(folder: Path):
    job_file(folder, held(folder), files=10)
    code = f"""{SUBMITS}
    import multiprocessing
    def look():
        job.leave()
        open("go", "w").close()
        print(job.wait(progress=False).state, job.result().name, flush=True)
    # As if a thread had it at the time of the fork.
    with job._child._lock:
        other = multiprocessing.get_context("fork").Process(target=look)
        other.start()
    other.join()
    print(job.wait().state)
    """
    out, err = python(code, folder=folder).communicate(timeout=60)
    assert out.splitlines()[1:] == ["completed parallel_run_step.txt", "completed"], err


def test_no_process_and_no_folder_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    for _ in range(2):
        job = prs.submit(job_file(folder), allow_reuse=False)
        pid = job._child._pid
        job.wait()
        assert not Path(f"/proc/{pid}").exists()
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize("after", [0.02, 0.15, 0.3])
def test_ctrl_c_while_a_job_is_handed_in_leaves_nothing_that_runs(folder: Path, after: float):
    job_file(folder, SLOW, files=100)
    code = (
        "import prs\nprint('imported', flush=True)\nprs.submit('job.yml')\nprint('submitted')\nprs.jobs()\n"
    )
    child = python(code, folder=folder, start_new_session=True)
    child.stdout.readline()
    time.sleep(after)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    # It came while the job was handed in, after the end, or while this Python put itself away.
    assert "KeyboardInterrupt" in err or child.returncode in (0, -signal.SIGINT), err
    wait_until(lambda: all(status.is_final for status in prs.jobs()), "no job runs")


def test_ctrl_c_before_the_program_has_a_number_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch):
    path, started, start = job_file(folder, SLOW, files=100), [], Child._start

    def late(*arguments: Any) -> Any:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.3)
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(Child, "_start", late)
    with pytest.raises(KeyboardInterrupt):
        prs.submit(path)
    wait_until(lambda: bool(started), "the program was started")
    wait_until(lambda: started[0].returncode is not None, "the program has ended")


def test_a_python_that_does_not_hear_ctrl_c_ends_its_jobs(folder: Path):
    job_file(folder, SLOW, files=100)
    deaf = """
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    """
    out, err = python(f"{deaf.rstrip()}{SUBMITS}    os._exit(0)\n", folder=folder).communicate()
    assert out, err
    job_id, pid = out.split()
    wait_until(lambda: not is_alive(int(pid)), "the program has ended")
    assert prs.job(job_id).state == "canceled"


def test_a_job_that_is_made_after_its_task_was_cancelled_does_not_run(folder: Path):
    handing_in = prs.submission._HandingIn()
    handing_in.leave()
    # How it ended depends on how far it was.
    with pytest.raises(prs.PrsError, match=r"canceled|interrupted"):
        handing_in.submit(job_file(folder, SLOW, files=100)).wait()


def test_a_task_that_is_cancelled_while_it_hands_a_job_in_leaves_nothing_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    path, start = job_file(folder, SLOW, files=100), Child._start

    def late(*arguments: Any) -> Any:
        time.sleep(0.3)
        return start(*arguments)

    monkeypatch.setattr(Child, "_start", late)

    async def cancelled() -> None:
        task = asyncio.create_task(prs.submit_async(path))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    wait_until(lambda: [status.is_final for status in prs.jobs()] == [True], "its job has ended")
