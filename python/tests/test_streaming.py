"""A script that streams: `enqueue()` and `get_finished_batch_result()` (spec E17)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness import files

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from azureml_user.parallel_run.context import Dataset, MiniBatchContext
from azureml_user.parallel_run.streaming import Finished, entries

ARGUMENTS = ["--amlbi_async_mode", "true"]
SCRIPT = """
import copy, os, threading
finished, lock, seen = {}, threading.Lock(), []
def work(mini_batch, context):
    name = os.path.basename(mini_batch[0])
    exception = ValueError("bad") if name == "bad" else None
    if name == "writes":
        with open(os.path.join(context.output_dir, "x"), "w") as file: file.write("x")
    with lock:
        if name != "never":
            finished[context.mini_batch_id] = {
                "ret": None if name == "none" else [name],
                "mini_batch_context": context, "exception": exception}
def enqueue(mini_batch, context):
    if mini_batch[0] == "/data/refused": raise KeyError("refused")
    seen.append(context.mini_batch_id)
    threading.Timer(0.05, work, [mini_batch, context]).start()
def get_finished_batch_result():
    with lock:
        taken = copy.deepcopy(finished)
        finished.clear()
    return taken
def check_all_tasks_processed(): return True
def get_processing_batch_number(): return 0
def shutdown(): print("over", len(seen))
"""


def test_results_come_in_any_order_and_each_has_its_own(start):
    process = start(SCRIPT, arguments=ARGUMENTS).ready()
    assert process.concurrency == 4
    names = ["a", "bad", "refused", "none", "writes", "b"]
    process.hand_over(*[files(name) for name in names])
    ended = {names[one.seq - 1]: one for one in (process.outcome() for _ in names)}
    assert (ended["a"].rows, ended["b"].rows) == (b"a\n", b"b\n")
    assert ended["writes"].files == ["x"]
    errors = {name: one.error.category for name, one in ended.items() if one.error}
    assert errors == {"bad": "ValueError", "refused": "KeyError", "none": "TypeError"}
    assert ended["a"].run_us >= 40_000
    assert process.shutdown() is None
    assert "over 5" in process.stdout


def test_one_whose_result_never_comes_stays_under_way(start):
    process = start(SCRIPT, arguments=ARGUMENTS).ready()
    process.hand_over(files("never"), files("a"))
    assert process.outcome().seq == 2
    assert process.page.in_flight == {1: "Running"}


def test_results_that_make_no_sense_fail_all_that_are_under_way(start):
    process = start(
        "def enqueue(mini_batch, context): pass\ndef get_finished_batch_result(): return 7\n",
        arguments=ARGUMENTS,
    ).ready()
    error = process.run(files("a")).error
    assert error.category == "TypeError" and "get_finished_batch_result() returned 7 (int)" in error.message
    assert process.shutdown() is None


def test_results_that_nobody_waits_for_are_told(start):
    process = start(
        "done = {}\ndef enqueue(mini_batch, context): done.update({context.minibatch_index: [1], 99: [2]})\n"
        "def get_finished_batch_result():\n    taken = dict(done)\n    done.clear()\n    return taken\n",
        arguments=ARGUMENTS,
    ).ready()
    assert process.run(files("a")).rows == b"1\n"
    process.run(files("b"))
    assert any("mb-0000000099, which is not under way" in notice for notice in process.notices)


GATED = """
import os
begun, done = [], {}
def enqueue(mini_batch, context):
    begun.append(context.mini_batch_id)
    name = os.path.basename(mini_batch[0])
    if name == "refused": raise KeyError("refused")
    if name != "slow": done[context.mini_batch_id] = [f"{name} {len(begun)}"]
def get_finished_batch_result():
    if os.path.exists(os.environ["GATE"]):
        for name in begun: done.setdefault(name, ["late"])
        begun.clear()
    taken = dict(done)
    done.clear()
    return taken
