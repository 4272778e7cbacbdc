"""Jobs that are one command: what bash gets, and what a failure says."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys

import pytest
from harness import PACKAGE, files

sys.path.insert(0, str(PACKAGE.parent))
command = importlib.import_module("azureml_user.parallel_run.command")

SCRIPT = "from azureml_user.parallel_run.command import run\n"
NASTY = "'\"\\$`!*?;&|<>(){}[]#~ \t\nabé-=%"


def random_values(count):
    source = random.Random(7)
    for _ in range(count):
        yield "".join(source.choice(NASTY) for _ in range(source.randrange(12)))


@pytest.mark.parametrize(
    ("place", "before", "after"), [("o", "", ""), ("d", '"', '"'), ("s", "'", "'"), ("e", "$'", "'")]
)
def test_bash_gets_a_value_as_it_is(place, before, after):
    for value in random_values(60):
        text = command.assemble(["t:printf '[%s]' ", f"t:{before}", f"{place}:{value}", f"t:{after}"])
        printed = subprocess.run(["/bin/bash", "-c", text], capture_output=True, check=True).stdout
        assert printed.decode() == f"[{value}]", text


def run(start, *pieces):
    process = start(SCRIPT, arguments=list(pieces)).ready()
    return process.run(files("command"))


def test_a_command_runs_in_a_copy_of_the_code(start, tmp_path):
    seen = tmp_path / "seen"
    outcome = run(start, f"t:pwd > {seen}; ls >> {seen}; touch new && echo ", "o:it's", f"t: >> {seen}")
    assert outcome.error is None, outcome.error
    assert (outcome.items, outcome.returned) == (1, 1)
    folder, *rest = seen.read_text().splitlines()
    assert folder.endswith("/work/code")
    assert len(rest) == 2 and rest[-1] == "it's", rest


def test_a_command_and_a_value_of_any_length_work(start):
    long = "x" * 300_000
    for pieces in [(f"t:: #{long}\nexit 7",), ("t:v=", f"o:{long}", "t:\nexit $((${#v} - 299993))")]:
        outcome = run(start, *pieces)
        assert "exit code 7" in outcome.error.message, outcome.error.message[:200]


def test_a_command_that_fails_says_how(start):
    outcome = run(start, "t:echo first >&2; echo last >&2; exit 3")
    assert outcome.error.category == "CommandFailed"
    lines = outcome.error.message.splitlines()
    assert lines[0].startswith("the command ended with exit code 3"), lines


def test_a_command_that_is_killed_says_by_what(start):
    outcome = run(start, "t:kill -9 $$")
    assert "ended by SIGKILL" in outcome.error.message
