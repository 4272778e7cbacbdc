"""What a script finds around it: EntryScript, the context, logs, profile (spec E5, E12-E14)."""

from __future__ import annotations

import pstats
import re
import subprocess
import sys

import pytest
from harness import PACKAGE, eventually, extension, files

ENTRY = "from azureml_user.parallel_run import EntryScript\n"


def test_the_context_tells_the_mini_batch(start):
    script = (
        "import copy, pickle\n"
        "def run(mini_batch, mini_batch_context):\n"
        "    rows = []\n"
        "    for c in (mini_batch_context, copy.deepcopy(mini_batch_context),\n"
        "              pickle.loads(pickle.dumps(mini_batch_context))):\n"
        "        d = c.dataset\n"
        "        rows.append([c.minibatch_index, c.mini_batch_id, c.partition_key_value, "
        "c.retry_count, c.dataset_name,\n"
        "                     d.name, d.type, d.path, c.items])\n"
        "    return rows\n"
    )
    process = start(script, inputs=[["images", "file", "/in/*.png"]]).ready()
    process.run()
    process.hand_over(files("a"), retry_count=2)
    row = "[1, 'mb-0000000001', {}, 2, 'images', 'images', 'file', '/in/*.png', ['a']]"
    assert process.outcome().rows.decode().splitlines() == [row] * 3


def test_items_are_named_as_in_the_dataset_whatever_becomes_of_their_paths(start):
    script = (
        "def run(mini_batch, context):\n"
        "    paths = mini_batch[:]\n"
        "    mini_batch.clear()\n"
        "    return [*zip(paths, context.items), context.items is context.items]\n"
    )
    process = start(script).ready()
    for work, expected in [
        (files("x/a", "b"), [("/data/x/a", "x/a"), ("/data/b", "b")]),
        (files("/c/a", "/d/ü", base=""), [("/c/a", "/c/a"), ("/d/ü", "/d/ü")]),
        (files("a", names=("s3://bucket/a",)), [("/data/a", "s3://bucket/a")]),
    ]:
        assert process.run(work).rows.decode().splitlines() == [*map(str, expected), "True"]


def test_entry_script_is_one_picklable_object(start):
    script = (
        "import copy, pickle\n" + ENTRY + "e = EntryScript()\n"
        "def run(mini_batch):\n"
        "    same = e is EntryScript() is pickle.loads(pickle.dumps(e)) is copy.deepcopy(e) is copy.copy(e)\n"
        "    return [same, e.agent_name, e.node_id, e.logging_level, e.log_dir, e.working_dir, "
        "e.output_dir]\n"
    )
    process = start(script, logging_level="DEBUG").ready()
    fields = process.start_fields
    assert process.run().rows.decode().splitlines() == [
        "True",
        "process007",
        "3",
        "DEBUG",
        fields["log_dir"],
        fields["working_dir"],
        fields["output_dir"],
    ]


