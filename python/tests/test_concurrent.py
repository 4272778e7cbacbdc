"""An `async def run`: several mini-batches under way at once (spec E17)."""

from __future__ import annotations

import signal
import time

import pytest
from harness import delimited, eventually, files

GATED = """
import asyncio, os
gates, begun = {}, []
async def run(mini_batch, context):
    index = context.minibatch_index
    begun.append(index)
    gates[index] = asyncio.Event()
    if len(begun) == 3:
        for gate in gates.values():
            gate.set()
            await asyncio.sleep(0)
    await asyncio.wait_for(gates[index].wait(), 30)
    return [f"{os.path.basename(path)} {begun}" for path in mini_batch]
"""


def outcomes(process, count):
    return {one.seq: one for one in (process.outcome() for _ in range(count))}


def test_mini_batches_are_under_way_together(start):
    process = start(GATED, concurrency=3).ready()
    assert process.concurrency == 3
    process.hand_over(*[files(name) for name in "abc"])
    ended = outcomes(process, 3)
    assert sorted(ended) == [1, 2, 3]
    assert ended[2].rows == b"b [0, 1, 2]\n"
    assert process.page.in_flight == {}
    assert process.shutdown() is None


def test_no_more_than_max_concurrency(start):
    process = start(
        "import asyncio\nnow = most = 0\n"
        "async def run(mini_batch):\n"
        "    global now, most\n    now += 1\n    most = max(most, now)\n"
        "    await asyncio.sleep(0.02)\n    now -= 1\n    return [most]\n",
        concurrency=5,
    ).ready()
    process.hand_over(*[files("a")] * 40)
    assert max(int(one.rows) for one in outcomes(process, 40).values()) == 5


def test_a_plain_run_has_no_lanes_and_no_max_concurrency(start):
    assert start("def run(mini_batch): return mini_batch").ready().concurrency is None
    error = start("def run(mini_batch): return mini_batch", concurrency=7).init_failed()
    assert (
        error.stage == "Import"
        and "max_concurrency: 7 is for scripts with an async def run()" in error.message
    )


@pytest.mark.parametrize(
    "run",
    [
        "async def run(mini_batch):\n    for name in mini_batch:\n        yield name",
        "import functools\nasync def each(prefix, mini_batch): return [prefix + mini_batch[0][1:]]\n"
        "run = functools.partial(each, '/')",
        "class Run:\n    async def __call__(self, mini_batch): return mini_batch\nrun = Run()",
        "import functools\ndef wrap(function):\n    @functools.wraps(function)\n"
        "    async def wrapper(*args): return await function(*args)\n    return wrapper\n"
        "@wrap\nasync def run(mini_batch): return tuple(mini_batch)",
        "import pandas\nasync def run(mini_batch): return pandas.DataFrame({'a': mini_batch})",
    ],
)
def test_what_counts_as_async(start, run):
    process = start(run + "\n").ready()
    assert process.concurrency == 4
    assert process.run(files("x")).rows == b"/data/x\n"


@pytest.mark.parametrize("wraps", ["", "    @functools.wraps(function)\n"])
@pytest.mark.parametrize(
    "returns",
    [
        "asyncio.run(function(*args))",
        "function(*args)",
        "asyncio.get_event_loop_policy().new_event_loop().run_until_complete(function(*args))",
    ],
)
def test_what_a_decorator_hides_does_not_count(start, wraps, returns):
    process = start(
        "import asyncio, functools\ndef wrap(function):\n"
        f"{wraps}    def wrapper(*args): return {returns}\n    return wrapper\n"
        "@wrap\nasync def init():\n    global value\n    await asyncio.sleep(0)\n    value = 7\n"
        "@wrap\nasync def run(mini_batch):\n"
        "    await asyncio.sleep(0)\n"
        "    if mini_batch[0] == '/data/bad': raise KeyError('of mine')\n"
        "    return [value]\n"
    ).ready()
    assert process.concurrency is None
    assert process.run(files("a")).rows == b"7\n"
    error = process.run(files("bad")).error
    assert (error.category, error.frame.line) == ("KeyError", 14 if wraps else 13)
    assert process.run(files("b")).rows == b"7\n"
    assert process.shutdown() is None


@pytest.mark.parametrize(
    "run",
    [
        "async def part(m): return m\ndef run(mini_batch): return asyncio.run(part(mini_batch))",
        "async def part(m): return m\ndef run(mini_batch): return part(mini_batch)",
        "async def part(m):\n    for name in m: yield name\ndef run(mini_batch): return part(mini_batch)",
        "async def part(m): return m\nclass Run:\n    def __call__(self, m): return part(m)\nrun = Run()",
    ],
)
def test_what_a_plain_run_leaves_to_be_awaited_is_awaited(start, run):
    process = start(f"import asyncio\n{run}\n").ready()
    assert process.concurrency is None
    assert process.run(files("a", "b")).rows == b"/data/a\n/data/b\n"
    assert process.shutdown() is None


