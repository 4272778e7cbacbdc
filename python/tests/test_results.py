"""What run() may return, and what becomes of it (spec E6-E9)."""

from __future__ import annotations

import pytest
from harness import files


def ran(start, body, **options):
    script = "import collections, os, sys\ndef run(mini_batch):\n" + "".join(
        f"    {line}\n" for line in body.split("\n")
    )
    return start(script, **options).ready().run(files("a", "b", "c"))


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("return ['x', 'ü€😀', '']", "x\nü€😀\n\n"),
        ("return [1, 2.5, None, True, b'x', ('a', 1)]", "1\n2.5\nNone\nTrue\nb'x'\n('a', 1)\n"),
        ("return ('x', 1)", "x\n1\n"),
        ("return []", ""),
        ("class L(list): pass\nreturn L(['x'])", "x\n"),
        ("class S(str):\n    def __str__(self): return 'mine'\nreturn [S('x')]", "mine\n"),
        ("return (p for p in mini_batch)", "/data/a\n/data/b\n/data/c\n"),
        ("return map(len, mini_batch)", "7\n7\n7\n"),
        ("return range(3)", "0\n1\n2\n"),
        ("return collections.deque([1, 2])", "1\n2\n"),
        ("import numpy\nreturn numpy.array([0.1, 2], dtype='float32')", "0.1\n2.0\n"),
        ("import numpy\nreturn numpy.array([[1, 2], [3, 4]])", "[1 2]\n[3 4]\n"),
        ("import numpy\nreturn numpy.array(['a', 'b'])", "a\nb\n"),
        ("import pandas\nreturn pandas.Series([1.5, 2.0])", "1.5\n2.0\n"),
        ("import pandas\nreturn pandas.Series(['a', None], dtype=object)", "a\nNone\n"),
        ("return ['two\\nlines']", "two\nlines\n"),
    ],
)
def test_elements_become_rows(start, body, rows):
    outcome = ran(start, body)
    assert outcome.error is None
    assert outcome.rows.decode() == rows
    assert outcome.items == 3


def test_elements_are_counted_along_the_first_axis(start):
    assert ran(start, "import numpy\nreturn numpy.zeros((2, 5))").returned == 2
    assert ran(start, "return (x for x in range(7))").returned == 7


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("None", "run() returned None (is a return statement missing?)"),
        ("'abc'", "run() returned a str ('abc')"),
        ("b'abc'", "run() returned a bytes (b'abc')"),
        ("{'a': 1}", "run() returned a dict ({'a': 1})"),
        ("3", "run() returned an int (3)"),
        ("{1}", "run() returned a set"),
        ("object()", "run() returned an object"),
        ("__import__('numpy').array(5)", "a numpy array without dimensions"),
    ],
)
@pytest.mark.parametrize("append_row", [True, False])
def test_other_results_are_refused(start, value, said, append_row):
    outcome = ran(start, f"return {value}", append_row=append_row)
    assert (outcome.error.stage, outcome.error.category) == ("Run", "TypeError")
    assert said in outcome.error.message
    assert "expected is a list" in outcome.error.message
    assert (outcome.returned, outcome.rows) == (0, b"")


def test_summary_only_counts_and_ignores_the_values(start):
    assert ran(start, "return ['\\udc80', object()]", append_row=False)[2:4] == (2, b"")
    assert ran(start, "return iter('abc')", append_row=False)[2:4] == (3, b"")
    assert ran(start, "import pandas\nreturn pandas.DataFrame({'a': [1, 2]})", append_row=False)[2:4] == (
        2,
        b"",
    )


def test_an_exception_in_an_iterator_fails_the_run(start):
    outcome = ran(start, "yield 'first'\nraise ValueError('midway')")
    assert (outcome.error.stage, outcome.error.category, outcome.error.message) == (
        "Run",
        "ValueError",
        "midway",
    )
    assert outcome.rows == b""


def test_an_iterator_is_consumed_within_the_time_of_run(start):
    outcome = ran(start, "import time\nfor p in mini_batch:\n    time.sleep(0.02)\n    yield p")
    assert 60_000 <= outcome.run_us <= outcome.elapsed_us


def test_rows_that_are_not_utf_8_are_named(start):
    outcome = ran(start, "return ['fine', '\\udc80']")
    assert outcome.error.message.startswith(
        "row 1 (counted from 0) of what run() returned cannot be written as UTF-8"
    )


def test_an_element_whose_str_raises_fails_the_run(start):
    body = "class E:\n    def __str__(self): raise RuntimeError('no')\nreturn [E()]"
    assert ran(start, body).error.message == "no"


def test_large_rows_arrive_whole(start):
    process = start("def run(mini_batch):\n    return [p * 1_000_000 for p in mini_batch]\n").ready()
    work = [files(chr(97 + i), base="") for i in range(4)]
    process.hand_over(*work)
    for i in range(4):
        assert process.outcome().rows == bytes([97 + i]) * 1_000_000 + b"\n"
    process = start("def run(mini_batch):\n    return ['x' * (1 << 20)] * 300\n").ready()
    assert process.run().rows == (b"x" * (1 << 20) + b"\n") * 300


def test_more_rows_than_a_frame_can_hold_are_refused(start):
    outcome = ran(start, "x = 'x' * (64 << 20)\nreturn (x for _ in range(40))")
    assert "the rows of this mini-batch are larger than" in outcome.error.message


def test_no_library_is_imported_for_a_plain_script(start):
    body = (
        "return [m in sys.modules for m in ('pandas', 'numpy', 'pyarrow', 'asyncio', 'cProfile', "
        "'multiprocessing')]"
    )
    assert set(ran(start, body).rows.decode().split()) == {"False"}
