"""`prs.try_batch`: the script in this interpreter, with the mini-batch that a job would give it."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from pathlib import Path

import pytest
from package import FAILS, SOURCES, job_file, prs, python


def test_run_is_called_here(folder: Path):
    script = """\
    import os, sys
    from azureml_user.parallel_run import EntryScript
    def init():
        os.environ["OF_THE_SCRIPT"] = "1"
        sys.modules["prs_seen_here"] = sys
    def run(mini_batch, context):
        (open(os.path.join(EntryScript().output_dir, "made.txt"), "w")).close()
        return [(name, context.minibatch_index, sys.argv[-1]) for name in context.items]
    """
    path = job_file(folder, script, files=5, mini_batch_size=2, arguments=["--x", "7"])
    arguments, modules, path_before = sys.argv[:], set(sys.modules), sys.path[:]
    tried = prs.try_batch(path)
    assert tried.result == [("000.txt", 0, "7"), ("001.txt", 0, "7")]
    assert tried.mini_batch == [str(folder / "data/000.txt"), str(folder / "data/001.txt")]
    assert (tried.items, tried.returned, tried.is_complete) == (2, 2, True)
    assert (tried.output / "made.txt").exists() and tried.init_seconds > 0
    assert "prs_seen_here" in sys.modules
    assert (sys.argv, sys.path) == (arguments, path_before) and "OF_THE_SCRIPT" not in os.environ
    for name in set(sys.modules) - modules:
        del sys.modules[name]

    assert prs.try_batch(path, 2).result == [("004.txt", 2, "7")]
    assert prs.try_batch(path, item="data/003.txt").minibatch_index == 1
    assert prs.try_batch(path, mini_batch_size=1).items == 1
    with pytest.raises(prs.UsageError, match="the job has 3 mini-batches"):
        prs.try_batch(path, 9)
    with pytest.raises(prs.JobFileError, match="no such key"):
        prs.try_batch({"entry_script": "score.py", "node_cout": 1})


def test_what_the_script_raises_is_raised_and_a_change_counts(folder: Path):
    path = job_file(folder, FAILS)
    (folder / "data/002.txt").write_text("n/a")
    job = prs.submit(path)
    assert job.wait(check=False).items.failed == 1
    with pytest.raises(ValueError, match="invalid literal") as raised:
        prs.try_batch(job, failed=True)
    last = raised.traceback[-1]
    while "score.py" not in str(last.path):
        last = raised.traceback[raised.traceback.index(last) - 1]
    assert Path(last.path) == folder / "code/score.py"
    (folder / "code/helper.py").write_text("def parse(text): return -1\n")
    script = folder / "code/score.py"
    script.write_text("from helper import parse\n" + script.read_text().replace("int(", "parse("))
    assert prs.try_batch(job, failed=True).result == [-1]
    (folder / "code/helper.py").write_text("def parse(text): return -22\n")
    assert prs.try_batch(job, failed=True).result == [-22]
    with pytest.raises(ValueError, match="invalid literal"):
        prs.try_batch(job, failed=True, code="old")


def test_what_is_no_script_stays_imported():
    """Also where it lies in the folder of the script."""
    before = dict(sys.modules)
    try:
        for folder in [SOURCES, Path(os.path.realpath(sysconfig.get_path("stdlib"))).parent]:
            prs.trial._forget_modules(str(folder))
        kept = dict(sys.modules)
    finally:
        sys.modules.update(before)
    assert "json" in kept and kept["prs.trial"] is prs.trial
    assert "package" not in kept


def test_too_few_elements_are_told(folder: Path):
    tried = prs.try_batch(job_file(folder, "def run(b): return b[1:]", mini_batch_size=3))
    assert (tried.items, tried.returned, tried.is_complete) == (3, 2, False)


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_an_async_script_runs_also_where_a_loop_runs(folder: Path, in_a_loop: bool):
    script = """\
    import asyncio
    async def init():
        global ready
        ready = asyncio.get_running_loop()
    async def run(mini_batch):
        assert asyncio.get_running_loop() is ready
        await asyncio.sleep(0.01)
        return [1 for _ in mini_batch]
    """
    path = job_file(folder, script)

    async def inside() -> prs.TriedBatch:
        return prs.try_batch(path)

    tried = asyncio.run(inside()) if in_a_loop else prs.try_batch(path)
    assert tried.result == [1]


def test_rows_are_a_dataframe_however_many(folder: Path):
    """More than fits into a test file that `prs try --pytest` prints."""
    job_file(folder, "def run(rows):\n        return rows", output_format="csv")
    lines = [f"{number},{'x' * 100}" for number in range(60_000)]
    (folder / "table.csv").write_text("\n".join(["id,text", *lines]) + "\n")
    extension = Path(os.environ["PRS_PROGRAM"]).with_name("libprs_process.so")
    (folder / "packages").mkdir()
    (folder / "packages/prs_process.abi3.so").symlink_to(extension)
    code = """
        import sys
        sys.path.append("packages")
        import prs
        table = {"name": "rows", "type": "tabular", "path": "table.csv"}
        job = {"name": "rows", "source_directory": "code", "entry_script": "score.py"}
        tried = prs.try_batch({**job, "inputs": [table]}, mini_batch_size="10MB")
        print(tried.items, tried.returned, list(tried.result.columns), tried.result["id"].sum())
    """
    out, err = python(code, folder=folder).communicate()
    assert out == f"60000 60000 ['id', 'text'] {sum(range(60_000))}\n", err