def test_the_traceback_of_what_is_awaited_is_the_scripts(start):
    process = start(
        "import sys\nasync def part(m):\n    if m[0] == '/data/exit': sys.exit(3)\n    raise KeyError('x')\n"
        "def run(mini_batch): return part(mini_batch)\n"
    ).ready()
    error = process.run(files("a")).error
    assert error.frame.line == 4 and error.traceback.count("File") == 1
    assert "run() called sys.exit(3)" in process.run(files("exit")).error.message
    assert process.shutdown() is None


def test_init_and_shutdown_may_be_async_and_share_the_loop(start):
    process = start(
        "import asyncio\nloops = []\n"
        "async def init(): loops.append(asyncio.get_running_loop())\n"
        "async def run(mini_batch): return [asyncio.get_running_loop() is loops[0]]\n"
        "async def shutdown():\n    assert asyncio.get_running_loop() is loops[0]\n    print('over')\n"
    ).ready()
    assert process.run(files("a")).rows == b"True\n"
    assert process.shutdown() is None
    assert "over" in process.stdout
    plain = start(
        "import asyncio\nasync def init():\n    global value\n    await asyncio.sleep(0)\n    value = 7\n"
        "def run(mini_batch): return [value]\n"
    ).ready()
    assert plain.run().rows == b"7\n"
    assert (
        start("async def init(): raise ValueError('no')\nasync def run(m): return m\n").init_failed().message
        == "no"
    )


FAILS = """
import asyncio, sys
async def run(mini_batch):
    await asyncio.sleep(0)
    name = mini_batch[0]
    if name == "/data/raise": raise KeyError("x")
    if name == "/data/exit": sys.exit(3)
    if name == "/data/none": return None
    if name == "/data/text":
        class Bad:
            def __str__(self): raise OSError("no text")
        return [Bad()]
    if name == "/data/sub":
        async def part(): raise LookupError("of a part")
        await asyncio.gather(part(), asyncio.sleep(9))
    if name == "/data/exits below":
        async def part(): sys.exit(5)
        await asyncio.create_task(part())
    return [1]
"""


def test_each_has_its_own_outcome(start):
    process = start(FAILS, concurrency=8).ready()
    names = ["raise", "exit", "none", "text", "sub", "exits below", "good"]
    process.hand_over(*[files(name) for name in names])
    ended = outcomes(process, 7)
    errors = [one.error and (one.error.stage, one.error.category) for _, one in sorted(ended.items())]
    of_run = ["KeyError", "SystemExit", "TypeError", "OSError", "LookupError", "SystemExit"]
    assert errors == [*[("Run", category) for category in of_run], None]
    assert ended[1].error.frame.line == 6 and ended[1].error.traceback.count("File") == 1
    assert "run() called sys.exit(3)" in ended[2].error.message
    assert ended[7].rows == b"1\n"
    assert process.shutdown() is None


def test_one_that_takes_too_long_is_cancelled(start):
    process = start(
        "import asyncio\n"
        "async def run(mini_batch):\n"
        "    if mini_batch[0] == '/data/late':\n        await asyncio.sleep(50)\n"
        "    if mini_batch[0] == '/data/swallows':\n"
        "        try:\n            await asyncio.sleep(50)\n"
        "        except asyncio.CancelledError:\n            return [2]\n"
        "    await asyncio.sleep(0.1)\n    return [1]\n",
        run_timeout=1,
    ).ready()
    process.hand_over(files("late"), files("swallows"), files("good"))
    ended = outcomes(process, 3)
    assert ended[3].error is None
    for seq in (1, 2):
        assert (ended[seq].error.stage, ended[seq].error.category) == ("Cancelled", "Timeout")
    assert "run_invocation_timeout (1 s)" in ended[1].error.message
    assert ended[1].error.frame.line == 4
    assert process.shutdown() is None


def test_one_that_takes_no_cancellation_stays_under_way(start):
    process = start(
        "import asyncio\n"
        "async def run(mini_batch):\n"
        "    while mini_batch[0] == '/data/stays':\n"
        "        try: await asyncio.sleep(600)\n"
        "        except asyncio.CancelledError: print('cancelled', flush=True)\n"
        "    await asyncio.sleep(0.1)\n    return [1]\n",
        run_timeout=1,
    ).ready()
    process.hand_over(files("stays"), files("good"))
    assert (process.outcome().seq, process.page.in_flight) == (2, {1: "Running"})
    eventually(lambda: "cancelled" in process.stdout, "its time is over")
    process.hand_over(files("later"))
    assert (process.outcome().seq, process.page.in_flight) == (3, {1: "Running"})


