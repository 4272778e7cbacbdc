"""What a script may do wrong, and what the agent is told (spec S5, E2)."""

from __future__ import annotations

import os
import signal

import pytest
from harness import eventually, files


def failing(start, body):
    script = (
        "import os, sys\ndef run(mini_batch):\n    if mini_batch[0].endswith('fine'):\n"
        "        return ['fine']\n"
    )
    process = start(script + "".join(f"    {line}\n" for line in body.split("\n"))).ready()
    outcome = process.run()
    assert process.run(files("fine")).rows == b"fine\n", "the process goes on"
    assert process.shutdown() is None
    return outcome.error


@pytest.mark.parametrize(
    ("body", "category", "message"),
    [
        ("raise ValueError('bad image')", "ValueError", "bad image"),
        ("raise ValueError", "ValueError", "ValueError without a message"),
        ("raise KeyError('k')", "KeyError", "'k'"),
        ("sys.exit(3)", "SystemExit", "run() called sys.exit(3)"),
        ("sys.exit()", "SystemExit", "run() called sys.exit()"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "run() raised KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit", "run() raised GeneratorExit"),
        ("raise GeneratorExit('g')", "GeneratorExit", "run() raised GeneratorExit: g"),
        ("class Base(BaseException): pass\nraise Base('b')", "Base", "run() raised Base: b"),
        ("raise MemoryError", "MemoryError", "MemoryError without a message"),
        ("x = [0] * (1 << 60)", "MemoryError", "MemoryError without a message"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth exceeded"),
        ("x = lambda x: x(x)\nx(x)", "RecursionError", "maximum recursion depth exceeded"),
        ("return 1 / 0", "ZeroDivisionError", "division by zero"),
        ("return (1 / 0 for _ in [1])", "ZeroDivisionError", "division by zero"),
        ("os.close(1)\nos.close(2)\nraise ValueError('mute')", "ValueError", "mute"),
        (
            "class E(Exception):\n    def __str__(self): raise OSError\nraise E",
            "E",
            "(its message cannot be shown: __str__ raised OSError)",
        ),
        (
            "class E(Exception):\n    def __str__(self): sys.exit(1)\nraise E",
            "E",
            "(its message cannot be shown: __str__ raised SystemExit)",
        ),
        (
            "class E(Exception):\n    def __str__(self): return 5\nraise E",
            "E",
            "(its message cannot be shown: __str__ raised TypeError)",
        ),
        ("raise ValueError('a\\udc80b')", "ValueError", "a\\udc80b"),
        ("async def f(): pass\nreturn f()", "TypeError", "run() returned None"),
        (
            "async def f(): pass\nasync def g(): return f()\nreturn g()",
            "TypeError",
            "run() returned a coroutine",
        ),
    ],
)
def test_exceptions_are_described(start, body, category, message):
    error = failing(start, body)
    assert (error.stage, error.category) == ("Run", category)
    assert error.message.startswith(message)
    if "returned" not in message:
        assert category in error.traceback


def test_an_error_names_the_last_line_of_the_script(start):
    script = (
        "import json\nfrom helper import parse\ndef run(mini_batch):\n    return list(map(parse, mini_batch))"
    )
    helper = "import json\ndef parse(path):\n    return json.loads(path)\n"
    process = start(
        script, code={"lib/helper.py": helper, "helper.py": "from lib.helper import parse\n"}
    ).ready()
    frame = process.run().error.frame
    # The exception itself comes out of a package.
    assert frame.file == str(process.code_dir / "lib/helper.py")
    assert (frame.line, frame.function, frame.source) == (3, "parse", "return json.loads(path)")
    assert process.run_frame.file == str(process.code_dir / "score.py")
    assert (process.run_frame.line, process.run_frame.source) == (3, "def run(mini_batch):")


def test_what_the_script_did_not_raise_has_no_line(start):
    assert failing(start, "return None").frame is None


def test_a_script_that_python_does_not_understand_names_the_line(start):
    error = start("def run(mini_batch):\n    return [\n").init_failed()
    assert (error.frame.line, error.frame.function) in [(2, ""), (3, "")]
    error = start("import nowhere\ndef run(mini_batch):\n    return []\n").init_failed()
    assert (error.frame.line, error.frame.source) == (1, "import nowhere")


def test_a_process_writes_its_stack_when_it_is_asked_and_when_it_crashes(start):
    script = (
        "import os, time\ndef hang(): time.sleep(60)\ndef run(mini_batch):\n"
        "    os.kill(os.getpid(), 11) if mini_batch[0] == '/data/crash' else hang()\n"
    )
    process = start(script).ready()
    path = process.folder / "stack.txt"
    process.hand_over(files("hang"))
    eventually(lambda: process.page.phase == "Running", "the mini-batch")
    os.kill(process.popen.pid, 40)
    eventually(lambda: "in run" in path.read_text(), "the stack")
    assert 'score.py", line 2 in hang' in path.read_text()
    process.popen.kill()
    for variable, written in [(None, True), ("", False), ("1", False)]:
        environment = {} if variable is None else {"PYTHONFAULTHANDLER": variable}
        process = start(script, environment=environment).ready()
        process.hand_over(files("crash"))
        assert process.wait() == -signal.SIGSEGV
        text = (process.folder / "stack.txt").read_text()
        assert text.startswith("Fatal Python error: Segmentation fault") == written, text
        assert ("Fatal Python error" in process.stderr) == (variable == "1")


def test_huge_messages_and_tracebacks_are_cut(start):
    error = failing(start, "raise ValueError('x' * 10_000_000 + 'end')")
    assert len(error.message) < 70_000
    assert error.message.endswith("end")
    assert "characters left out" in error.message
    assert len(error.traceback) < 70_000


def test_the_cause_is_part_of_the_traceback(start):
    error = failing(start, "try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError('outer') from e")
    assert "ZeroDivisionError" in error.traceback
    assert "direct cause" in error.traceback


@pytest.mark.parametrize(
    ("death", "code"), [("os._exit(9)", 9), ("os.kill(os.getpid(), 11)", -signal.SIGSEGV)]
)
def test_a_sudden_death_leaves_the_page_and_what_was_finished(start, death, code):
    process = start(
        "import os, time, pathlib\ndef run(mini_batch):\n    if mini_batch[0].endswith('die'):\n"
        f"        while not pathlib.Path('go').exists():\n            time.sleep(0.001)\n"
        f"        {death}\n    return ['x']\n"
    ).ready()
    process.hand_over(files("a"), files("b"), files("die", "2", "3"), files("c"))
    assert [process.outcome().seq for _ in range(2)] == [1, 2]
    (process.folder / "work" / "go").touch()
    assert process.wait() == code
    assert (process.page.started, process.page.phase, process.page.items) == (3, "Running", 3)


def test_a_finished_mini_batch_is_not_held_back_by_a_long_one(start):
    process = start(
        "import time, pathlib\ndef run(mini_batch):\n    if mini_batch[0].endswith('long'):\n"
        "        while not pathlib.Path('go').exists():\n            time.sleep(0.001)\n    return ['x']\n"
    ).ready()
    process.hand_over(files("a"), files("long"))
    assert process.outcome().seq == 1
    assert process.page.phase == "Running"
    (process.folder / "work" / "go").touch()
    assert process.outcome().seq == 2


def test_a_finished_mini_batch_is_not_held_back_while_the_interpreter_is_busy(start):
    # A regular expression that runs away holds the interpreter's lock all the time.
    process = start(
        "import re\ndef run(mini_batch):\n    if mini_batch[0].endswith('long'):\n"
        "        re.match(r'(a+)+$', 'a' * 40 + 'b')\n    return ['x']\n"
    ).ready()
    process.hand_over(files("a"), files("long"))
    assert process.outcome().seq == 1
    assert process.page.phase == "Running"


def test_what_was_taken_back_is_skipped(start):
    process = start("def run(mini_batch):\n    return mini_batch\n").ready()
    process.hand_over(files("a"), files("b"), files("c"), grant=1)
    assert process.outcome().seq == 1
    kind, content = process.receive()
    assert (kind, content) == ("Skipped", [2, 3])
    assert process.run(files("d")).seq == 4


def test_the_end_of_the_agent_ends_the_process_and_its_children(start):
    process = start(
        "import subprocess, time, pathlib\ndef run(mini_batch):\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    pathlib.Path('child').write_text(str(child.pid) + '\\n')\n"
        "    time.sleep(1000)\n"
    ).ready()
    process.hand_over(files("a"))
    written = process.folder / "work" / "child"
    eventually(lambda: written.exists() and written.read_text().endswith("\n"), "starting the child")
    child = int(written.read_text())
    process.socket.close()
    assert process.wait() == -signal.SIGKILL

    def is_gone():
        try:
            with open(f"/proc/{child}/stat") as stat:
                return stat.read().split()[2] == "Z"
        except FileNotFoundError:
            return True

    eventually(is_gone, "the end of the child")


def test_a_forked_child_never_speaks_for_the_process(start):
    script = (
        "import os\ndef run(mini_batch):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        if mini_batch[0].endswith('exit'):\n            raise SystemExit(5)\n"
        "        return ['from the child']\n"
        "    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]\n"
    )
    process = start(script).ready()
    assert process.run(files("a")).rows == b"70\n"
    assert process.run(files("exit")).rows == b"5\n"
    assert process.shutdown() is None


def test_multiprocessing_works_by_fork_and_by_spawn(start):
    script = (
        "import multiprocessing\nfrom azureml_user.parallel_run import EntryScript\n"
        "def work(x):\n    return x * 2, EntryScript().output_dir\n"
        "def task(script, x):\n    return script.output_dir, script is EntryScript()\n"
        "def run(mini_batch):\n"
        "    rows = []\n"
        "    for way in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(way).Pool(1) as pool:\n"
        "            rows.append(pool.map(work, [1]))\n"
        "            rows.append(pool.apply(task, (EntryScript(), 1)))\n"
        "    return rows\n"
    )
    process = start(script).ready()
    outcome = process.run()
    folder = process.start_fields["output_dir"]
    assert outcome.error is None, outcome.error
    assert outcome.rows.decode().splitlines() == [f"[(2, '{folder}')]", f"('{folder}', True)"] * 2
    assert process.shutdown() is None


def test_a_child_left_behind_does_not_hold_the_connection(start):
    script = (
        "import os, time\ndef run(mini_batch):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        time.sleep(1000)\n"
        "    os._exit(4)\n"
    )
    process = start(script).ready()
    process.hand_over(files("a"))
    assert process.wait() == 4
    with pytest.raises(EOFError):
        process.outcome()


@pytest.mark.parametrize(
    "closing",
    ["sys.stdout.close()", "os.close(1)", "os.close(0); os.close(2)", "sys.stdout = None", "del sys.stdout"],
)
def test_a_closed_standard_output_breaks_nothing(start, closing):
    script = (
        "import logging, os, sys\ndef run(mini_batch):\n    print('partial', end='')\n    logging.info('x')\n"
        f"    {closing}\n    logging.info('after')\n    return ['x']\n"
        "def shutdown():\n    logging.info('at the end')\n"
    )
    process = start(script).ready()
    assert process.run().rows == b"x\n"
    assert process.shutdown() is None


def test_threads_that_still_run_do_not_spoil_the_answers(start):
    script = (
        "import threading, time\ndef init():\n"
        "    def spin():\n        while True:\n            sum(range(1000))\n"
        "    threading.Thread(target=spin, daemon=True).start()\n"
        "def run(mini_batch):\n    return mini_batch\n"
    )
    process = start(script).ready()
    for _ in range(20):
        assert process.run().error is None
    assert process.shutdown() is None


def test_a_descriptor_that_cannot_be_read_fails_its_mini_batch_alone(start):
    process = start("def run(mini_batch):\n    return mini_batch\n").ready()
    process.page.grant(3)
    elsewhere = b"\x93\xa5Local\x00\x00\x81\xa6Stored\x93\xa3key\x01\x07"
    for seq, descriptor in ((1, b"\xc1"), (2, elsewhere)):
        process.send({"Run": [[seq, 0, len(descriptor)]]}, descriptor)
        error = process.outcome().error
        assert (error.stage, error.category) == ("Load", "DescriptorError")
    descriptor = b"\x93\xa5Local\x00\x00\x81\xaaUnreadable\x93\xa5a.csv\x07\xa3bad"
    process.send({"Run": [[3, 0, len(descriptor)]]}, descriptor)
    assert process.outcome().error[:3] == ("Load", "DataError", "a.csv, byte 7: bad")


def test_another_protocol_is_refused(start):
    error = start("def run(mini_batch):\n    return []\n", protocol=99).init_failed()
    assert "protocol 99" in error.message


def test_the_kernel_is_pointed_at_the_process_when_memory_runs_out(start):
    process = start(
        "def run(mini_batch):\n    return [open('/proc/self/oom_score_adj').read().strip()]\n"
    ).ready()
    assert process.run().rows == b"500\n"
    assert os.path.exists(process.folder)
