"""Jobs from Python, on this machine: handed in, waited for, read, looked into, resumed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from package import FAILS, NAMES, SLOW, job_file, keys_of_job, prs, wait_until

NAMES_OF_FILES = ["000.txt", "001.txt", "002.txt", "003.txt"]


def test_a_job_file_gives_its_result(folder: Path):
    job = prs.submit(job_file(folder))
    status = job.wait()
    assert (status.state, status.complete, status.rows) == ("completed", True, 4)
    assert status.mini_batches == prs.MiniBatchCounts(scheduled=4, succeeded=4, failed=0)
    path = job.result()
    assert path == folder / "prs-runs" / job.id / "output/parallel_run_step.txt"
    assert path.read_text().splitlines() == NAMES_OF_FILES
    assert job.result(folder / "copy") == folder / "copy/parallel_run_step.txt"
    assert job.output == str(path.parent)
    assert list(job.dataframe()["row"]) == NAMES_OF_FILES
    assert job.failed_items() == [] and job.errors() == []
    assert "job_result.txt" in [log.file for log in job.logs()]
    assert job.logs("job_result.txt").startswith("completed")
    assert any(f"job {job.id} runs in" in note for note in job.notes)
    assert job.show()["name"] == "names"


def test_a_mapping_starts_from_the_current_folder(folder: Path):
    job_file(folder)
    job = prs.submit({**keys_of_job(), "inputs": [{"type": "file", "path": Path("data")}]}, mini_batch_size=2)
    assert job.wait().mini_batches.scheduled == 2
    assert job.result().read_text().splitlines() == NAMES_OF_FILES


def test_settings_are_those_of_set(folder: Path):
    path = job_file(folder)
    assert prs.submit(path, mini_batch_size=4).wait().mini_batches.scheduled == 1
    with pytest.raises(
        prs.JobFileError, match="--set node_cout: there is no such key: did you mean `node_count`"
    ):
        prs.submit(path, node_cout=1)
    with pytest.raises(prs.JobFileError, match="can only be changed in the job file"):
        prs.submit(path, entry_script="other.py")


def test_what_is_no_job_is_refused_in_the_programs_words(folder: Path):
    path = job_file(folder, node_cout=1)
    with pytest.raises(prs.JobFileError, match=r"job\.yml:8: node_cout: there is no such key") as raised:
        prs.submit(path)
    assert (raised.value.code, raised.value.exit_code) == ("usage", 2)
    with pytest.raises(prs.JobFileError, match="standard input:1: node_cout: there is no such key"):
        prs.submit({**keys_of_job(), "node_cout": 1})
    with pytest.raises(prs.JobFileError, match="cannot read the job file"):
        prs.submit("absent.yml")
    with pytest.raises(prs.UsageError, match="--detach is for jobs on a fleet"):
        prs.submit(job_file(folder), detach=True)
    with pytest.raises(TypeError, match="a job is the path of a job file"):
        prs.submit(5)
    assert not (folder / "prs-runs").exists()


def test_missing_items_raise_with_the_traceback_and_are_resumed(folder: Path):
    path = job_file(folder, FAILS)
    (folder / "data/001.txt").write_text("n/a")
    job = prs.submit(path)
    with pytest.raises(prs.Incomplete, match="1 of 4 items are missing") as raised:
        job.wait()
    assert raised.value.exit_code == 10 and raised.value.status.state == "completed"
    assert raised.value.traceback.rstrip().endswith(
        "ValueError: invalid literal for int() with base 10: 'n/a'"
    )
    with pytest.raises(prs.Incomplete):
        job.result()
    assert job.result(allow_incomplete=True).read_text() == "0\n2\n3\n"
    assert job.wait(check=False).items.failed == 1
    (failed,) = job.failed_items()
    assert failed.items == [str(folder / "data/001.txt")] and failed.tries[0].category == "ValueError"
    (error,) = job.errors()
    assert error.frame.function.startswith(("run", "<listcomp>")) and "Traceback" in error.traceback

    script = folder / "code/score.py"
    script.write_text(script.read_text().replace("int(", "len("))
    with pytest.raises(prs.UsageError, match="--code new"):
        job.resume()
    with pytest.raises(prs.UsageError, match="mini_batch_size: it says which mini-batches there are"):
        job.resume(code="new", mini_batch_size=3)
    mended = script.read_text()
    script.write_text("def init(): raise OSError('no model')\ndef run(b): return b")
    with pytest.raises(prs.JobFailed, match=r"start 2 .* failed: .*what start 1 completed stands") as raised:
        job.resume(code="new").wait()
    assert "no model" in raised.value.reason and raised.value.exit_code == 42
    assert job.result(allow_incomplete=True).read_text() == "0\n2\n3\n"
    script.write_text(mended)
    assert job.resume(code="new", run_max_try=2) is job
    assert job.wait().complete
    assert job.result().read_text() == "0\n3\n2\n3\n"


def test_nothing_is_left_to_resume(folder: Path):
    job = prs.submit(job_file(folder))
    job.wait()
    assert job.resume().wait().complete


def test_a_failed_job_says_why(folder: Path):
    job = prs.submit(job_file(folder, "def init(): raise OSError('no model')\ndef run(b): return b"))
    with pytest.raises(prs.JobFailed, match="no model") as raised:
        job.wait()
    assert "no model" in raised.value.traceback and raised.value.reason and raised.value.exit_code == 42
    assert isinstance(raised.value, prs.JobError) and isinstance(raised.value, prs.PrsError)
    assert job.wait(check=False).state == "failed"


def test_a_job_is_canceled(folder: Path):
    job = prs.submit(job_file(folder, SLOW, files=200))
    wait_until(lambda: job.state == "running", "it runs")
    assert job.cancel().state == "canceled"
    with pytest.raises(prs.Canceled):
        job.wait()
    assert job.cancel().state == "canceled"


def test_a_wait_ends_in_time(folder: Path):
    job = prs.submit(job_file(folder, SLOW, files=200))
    with pytest.raises(TimeoutError, match="it goes on"):
        job.wait(timeout=0.3)
    with pytest.raises(prs.UsageError, match="nothing to resume"):
        job.resume()
    job.cancel()


def test_jobs_are_found(folder: Path):
    first = prs.submit(job_file(folder), runs="runs")
    first.wait()
    second = prs.submit(folder / "job.yml", runs="runs", allow_reuse=False, mini_batch_size=2)
    second.wait()
    assert [status.job_id for status in prs.jobs(runs="runs")] == [second.id, first.id]
    assert len(prs.jobs(runs="runs", name="names", state="completed", since="1h", limit=1)) == 1
    assert prs.jobs(runs="runs", state=["failed"]) == []
    for name in ["@latest", "names", second.id, folder / "runs" / second.id]:
        found = prs.job(name, runs="runs")
        assert found.id == second.id and found.wait().complete and found.result() == second.result()
    with pytest.raises(prs.UsageError, match="there is no job"):
        prs.job("nobody", runs="runs")


def test_what_was_made_before_is_given(folder: Path):
    first = prs.submit(job_file(folder))
    assert first.wait().reused_from is None
    second = prs.submit(folder / "job.yml")
    assert second.wait().reused_from in (first.id, None)
    assert second.result().read_text() == first.result().read_text()


@pytest.mark.parametrize(
    ("output_format", "rows"),
    [("csv", ["a"]), ("json_lines", ["a"]), ("parquet", ["a"]), ('{delimiter: ";", header: false}', [0])],
)
def test_a_result_is_a_dataframe(folder: Path, output_format: str, rows: list):
    script = """\
    import pandas
    def run(mini_batch):
        return pandas.DataFrame({"a": [len(path) * 0 + 7 for path in mini_batch], "b": "x;y"})
    """
    job = prs.submit(job_file(folder, script, output_format=output_format))
    frame = job.dataframe()
    assert list(frame[rows[0]]) == [7] * 4 and list(frame.iloc[:, 1]) == ["x;y"] * 4


def test_values_of_json_lines_are_as_they_are_written(folder: Path):
    script = """\
    def run(mini_batch):
        return [{"id": "007", "date": "2024-01-02", "p": 0.7, "q": 0.3, "big": 2**64} for _ in mini_batch]
    """
    job = prs.submit(job_file(folder, script, files=1, output_format="json_lines"))
    row = {"id": "007", "date": "2024-01-02", "p": 0.7, "q": 0.3, "big": 2**64}
    assert job.dataframe().to_dict("records") == [row]


def test_options_for_json_lines_are_those_of_pandas(folder: Path):
    script = "def run(mini_batch):\n    return [{'id': '007', 'p': 0.7} for _ in mini_batch]\n"
    job = prs.submit(job_file(folder, script, files=1, output_format="json_lines"))
    assert job.dataframe(dtype={"id": int}).to_dict("records") == [{"id": 7, "p": 0.7}]


def test_a_format_that_is_not_known_is_told(folder: Path):
    (folder / "result").write_text("")
    with pytest.raises(prs.ProgramMismatch, match="written as avro, which this package does not know"):
        prs.results.dataframe(folder / "result", "avro", {})


def test_a_job_stays_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever becomes of the current folder and of variables."""
    path = job_file(folder, FAILS)
    (folder / "data/001.txt").write_text("n/a")
    job = prs.submit(path)
    (folder / "elsewhere/data").mkdir(parents=True)
    monkeypatch.chdir(folder / "elsewhere")
    for name in ["BROKER", "REDIS", "STORAGE"]:
        monkeypatch.setenv(f"PRS_{name}_URL", f"{name}://127.0.0.1:1")
    with pytest.raises(prs.Incomplete):
        job.wait()
    assert prs.try_batch(job, item="../data/002.txt").result == [2]
    assert prs.try_batch(job, item="002.txt").result == [2]
    (folder / "data/001.txt").write_text("1")
    assert job.resume(code="old").wait().complete
    assert job.result("copy") == folder / "elsewhere/copy/parallel_run_step.txt"
    assert job.logs("job_result.txt").startswith("completed")


