"""Inputs that are not, or not any longer, what was planned (spec E4, D5)."""

from __future__ import annotations

import os
import shutil

import pytest
from harness import delimited, planned_files

INPUTS = [["sales", "tabular", "/in/*.csv"]]
SAVE = "def run(df):\n    return df\n"
READ = "def run(mini_batch):\n    return [open(path).read() for path in mini_batch]\n"
SIZE = "it had 4 bytes and has 8 now"
TIME = "it was last written at 20"
IDENTITY = "another file has its name now"
GONE = "it is gone"


def put(path, text, like=None):
    """Another file at this path, with the time of change that the one there has."""
    new = path.with_suffix(".new")
    new.write_text(text)
    shutil.copystat(like or path, new)
    new.rename(path)


CHANGES = {
    "append": (lambda path: path.open("a").write("b,2\n"), SIZE),
    "overwrite": (lambda path: path.write_text("b,2\n"), TIME),
    "touch": (lambda path: os.utime(path, (1, 1)), TIME),
    "truncate": (lambda path: os.truncate(path, 0), "it had 4 bytes and has 0 now"),
    "remove": (lambda path: path.unlink(), GONE),
}


def changed(error, path, what):
    assert (error.stage, error.category) == ("Load", "InputChanged"), error
    assert error.message.startswith(f"{path} changed since it was planned: {what}"), error.message
    assert error.message.endswith("submit it again as a new one")
    return True


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changed_fails_its_mini_batch(start, tmp_path, change):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,1\n")
    os.utime(path, (10**9, 10**9))
    work = delimited(path, ["h", "k"], "si")
    process = start(SAVE, inputs=INPUTS).ready()
    # Once before anything was read, and once with the file kept open from before.
    assert process.run(work).rows == b"a 1\n"
    make, what = CHANGES[change]
    make(path)
    assert changed(process.run(work).error, path, what)
    fresh = start(SAVE, inputs=INPUTS).ready()
    assert changed(fresh.run(work).error, path, what)
    if path.exists():
        path.write_bytes(b"c,3\n")
        assert process.run(delimited(path, ["h", "k"], "si")).rows == b"c 3\n"


def test_a_table_with_other_bytes_of_the_same_size_and_time_fails_its_mini_batch(start, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,1\nb,2\n")
    work = delimited(path, ["h", "k"], "si", part=(4, 8))
    process = start(SAVE, inputs=INPUTS).ready()
    assert process.run(work).rows == b"b 2\n"
    put(path, "a,1\nb,3\n")
    assert changed(process.run(work).error, path, "its bytes 4-8 are other ones, though it has the size")
    put(path, "x,9\nb,2\n")
    assert process.run(work).rows == b"b 2\n", "the bytes of the slice are what was planned"


def test_a_copy_that_is_damaged_fails_its_mini_batch(start, tmp_path):
    path = tmp_path / "copy"
    path.write_bytes(b"a,1\nb,2\n")
    work = delimited(path, ["h", "k"], "si", origin="/in/t.csv.gz", part=(4, 8))
    process = start(SAVE, inputs=INPUTS).ready()
    os.utime(path, (5, 5))
    assert process.run(work).rows == b"b 2\n", "when a copy was made does not matter"
    for damaged in (b"a,1\nb,3\n", b"a,1\nb,"):
        path.write_bytes(damaged)
        error = process.run(work).error
        assert (error.stage, error.category) == ("Load", "DamagedCopy")
        assert error.message.startswith(f"/in/t.csv.gz: its copy {path} is damaged: bytes 4-8 are not those")
    # A good one in its place is found, though the damaged one is still open.
    path.unlink()
    path.write_bytes(b"a,1\nb,2\n")
    assert process.run(work).rows == b"b 2\n"


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_before_run_fails_its_mini_batch(start, tmp_path, change):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("a,1\n")
        os.utime(path, (10**9, 10**9))
    work = planned_files(*paths)
    process = start("import sys\n" + READ).ready()
    assert process.run(work).rows == b"a,1\n\na,1\n\n"
    make, what = CHANGES[change]
    make(paths[1])
    outcome = process.run(work)
    assert changed(outcome.error, paths[1], what)
    assert (outcome.items, outcome.rows) == (2, b"")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("open(path, 'a').write('more')", SIZE),
        ("os.utime(path, (5, 5))", TIME),
        ("os.truncate(path, 0); raise ValueError('empty')", "it had 4 bytes and has 0 now"),
        ("os.unlink(path)", GONE),
        (
            "new = path + '~'; shutil.copy2(path, new); os.rename(new, path)",
            IDENTITY,
        ),
    ],
)
def test_a_file_that_changes_while_run_has_it_fails_its_mini_batch(start, tmp_path, change, what):
    script = (
        "import os, shutil\ndef run(mini_batch):\n    path = mini_batch[-1]\n"
        f"    if path.endswith('fine'):\n        return ['fine']\n    {change}\n    return mini_batch\n"
    )
    process = start(script).ready()
    path, fine = tmp_path / "a", tmp_path / "fine"
    path.write_text("a,1\n")
    fine.write_text("")
    outcome = process.run(planned_files(fine, path))
    assert changed(outcome.error, path, what)
    assert outcome.rows == b""
    assert ("ValueError: empty" in outcome.error.traceback) == ("ValueError" in change)
    assert process.run(planned_files(fine)).rows == b"fine\n"


def test_a_file_that_an_iterator_reads_late_is_looked_at_after_it(start, tmp_path):
    script = "def run(mini_batch):\n    yield 'x'\n    open(mini_batch[0], 'a').write('x')\n"
    path = tmp_path / "a"
    path.write_text("a")
    process = start(script).ready()
    assert changed(process.run(planned_files(path)).error, path, "it had 1 bytes and has 2 now")


def test_what_only_looks_changed_is_read(start, tmp_path):
    path = tmp_path / "a"
    path.write_text("text")
    work = planned_files(path)
    path.chmod(0o600)
    (tmp_path / "link").hardlink_to(path)
    process = start(READ).ready()
    assert process.run(work).rows == b"text\n"
    (tmp_path / "b").symlink_to(path)
    assert process.run(planned_files(tmp_path / "b")).rows == b"text\n"