@pytest.mark.parametrize(("death", "code"), [("os._exit(3)", 3), ("ctypes.string_at(0)", -signal.SIGSEGV)])
def test_a_sudden_death_leaves_the_page_and_what_was_finished(start, death, code):
    process = start(
        "import asyncio, ctypes, os\n"
        "async def run(mini_batch):\n"
        f"    if mini_batch[0] == '/data/dies':\n        {death}\n"
        "    if mini_batch[0] == '/data/waits':\n        await asyncio.sleep(600)\n"
        "    return ['x']\n"
    ).ready()
    assert process.run(files("a")).rows == b"x\n"
    process.hand_over(files("waits"))
    eventually(lambda: process.page.in_flight, "it begins")
    process.hand_over(files("dies"))
    assert process.wait() == code
    assert process.page.in_flight == {2: "Running", 3: "Running"}
    assert process.page.step == 3


def test_the_page_tells_what_is_under_way_and_who_has_the_thread(start):
    process = start(
        "import asyncio, time\n"
        "async def run(mini_batch):\n"
        "    if mini_batch[0] == '/data/holds':\n        time.sleep(1)\n"
        "    await asyncio.sleep(30)\n"
    ).ready()
    process.hand_over(files("waits"))
    eventually(lambda: process.page.in_flight == {1: "Running"}, "the first begins")
    process.hand_over(files("holds"))
    eventually(lambda: process.page.step == 2, "the second has the thread")
    eventually(lambda: process.page.step == 0, "it gives it back")
    assert process.page.in_flight == {1: "Running", 2: "Running"}


def test_what_is_taken_back_is_skipped(start):
    process = start(
        "import asyncio\nasync def run(m):\n    await asyncio.sleep(0.2)\n    return m\n", concurrency=1
    )
    process.ready()
    process.hand_over(*[files("a")] * 3, grant=1)
    assert process.outcome().seq == 1
    process.hand_over(files("b"))
    assert process.outcome().seq == 4
    assert process.skipped == [2, 3]


def test_files_are_those_of_their_mini_batch(start):
    process = start(
        "import asyncio, pathlib\nfrom azureml_user.parallel_run import EntryScript\n"
        "async def run(mini_batch, context):\n"
        "    name = mini_batch[0].rpartition('/')[2]\n"
        "    async def part(number):\n"
        "        (pathlib.Path(EntryScript().output_dir) / f'{name}{number}').write_text(name)\n"
        "    await asyncio.gather(part(1), part(2))\n"
        "    await asyncio.sleep(0.05)\n"
        "    (pathlib.Path(context.output_dir) / 'sub').mkdir()\n"
        "    (pathlib.Path(context.output_dir) / 'sub' / 'same').write_text(name)\n"
        "    if name == 'bad': raise ValueError\n"
        "    return [1]\n"
    ).ready()
    process.hand_over(files("a"), files("bad"), files("b"))
    ended = outcomes(process, 3)
    assert ended[1].files == ["a1", "a2", "sub/same"]
    assert ended[2].files == []
    assert ended[3].files == ["b1", "b2", "sub/same"]
    assert (process.folder / "staging/3/sub/same").read_text() == "b"
    assert list((process.folder / "outputs").iterdir()) == []


STRAY = """
import asyncio, os, pathlib
pathlib.Path(os.environ["AZUREML_BI_OUTPUT_PATH"], "first").touch()
async def run(mini_batch):
    if mini_batch[0] == "/data/stray":
        pathlib.Path(os.environ["AZUREML_BI_OUTPUT_PATH"], "x").touch()
    await asyncio.sleep(0.1)
    return [1]
"""


def test_files_in_the_folder_of_the_process_are_nobodys(start):
    process = start(STRAY).ready()
    process.hand_over(files("stray"), files("b"))
    for one in outcomes(process, 2).values():
        assert one.error.category == "OutputError" and "nobody can tell whose it is" in one.error.message
    # With nothing under way it is gone, and what init() left goes with the first that succeeds.
    assert process.run(files("c")).files == ["first"]
    one_at_a_time = start(STRAY, concurrency=1).ready()
    assert one_at_a_time.run(files("stray")).files == ["first", "x"]


def test_a_busy_process_gets_rid_of_files_that_are_nobodys(start):
    process = start(STRAY, concurrency=2).ready()
    process.hand_over(files("stray"), *[files(str(number)) for number in range(20)])
    ended = outcomes(process, 21)
    failed = [seq for seq, one in sorted(ended.items()) if one.error]
    assert failed and set(failed) <= {1, 2, 3}, failed
    assert [one.files for one in ended.values() if one.files] == [["first"]]


