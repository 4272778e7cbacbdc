"""Jobs at a server, from Python without a program: handed in with what they name, waited for, read,
resumed."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import stat
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from package import FAILS, NAMES, SLOW, held, job_file, keys_of_job, prs, python, wait_until

NAMES_OF_FILES = ["000.txt", "001.txt", "002.txt", "003.txt"]


def test_a_job_file_gives_its_result(folder: Path, serve: Callable[..., Any]):
    server = serve()
    job = prs.submit(job_file(folder), server=server.url)
    assert isinstance(job, prs.Job) and repr(job) == f"<prs.Job {job.id} at {server.url}>"
    status = job.wait()
    assert (status.state, status.complete, status.rows) == ("completed", True, 4)
    assert status.mini_batches == prs.MiniBatchCounts(scheduled=4, succeeded=4, failed=0)
    # The server is this machine, so the file is that of the job.
    assert job.result() == folder / "prs-runs" / job.id / "output/parallel_run_step.txt"
    assert job.result(folder / "copy") == folder / "copy/parallel_run_step.txt"
    assert (folder / "copy/parallel_run_step.txt").read_text().splitlines() == NAMES_OF_FILES
    with pytest.raises(prs.UsageError, match="is there already"):
        job.result(folder / "copy")
    assert list(job.dataframe()["row"]) == NAMES_OF_FILES
    assert job.failed_items() == [] and job.errors() == []
    assert "job_result.txt" in [log.file for log in job.logs()]
    assert job.logs("job_result.txt").startswith("completed")
    with pytest.raises(prs.UsageError, match="no file"):
        job.logs("nothing.txt")
    assert job.show()["name"] == "names" and job.output and isinstance(job.notes, list)
    assert job.url == f"{server.url}/jobs/{job.id}"
    with pytest.raises(prs.UsageError, match="at a server, and its data there"):
        prs.try_batch(job)


def test_a_copy_is_made_where_the_file_is_elsewhere(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    job = prs.submit(job_file(folder), server=serve().url)
    monkeypatch.setattr(type(job.server), "is_loopback", False)
    path = job.result()
    assert path.name == "parallel_run_step.txt" and folder not in path.parents
    assert path.read_text().splitlines() == NAMES_OF_FILES
    assert job.result() == path, "it is not fetched again"


def test_a_server_of_this_user_needs_nothing(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(prs.UsageError, match="none of yours runs on this machine"):
        prs.connect()
    server = serve()
    found = prs.connect()
    assert found.url == server.url and found.whoami()["role"] == "admin" and found.version()
    monkeypatch.setenv("PRS_SERVER", server.url)
    job = prs.submit(job_file(folder))
    assert job.wait().complete and prs.job("@latest").id == job.id and prs.job("names").id == job.id
    assert prs.job(job.id[:-1]).id == job.id
    assert [one.job_id for one in prs.jobs(name="names", state="completed", since="1h", limit=3)] == [job.id]
    assert prs.jobs(name="name") == [] and prs.jobs(state=["failed"]) == []
    with pytest.raises(prs.UsageError, match="there is no job nobody"):
        prs.job("nobody")
    # A place that is named comes before the variable.
    with pytest.raises(prs.ProgramNotFound):
        prs.submit(folder / "job.yml", runs="runs")
    with pytest.raises(prs.ProgramNotFound):
        prs.jobs(server=False)
    with pytest.raises(prs.UsageError, match="give one of them"):
        prs.submit(folder / "job.yml", server=server.url, fleet="staging")
    with pytest.raises(TypeError, match="server is a URL"):
        prs.jobs(server=5)


def test_the_file_of_a_server_is_of_its_user_alone(folder: Path, serve: Callable[..., Any]):
    server = serve()
    path = folder / f"run/prs/serve-{server.port}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(prs.UsageError, match="is not yours alone"):
        prs.connect(server.url)
    path.unlink()
    with pytest.raises(prs.AccessDenied, match="asks for a token"):
        prs.connect(server.url)
    assert prs.connect(server.url, server.token("read")).whoami()["role"] == "read"


def test_a_token_is_told_to_its_own_server_and_to_nobody_else(
    folder: Path, serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    server = serve()
    token = server.token("submit")
    monkeypatch.setenv("PRS_SERVER", "https://prs.example.org")
    monkeypatch.setenv("PRS_TOKEN", token)
    # The token is that of the other server; this one has its file.
    assert prs.connect(server.url).whoami()["role"] == "admin"
    monkeypatch.setenv("PRS_SERVER", server.url)
    found = prs.connect()
    assert found.whoami()["role"] == "submit"
    secret = token.split("_")[2]
    shown = [repr(found), repr(vars(found)), repr(found.connection), repr(found.connection.credentials)]
    for wrong in (token + "0", "prs_0_0_0", "a\nb", "tok en", "ü"):
        with pytest.raises(prs.PrsError) as raised:
            prs.connect(server.url, wrong)
        assert wrong not in str(raised.value)
    with pytest.raises(TypeError, match="cannot be pickled") as refused:
        pickle.dumps(found)
    assert not any(secret in text for text in [*shown, str(raised.value), str(refused.value)])
    with pytest.raises(prs.UsageError, match="has no password") as raised:
        prs.connect(f"https://me:{secret}@prs.example.org")
    assert secret not in str(raised.value)
    with pytest.raises(prs.UsageError, match="is no https URL"):
        prs.connect("http://prs.example.org")


def test_a_role_that_is_too_low_is_told(folder: Path, serve: Callable[..., Any]):
    server = serve()
    reads = prs.connect(server.url, server.token("read"))
    with pytest.raises(prs.AccessDenied, match="role submit") as raised:
        reads.submit(job_file(folder))
    problem = raised.value.problem
    assert problem is not None and (problem.type, problem.status) == ("forbidden", 403) and problem.request_id
    assert raised.value.code == "forbidden" and reads.jobs() == []
    with pytest.raises(prs.AccessDenied):
        prs.connect(server.url, "prs_000000000000_" + "0" * 64 + "_00000000")


def test_what_is_no_job_is_refused_with_its_lines(folder: Path, serve: Callable[..., Any]):
    server = prs.connect(serve().url)
    with pytest.raises(prs.JobFileError, match=r"job\.yml:8: node_cout: there is no such key") as raised:
        server.submit(job_file(folder, node_cout=1))
    assert raised.value.problem.errors[0]["key"] == "node_cout"
    with pytest.raises(prs.JobFileError, match="job: node_cout: there is no such key"):
        server.submit({**keys_of_job(), "node_cout": 1})
    with pytest.raises(prs.JobFileError, match="node_cout: there is no such key"):
        server.submit(job_file(folder), node_cout=1)
    with pytest.raises(prs.JobFileError, match="cannot read the job file"):
        server.submit("absent.yml")
    with pytest.raises(prs.JobFileError, match=r"inputs\[0\]\.path: cannot read nothing"):
        server.submit({**keys_of_job(), "inputs": [{"type": "file", "path": "nothing"}]})
    with pytest.raises(TypeError, match="a job is the path of a job file"):
        server.submit(5)
    with pytest.raises(prs.UsageError, match="no line breaks"):
        server.submit(folder / "job.yml", display_name="a\nb")
    assert server.jobs() == []


def test_missing_items_are_told_and_resumed(folder: Path, serve: Callable[..., Any]):
    path = job_file(folder, FAILS)
    (folder / "data/001.txt").write_text("n/a")
    server = prs.connect(serve().url)
    job = server.submit(path)
    with pytest.raises(prs.Incomplete, match="1 of 4 items are missing") as raised:
        job.wait()
    assert raised.value.traceback.rstrip().endswith(
        "ValueError: invalid literal for int() with base 10: 'n/a'"
    )
    assert job.result(allow_incomplete=True).read_text() == "0\n2\n3\n"
    (failed,) = job.failed_items()
    assert failed.items[0].endswith("001.txt") and failed.tries[0].category == "ValueError"
    (error,) = job.errors()
    assert error.frame.function.startswith(("run", "<listcomp>")) and "Traceback" in error.traceback
    script = folder / "code/score.py"
    script.write_text(script.read_text().replace("int(", "len("))
    with pytest.raises(prs.UsageError, match="mini_batch_size"):
        job.resume(code="new", mini_batch_size=3)
    with pytest.raises(prs.UsageError, match="give the folder as code"):
        server.job(job.id).resume(code="new")
    assert job.resume(run_max_try=2) is job
    assert job.wait(check=False).items.failed == 1, "with the code of the job it fails again"
    assert server.job(job.id).resume(code=folder / "code").wait().complete
    assert job.result().read_text() == "0\n3\n2\n3\n"
    assert job.resume().wait().complete, "nothing is left"
    again = job.resubmit(mini_batch_size=2, display_name="again", tags={"why": "faster"})
    assert again.id != job.id and again.wait(check=False).mini_batches.scheduled == 2
    assert again.status().record["tags"] == {"why": "faster"}


def test_a_job_is_canceled_and_a_wait_ends_in_time(folder: Path, serve: Callable[..., Any]):
    job = prs.submit(job_file(folder, SLOW, files=200), server=serve().url)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="it goes on"):
        job.wait(timeout=0.3)
    with pytest.raises(TimeoutError):
        job.wait(timeout=1.5, progress=False)
    assert time.monotonic() - began < 10
    with pytest.raises(prs.UsageError, match="nothing to resume"):
        job.resume()
    with pytest.raises(prs.UsageError):
        job.failed_items()
    assert job.cancel().state == "canceled"
    with pytest.raises(prs.Canceled):
        job.wait()
    assert job.cancel().state == "canceled"


def test_a_coroutine_waits_and_the_loop_goes_on(folder: Path, serve: Callable[..., Any]):
    url, path = serve().url, job_file(folder, SLOW, files=5)

    async def both() -> tuple[list[prs.Status], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.05)

        ticker = asyncio.create_task(tick())
        jobs = await asyncio.gather(*(prs.submit_async(path, server=url, allow_reuse=False) for _ in "ab"))
        with pytest.raises(TimeoutError):
            await jobs[0].wait_async(timeout=0.01)
        ended = await asyncio.gather(*(job.wait_async() for job in jobs))
        ticker.cancel()
        return list(ended), ticks

    ended, ticks = asyncio.run(both())
    assert [status.complete for status in ended] == [True, True] and ticks > 10
    assert ended[0].job_id != ended[1].job_id


def test_ctrl_c_leaves_a_job_as_it_is(folder: Path, serve: Callable[..., Any]):
    url = serve().url
    job_file(folder, held(folder))
    code = f"""
    import prs
    job = prs.submit("job.yml", server={url!r})
    print(job.id, flush=True)
    job.wait(progress=False)
    """
    child = python(code, folder=folder)
    assert child.stdout is not None
    job = prs.job(child.stdout.readline().strip(), server=url)
    wait_until(lambda: job.status().mini_batches.ended > 0, "it runs")
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    assert "KeyboardInterrupt" in said and child.returncode != 0
    assert job.state == "running"
    (folder / "go").touch()
    assert job.wait().complete


def test_a_fork_asks_over_connections_of_its_own(folder: Path, serve: Callable[..., Any]):
    job = prs.submit(job_file(folder), server=serve().url)
    assert job.wait().complete
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if job.status().complete and job.result() else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert job.status().complete


def test_an_endpoint_is_called(folder: Path, serve: Callable[..., Any]):
    server = serve("--allow-path", str(folder))
    with pytest.raises(prs.UsageError, match="endpoint nobody") as raised:
        prs.invoke("nobody", "azureml:x:1", server=server.url)
    assert raised.value.code == "endpoint-not-found"
    job_file(folder, NAMES)
    (folder / "model").mkdir()
    (folder / "model/m.bin").write_text("m")
    (folder / "deployment.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/modelBatchDeployment.schema.json\n"
        "name: one\nendpoint_name: heart\ntype: model\nmodel: {path: model, type: custom_model}\n"
        "code_configuration: {code: code, scoring_script: score.py}\nenvironment: local\n"
        "settings: {mini_batch_size: 1, output_action: append_row}\n"
    )
    server.run("endpoint", "create", "--name", "heart")
    server.run("deployment", "create", "-f", "deployment.yml", "--endpoint-name", "heart", "--set-default")
    job = prs.invoke(
        "heart",
        {"data": {"path": str(folder / "data"), "type": "uri_folder"}},
        name="call-1",
        mini_batch_size=2,
    )
    assert job.id == "call-1"
    status = job.wait()
    assert status.complete and status.record["endpoint"] == "heart"
    with pytest.raises(prs.UsageError, match="call-1"):
        prs.invoke("heart", {"data": str(folder / "data")}, name="call-1")
    calls = prs.connect(server.url, server.token("invoke", "--endpoint", "heart"))
    own = calls.invoke("heart", str(folder / "data"))
    assert own.wait().complete and own.dataframe() is not None
    assert [each.job_id for each in calls.jobs()] == [own.id], "others' calls are not listed"