def test_entry_script_works_in_a_plain_interpreter(tmp_path):
    code = (
        ENTRY + "import os, pickle\ne = EntryScript()\nbefore = os.listdir('.')\n"
        "e.logger.info('hello')\nprint(before, e.agent_name, e.node_id, e.logging_level)\n"
        "print(e.log_dir, e.working_dir, e.output_dir, all(map(os.path.isdir, (e.log_dir, e.output_dir))))\n"
        "print(pickle.loads(pickle.dumps(e)) is e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hello" in done.stderr
    assert done.stdout.splitlines() == [
        "[] process000 0 INFO",
        f"{tmp_path}/logs {tmp_path} {tmp_path}/outputs True",
        "True",
    ]


def test_starting_the_module_by_hand_says_what_it_is(tmp_path):
    (tmp_path / "azureml_user").symlink_to(PACKAGE)
    (tmp_path / "prs_process.abi3.so").symlink_to(extension())
    done = subprocess.run(
        [sys.executable, "-m", "azureml_user.parallel_run.process"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "prs worker" in done.stderr


def test_the_root_logger_goes_to_standard_output(start):
    script = (
        "import logging\nlogging.info('at import')\n"
        "def run(mini_batch):\n"
        "    logging.debug('quiet')\n    logging.getLogger('mine').warning('loud')\n    return mini_batch\n"
    )
    process = start(script).ready()
    process.run()
    lines = process.stdout.splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\|", "", line) for line in lines] == [
        "INFO|root|at import",
        "WARNING|mine|loud",
    ]
    process = start(script, logging_level="DEBUG").ready()
    process.run()
    assert "DEBUG|root|quiet" in process.stdout
    process = start(script, logging_level="WARNING").ready()
    process.run()
    assert "at import" not in process.stdout


def test_the_scripts_own_logger_goes_to_its_file(start):
    script = (
        ENTRY + "def init():\n    EntryScript().logger.info('init ü')\n"
        "def run(mini_batch):\n    EntryScript().logger.debug('quiet')\n    return mini_batch\n"
    )
    process = start(script).ready()
    process.run()
    text = (process.folder / "entry_script_log" / "process007.log.txt").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 1
    assert "|INFO|" in text
    assert text.endswith("init ü\n")
    assert process.stdout == ""


def test_prints_and_c_level_writes_land_in_the_files(start):
    script = (
        "import os, subprocess, sys\n"
        "def run(mini_batch):\n"
        "    print('line')\n    print('part', end='')\n    print('err', file=sys.stderr)\n"
        "    sys.stdout.flush()\n    os.write(1, b'|c|')\n    subprocess.run(['echo', 'child'])\n"
        "    print('x' * 3_000_000)\n    print('no end', end='')\n    return mini_batch\n"
    )
    process = start(script).ready()
    process.run()
    assert process.stdout == "line\npart|c|child\n" + "x" * 3_000_000 + "\nno end"
    assert process.stderr == "err\n"


def test_text_no_file_can_hold_does_not_fail_a_print(start):
    process = start("def run(mini_batch):\n    print('\\udc80')\n    return mini_batch\n").ready()
    assert process.run().error is None
    assert process.stdout == "\\udc80\n"


PROFILED = (
    "import time\ndef slow_thing():\n    return sum(range(1000))\ndef init():\n    slow_thing()\n"
    "def run(mini_batch):\n    for p in mini_batch:\n        slow_thing()\n        yield p\n"
)


def test_the_profile_is_written(start, tmp_path):
    path = tmp_path / "sys" / "node" / "3" / "process007.profile"
    process = start(PROFILED, arguments=["--profiling_module", "cProfile"], profile_path=str(path)).ready()
    process.run()
    process.run()
    assert process.shutdown() is None
    stats = pstats.Stats(str(path)).stats
    ((calls, *_),) = [value for key, value in stats.items() if key[2] == "slow_thing"]
    assert calls == 5, "once in init() and twice in each run(), whose generator counts too"


def test_the_profile_is_written_now_and_then(start, tmp_path):
    path = tmp_path / "p.profile"
    process = start(PROFILED, arguments=["--profiling_module=cProfile"], profile_path=str(path)).ready()
    process.run()
    eventually(path.exists, "writing the profile")


def test_a_process_that_ran_nothing_writes_no_profile(start, tmp_path):
    path = tmp_path / "p.profile"
    script = "def run(mini_batch):\n    return mini_batch\n"
    process = start(script, arguments=["--profiling_module", "cProfile"], profile_path=str(path)).ready()
    assert process.shutdown() is None
    assert not path.exists()


def test_another_profiler_is_refused(start):
    error = start(PROFILED, arguments=["--profiling_module", "yappi"]).init_failed()
    assert "'yappi' is not known; cProfile is" in error.message


def test_an_error_is_described_the_same_under_the_profiler(start):
    process = start("def run(mini_batch):\n    1 / 0\n", arguments=["--profiling_module", "cProfile"]).ready()
    error = process.run().error
    assert error.category == "ZeroDivisionError"
    assert error.traceback.count("File ") == 1


def test_faulthandler_can_be_switched_on(start):
    script = "import os\ndef run(mini_batch):\n    os.kill(os.getpid(), 11)\n"
    process = start(script, environment={"PYTHONFAULTHANDLER": "true"}).ready()
    process.hand_over(files("a"))
    process.wait()
    assert "Fatal Python error: Segmentation fault" in process.stderr
    assert "in run" in process.stderr


@pytest.mark.parametrize(
    "change",
    [
        "os.chdir('/')",
        "os.environ.clear()",
        "sys.path.clear(); sys.modules.pop('os')",
        "sys.setrecursionlimit(50)",
        "os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})",
        "signal.setitimer(signal.ITIMER_REAL, 1000)",
    ],
)
def test_a_script_that_changes_them_harms_nobody(start, change):
    script = (
        "import os, signal, sys\nfrom marker import name_of\n"
        "def run(mini_batch, context):\n"
        f"    if context.minibatch_index == 1:\n        {change}\n"
        "    with open(os.path.join(context.output_dir, 'file'), 'w') as file:\n        file.write('x')\n"
        "    return [name_of(path) for path in mini_batch]\n"
    )
    helper = "import os\ndef name_of(path): return os.path.basename(path)\n"
    process = start(script, code={"marker.py": helper}).ready()
    for name in "abc":
        outcome = process.run(files(name))
        assert (outcome.error, outcome.rows, outcome.files) == (None, name.encode() + b"\n", ["file"])
    assert process.shutdown() is None


def test_times_are_told(start):
    script = (
        "import time\ndef run(mini_batch):\n    time.sleep(0.03)\n    sum(range(2_000_000))\n"
        "    return mini_batch\n"
    )
    process = start(script).ready()
    outcome = process.run()
    assert 30_000 < outcome.run_us <= outcome.elapsed_us
    assert 5_000 < outcome.cpu_us < outcome.elapsed_us
    again = process.run()
    assert again.started_us >= outcome.started_us + outcome.elapsed_us - 1
    eventually(lambda: process.page.phase == "Idle", "being idle")


def test_importing_the_package_is_quick_and_light():
    code = "import sys; from azureml_user.parallel_run import EntryScript; print('json' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