def test_what_init_left_outlives_a_mini_batch_whose_files_are_refused(start):
    process = start(
        "import os, pathlib\n"
        "pathlib.Path(os.environ['AZUREML_BI_OUTPUT_PATH'], 'first').touch()\n"
        "pathlib.Path(os.environ['AZUREML_BI_OUTPUT_PATH'], 'same').write_text('of init')\n"
        "async def run(mini_batch, context):\n"
        "    if mini_batch[0] == '/data/link': os.symlink('/', os.path.join(context.output_dir, 'link'))\n"
        "    pathlib.Path(context.output_dir, 'same').write_text('own')\n"
        "    return [1]\n"
    ).ready()
    assert process.run(files("link")).error.category == "OutputError"
    assert not (process.folder / "staging/1").exists()
    assert process.run(files("a")).files == ["first", "same"]
    assert (process.folder / "staging/2/same").read_text() == "own"
    assert process.run(files("b")).files == ["same"]


def test_the_clock_of_one_that_waits_for_the_loop_begins_with_its_call(start):
    process = start(
        "import asyncio, time\n"
        "async def run(mini_batch):\n"
        "    if mini_batch[0] == '/data/holds':\n        time.sleep(1.5)\n"
        "    return [1]\n"
    ).ready()
    process.hand_over(files("holds"), files("waits"))
    ended = outcomes(process, 2)
    assert ended[1].run_us >= 1_400_000
    assert ended[2].run_us < 1_000_000


def test_lines_of_logs_say_whose_they_are(start):
    process = start(
        "import asyncio, logging\nfrom azureml_user.parallel_run import EntryScript\n"
        "async def run(mini_batch):\n"
        "    await asyncio.sleep(0.01)\n"
        "    EntryScript().logger.info('of mine')\n    logging.info('of root')\n"
        "    await asyncio.create_task(part())\n    return mini_batch\n"
        "async def part(): logging.info('of a part')\n"
    ).ready()
    process.hand_over(files("a"), files("b"))
    outcomes(process, 2)
    assert process.shutdown() is None
    log = next((process.folder / "entry_script_log").iterdir()).read_text()
    for name in ("mb-0000000000", "mb-0000000001"):
        assert f"|{name}|of mine" in log
        assert f"|{name}|of root" in process.stdout and f"|{name}|of a part" in process.stdout


def test_tables_are_read_meanwhile(start, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("a,b\n1,2\n3,4\n")
    process = start(
        "import asyncio\nasync def run(frame):\n    await asyncio.sleep(0.01)\n    return frame\n",
        inputs=[["rows", "tabular", str(tmp_path)]],
    ).ready()
    work = delimited(table, ["a", "b"], "ii", records=2, part=(4, 12))
    broken = delimited(table, ["a", "b"], "ii", records=1, part=(4, 8))
    broken["Slice"][8] += 1
    process.hand_over(work, broken, work)
    ended = outcomes(process, 3)
    assert ended[1].rows == ended[3].rows == b"1 2\n3 4\n"
    assert ended[1].items == 2
    assert ended[2].error.stage == "Load"


def test_a_forked_child_never_speaks_for_the_process(start):
    process = start(
        "import asyncio, os\n"
        "async def run(mini_batch):\n"
        "    await asyncio.sleep(0)\n"
        "    child = os.fork()\n    if child == 0: return ['child']\n"
        "    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]\n"
    ).ready()
    assert process.run(files("a")).rows == b"70\n"
    assert process.shutdown() is None


def test_shutdown_waits_for_what_is_under_way_and_not_for_what_the_script_left(start):
    process = start(
        "import asyncio\n"
        "async def forever():\n    while True: await asyncio.sleep(1)\n"
        "async def run(mini_batch):\n"
        "    asyncio.get_running_loop().create_task(forever())\n"
        "    await asyncio.sleep(0.3)\n    return [1]\n"
    ).ready()
    process.hand_over(files("a"))
    eventually(lambda: process.page.in_flight, "it begins")
    process.send("Shutdown")
    assert process.outcome().rows == b"1\n"
    began = time.monotonic()
    kind, content = process.receive()
    assert (kind, content) == ("Bye", None)
    assert process.wait() == 0 and time.monotonic() - began < 5


def test_the_loop_is_profiled(start):
    process = start(
        "import asyncio\nasync def run(mini_batch):\n    await asyncio.sleep(0)\n    return mine()\n"
        "def mine(): return [1]\n",
        arguments=["--profiling_module", "cProfile"],
    ).ready()
    process.run(files("a"))
    assert process.shutdown() is None
    import pstats

    profile = next((process.folder / "entry_script_log").glob("*.profile"))
    assert any(name == "mine" for _, _, name in pstats.Stats(str(profile)).stats)