def test_a_folder_that_is_called_as_a_job_is_none(folder: Path):
    job = prs.submit(job_file(folder))
    job.wait()
    (folder / job.id).mkdir()
    found = prs.job(job.id)
    assert found.named[0] == job.id and found.result() == job.result()


def test_a_coroutine_waits_and_the_loop_goes_on(folder: Path):
    path = job_file(folder, SLOW, files=5)

    async def both() -> tuple[list[prs.Status], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.05)

        ticker = asyncio.create_task(tick())
        jobs = await asyncio.gather(prs.submit_async(path, runs="a"), prs.submit_async(path, runs="b"))
        with pytest.raises(TimeoutError):
            await jobs[0].wait_async(timeout=0.01)
        ended = await asyncio.gather(*(job.wait_async() for job in jobs))
        ticker.cancel()
        return list(ended), ticks

    ended, ticks = asyncio.run(both())
    assert [status.complete for status in ended] == [True, True] and ticks > 10


def test_threads_have_jobs_of_their_own(folder: Path):
    path = job_file(folder)
    ended = []

    def one(runs: str) -> None:
        ended.append(prs.submit(path, runs=runs).wait(progress=False).complete)

    threads = [threading.Thread(target=one, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [True] * 3


def test_a_job_outlives_the_thread_that_handed_it_in(folder: Path):
    path, jobs = job_file(folder, SLOW, files=5), []
    thread = threading.Thread(target=lambda: jobs.append(prs.submit(path)))
    thread.start()
    thread.join()
    assert jobs[0].wait().complete


def test_a_job_file_of_azure_takes_keys_with_dots(folder: Path):
    job_file(folder)
    (folder / "azure.yml").write_text(
        "type: parallel\nname: azure\ninputs: {files: {type: uri_folder, path: 'azureml:files:1'}}\n"
        "outputs: {rows: {type: uri_file}}\ninput_data: ${{inputs.files}}\nmini_batch_size: '2'\n"
        "task: {type: run_function, code: code, entry_script: score.py, append_row_to: '${{outputs.rows}}'}\n"
    )
    settings = {"inputs.files.path": folder / "data", "mini_batch_size": 1}
    assert prs.submit("azure.yml", **settings).wait().mini_batches.scheduled == 4


def test_a_pipeline_has_steps(folder: Path):
    """Steps are commands, which need no script."""
    (folder / "flow.yml").write_text(
        "type: pipeline\ndisplay_name: flow\noutputs: {last: {type: uri_file}}\njobs:\n"
        "  one: {type: command, command: 'echo 1 > ${{outputs.o}}', outputs: {o: {type: uri_file}}}\n"
        "  two:\n    type: command\n    command: cat ${{inputs.i}} > ${{outputs.o}}\n"
        '    inputs: {i: "${{parent.jobs.one.outputs.o}}"}\n    outputs: {o: "${{parent.outputs.last}}"}\n'
    )
    status = prs.submit("flow.yml").wait()
    assert status.complete and [one.state for one in status.steps.values()] == ["completed"] * 2
    assert [one.name for one in prs.jobs()] == ["flow"]


def test_names_are_not_shown_of_servers():
    fleet = prs.Fleet(broker="amqp://me:secret@mq", profile="staging")
    assert repr(fleet) == "Fleet(broker=..., profile='staging')"
    with pytest.raises(TypeError, match="fleet is a profile's name"):
        prs.submit("job.yml", fleet=True)


def test_some_servers_are_no_fleet(folder: Path):
    with pytest.raises(prs.PrsError, match="PRS_REDIS_URL"):
        prs.submit(job_file(folder, NAMES), fleet=prs.Fleet(broker="amqp://localhost:1"))
    unreachable = prs.Fleet("amqp://127.0.0.1:1", "redis://127.0.0.1:1", f"file://{folder}/storage")
    with pytest.raises(prs.Unreachable, match=r"127\.0\.0\.1:1"):
        prs.submit(folder / "job.yml", fleet=unreachable)
    assert prs.submit(folder / "job.yml", fleet=False).wait().complete