"""


def test_a_mini_batch_that_comes_again_waits_for_its_first_run(start, tmp_path):
    gate = tmp_path / "gate"
    process = start(f"import os\nos.environ['GATE'] = {str(gate)!r}\n{GATED}", arguments=ARGUMENTS).ready()
    process.hand_over(files("slow"), index=5)
    process.hand_over(files("refused"), files("again"), index=5)
    process.hand_over(files("other"), index=6)
    assert process.outcome().rows == b"other 2\n", "the second run of the first is not handed over"
    gate.touch()
    ended = {one.seq: one for one in (process.outcome() for _ in range(3))}
    assert ended[1].rows == b"late\n"
    assert ended[2].error.category == "KeyError"
    assert ended[3].rows.startswith(b"again ")
    assert process.page.in_flight == {}
    assert process.shutdown() is None


def test_a_process_that_ends_sleeps_while_something_is_under_way(start):
    process = start(
        "import threading, time\nbegan, ready = [], []\n"
        "def enqueue(mini_batch, context):\n"
        "    began.append(time.process_time())\n"
        "    threading.Timer(1, ready.append, [context.mini_batch_id]).start()\n"
        "def get_finished_batch_result():\n"
        "    return [(ready.pop(), [time.process_time() - began[0]])] if ready else []\n",
        arguments=ARGUMENTS,
    ).ready()
    process.hand_over(files("a"))
    process.send("Shutdown")
    assert float(process.outcome().rows) < 0.5


def test_what_the_script_raises_about_its_number_fails_what_is_under_way(start):
    process = start(
        "def enqueue(mini_batch, context): pass\ndef get_finished_batch_result(): return None\n"
        "def get_processing_batch_number(): raise OSError('no number')\n"
        "def check_all_tasks_processed(): raise SystemExit(4)\n",
        arguments=ARGUMENTS,
    ).ready()
    for _ in range(2):
        error = process.run(files("a")).error
        assert (error.category, error.message) == ("OSError", "no number")
    process.send("Shutdown")
    kind, notice = process.receive()
    assert kind == "Notice" and "check_all_tasks_processed() raised SystemExit" in notice
    assert process.receive() == ("Bye", None)


def test_an_enqueue_that_hides_an_async_one_fails_its_mini_batches(start):
    process = start(
        "async def part(): pass\ndef enqueue(mini_batch, context): return part()\n"
        "def get_finished_batch_result(): return None\n",
        arguments=ARGUMENTS,
    ).ready()
    error = process.run(files("a")).error
    assert error.category == "TypeError" and "which nobody awaits" in error.message


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        (
            "def run(m): return m",
            ARGUMENTS,
            "has no function enqueue(), which --amlbi_async_mode true asks for",
        ),
        ("def enqueue(m, c): pass", ARGUMENTS, "has no function get_finished_batch_result()"),
        (SCRIPT, [], "has no function run() but enqueue(): give a script that streams the arguments"),
        (SCRIPT, ["--amlbi_async_mode=0"], "has no function run() but enqueue()"),
        (SCRIPT.replace("def enqueue", "async def enqueue"), ["--amlbi_async_mode=True"], "enqueue() in "),
        (
            "def enqueue(a, b, c): pass\ndef get_finished_batch_result(): pass",
            ARGUMENTS,
            "enqueue() requires 3",
        ),
    ],
)
def test_scripts_that_cannot_stream_are_refused(start, script, arguments, expected):
    error = start(script + "\n", arguments=arguments).init_failed()
    assert error.stage == "Import" and expected in error.message


def test_the_forms_of_results():
    about = MiniBatchContext(7, "mb-0000000007", 0, Dataset("a", "file", "."), [])
    seven = "mb-0000000007"
    error = ValueError("x")
    table = [
        (None, []),
        ({}, []),
        ([], []),
        ({seven: [1]}, [Finished(seven, [1], None)]),
        ({7: [1]}, [Finished(seven, [1], None)]),
        ({"7": [1]}, [Finished(seven, [1], None)]),
        ({about.minibatch_index: (1, 2)}, [Finished(seven, (1, 2), None)]),
        ({"own name": {"ret": [1], "mini_batch_context": about}}, [Finished(seven, [1], None)]),
        ({seven: {"result": [1]}}, [Finished(seven, [1], None)]),
        ({seven: {"results": [1], "exception": None}}, [Finished(seven, [1], None)]),
        ({seven: {"ret": [1], "exception": error}}, [Finished(seven, [1], error)]),
        ({seven: {"exception": error}}, [Finished(seven, None, error)]),
        ({"x": ([1], about)}, [Finished(seven, [1], None)]),
        ({"x": (about, [1])}, [Finished(seven, [1], None)]),
        ([(seven, [1]), ("8", [2])], [Finished(seven, [1], None), Finished("mb-0000000008", [2], None)]),
        (iter([(about, [1])]), [Finished(seven, [1], None)]),
        ([{"mini_batch_id": 7, "ret": [1]}], [Finished(seven, [1], None)]),
        ([{"mini_batch_context": about, "ret": []}], [Finished(seven, [], None)]),
    ]
    for finished, expected in table:
        assert list(entries(finished)) == expected, finished
    told = list(entries({seven: {"ret": [], "exception": "in words"}}))
    assert isinstance(told[0].exception, RuntimeError) and str(told[0].exception) == "in words"


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (7, "returned 7 (int)"),
        ("text", "returned 'text' (str)"),
        ([1], "has 1 (int) among its pairs"),
        ({"mb-1": {"rows": []}}, "a dict with ['rows'] for 'mb-1'"),
        ({None: []}, "names a mini-batch by None (NoneType)"),
    ],
)
def test_results_of_other_forms_are_refused(finished, expected):
    with pytest.raises(TypeError) as raised:
        list(entries(finished))
    assert expected in str(raised.value)
