"""Files below `output_dir` (spec E15)."""

from __future__ import annotations

import pytest
from harness import files

HEAD = (
    "import os, pathlib\nfrom azureml_user.parallel_run import EntryScript\n"
    "out = pathlib.Path(EntryScript().output_dir)\n"
)
WRITE = (
    HEAD + "def run(mini_batch):\n"
    "    name = os.path.basename(mini_batch[0])\n"
    "    (out / 'sub').mkdir(exist_ok=True)\n"
    "    (out / 'sub' / f'{name}.txt').write_text(name)\n"
    "    (out / f'{name}.txt').write_text(name)\n"
    "    if name == 'bad':\n        raise ValueError('after writing')\n"
    "    return mini_batch\n"
)


def below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_files_of_a_finished_mini_batch_are_moved_and_named(start):
    process = start(WRITE).ready()
    process.hand_over(files("a"), files("b"))
    assert process.outcome().files == ["a.txt", "sub/a.txt"]
    assert process.outcome().files == ["b.txt", "sub/b.txt"]
    assert below(process.folder / "output") == []
    assert below(process.folder / "staging") == ["1/a.txt", "1/sub/a.txt", "2/b.txt", "2/sub/b.txt"]
    assert (process.folder / "staging/2/sub/b.txt").read_text() == "b"
    assert (process.folder / "output" / "sub").is_dir()


def test_files_of_a_failed_try_are_deleted(start):
    process = start(WRITE).ready()
    outcome = process.run(files("bad"))
    assert (outcome.files, outcome.error.category) == ([], "ValueError")
    assert list((process.folder / "output").iterdir()) == []
    assert process.run(files("a")).files == ["a.txt", "sub/a.txt"]
    assert process.run(files("bad")).files == []
    assert (process.folder / "output" / "sub").is_dir(), "it was there before the failed try"


def test_the_environment_names_the_same_folder(start):
    process = start(
        "import os\ndef run(mini_batch):\n"
        "    open(os.environ['AZUREML_BI_OUTPUT_PATH'] + '/x', 'w').close()\n"
        "    return mini_batch\n"
    ).ready()
    assert process.run().files == ["x"]


def test_many_quick_mini_batches_each_get_their_own_file(start):
    process = start(
        HEAD + "def run(mini_batch):\n    name = os.path.basename(mini_batch[0])\n"
        "    if int(name) % 3 == 0:\n        (out / name).write_text(name)\n    return [name]\n"
    ).ready()
    process.hand_over(*(files(str(i)) for i in range(300)))
    for i in range(300):
        outcome = process.outcome()
        assert outcome.files == ([str(i)] if i % 3 == 0 else [])
        assert outcome.rows == f"{i}\n".encode()


def test_what_init_wrote_belongs_to_the_first_that_succeeds(start):
    script = (
        HEAD + "def init():\n    (out / 'kept').mkdir()\n    (out / 'kept' / 'init.txt').write_text('i')\n"
        "def run(mini_batch):\n    (out / 'kept' / 'run.txt').write_text('r')\n"
        "    if mini_batch[0].endswith('bad'):\n        raise ValueError\n    return mini_batch\n"
    )
    process = start(script).ready()
    assert process.run(files("bad")).files == []
    assert process.run(files("a")).files == ["kept/init.txt", "kept/run.txt"]
    assert process.run(files("b")).files == ["kept/run.txt"]
    assert (process.folder / "output" / "kept").is_dir()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        ("os.symlink('/etc/passwd', out / 'x')", "a symbolic link"),
        ("os.mkfifo(out / 'x')", "a pipe"),
        ("s = __import__('socket').socket(1); s.bind(str(out / 'x')); s.close()", "a socket"),
    ],
)
def test_what_is_no_regular_file_fails_the_try(start, make, what):
    process = start(
        HEAD + "def run(mini_batch):\n    if mini_batch[0].endswith('fine'):\n        return ['fine']\n"
        f"    (out / 'fine').write_text('')\n    {make}\n    return mini_batch\n"
    ).ready()
    outcome = process.run()
    assert (outcome.error.stage, outcome.error.category, outcome.files) == ("Run", "OutputError", [])
    assert f"/x is {what}; only regular files" in outcome.error.message
    assert (outcome.returned, outcome.rows) == (0, b"")
    assert process.run(files("fine")).error is None
    assert below(process.folder / "output") == []


def test_a_file_that_is_still_open_fails_the_try(start):
    process = start(
        HEAD
        + "held = []\ndef run(mini_batch):\n    if mini_batch[0].endswith('fine'):\n        return ['fine']\n"
        "    held.append(open(out / 'x.txt', 'w'))\n    held[-1].write('half')\n    return mini_batch\n"
    ).ready()
    outcome = process.run()
    path = process.folder / "output" / "x.txt"
    assert outcome.error.message == (
        f"{path} is still open when run() returned; close it, or write to EntryScript().working_dir"
    )
    assert process.run(files("fine")).files == []


def test_a_file_open_for_reading_is_no_trouble(start):
    process = start(
        HEAD + "held = []\ndef run(mini_batch):\n    (out / 'x').write_text('x')\n"
        "    held.append(open(out / 'x'))\n"
        "    return [held[-1].read()]\n"
    ).ready()
    assert process.run().files == ["x"]


def test_the_folder_may_be_removed_and_made_again(start):
    process = start(
        HEAD + "import shutil\ndef run(mini_batch):\n    shutil.rmtree(out)\n"
        "    if not mini_batch[0].endswith('gone'):\n        out.mkdir()\n"
        "        (out / 'x').write_text('x')\n"
        "    return mini_batch\n"
    ).ready()
    assert process.run(files("a")).files == ["x"]
    assert process.run(files("b")).files == ["x"]
    assert process.run(files("gone")).files == []
    assert process.run(files("c")).files == ["x"]


def test_a_folder_for_every_mini_batch_does_not_pile_up(start):
    process = start(
        HEAD
        + "def run(mini_batch):\n    folder = out / os.path.basename(mini_batch[0])\n    folder.mkdir()\n"
        "    (folder / 'x').write_text('x')\n    return mini_batch\n"
    ).ready()
    process.hand_over(*(files(str(i)) for i in range(600)))
    assert [process.outcome().files for _ in range(600)] == [[f"{i}/x"] for i in range(600)]
    assert len(list((process.folder / "output").iterdir())) < 300


def test_files_that_cannot_be_moved_fail_the_try(start):
    process = start(WRITE).ready()
    (process.folder / "staging").mkdir(exist_ok=True)
    (process.folder / "staging" / "1").write_text("not a folder")
    outcome = process.run(files("a"))
    assert "cannot move the files of the output folder" in outcome.error.message
    assert below(process.folder / "output") == []


def test_a_file_in_summary_only_counts_too(start):
    process = start(WRITE, append_row=False).ready()
    outcome = process.run(files("a"))
    assert (outcome.rows, outcome.returned, outcome.files) == (b"", 1, ["a.txt", "sub/a.txt"])


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (
            "/".join(["x" * 200] * 5),
            "its path below EntryScript().output_dir has 1004 bytes, and 900 are the most",
        ),
        ("a/" + "x" * 255, "a part of its name has 255 bytes, and 216 are the most"),
        ("x" * 217 + "/a", "a part of its name has 217 bytes, and 216 are the most"),
        ("a\\b", "its name has a backslash or a control character"),
        ("a\nb", "its name has a backslash or a control character"),
        (".tmp/a", "stores keep names for themselves that begin with .tmp"),
        (".prs-claim", "stores keep names for themselves that begin with .tmp or .prs-claim"),
    ],
)
def test_a_name_that_some_place_does_not_take_fails_the_try(start, name, what):
    process = start(
        HEAD + f"NAME = {name!r}\ndef run(mini_batch):\n    bad = mini_batch[0].endswith('bad')\n"
        "    path = out / (NAME if bad else 'fine')\n    path.parent.mkdir(parents=True, exist_ok=True)\n"
        "    path.write_text('x')\n    return mini_batch\n"
    ).ready()
    outcome = process.run(files("bad"))
    assert (outcome.error.stage, outcome.error.category, outcome.files) == ("Run", "OutputError", [])
    path = f"{process.folder}/output/{name}".replace("\n", "?")
    assert outcome.error.message.startswith(f"{path} cannot be in the output: {what}"), outcome.error.message
    assert process.run(files("good")).files == ["fine"]
    assert below(process.folder / "output") == []


def test_the_longest_names_are_taken(start):
    name = "/".join(["x" * 216] * 4 + ["y" * 32])
    process = start(
        HEAD + f"def run(mini_batch):\n    path = out / {name!r}\n    path.parent.mkdir(parents=True)\n"
        "    path.write_text('x')\n    return mini_batch\n"
    ).ready()
    assert process.run().files == [name]


NAMED = (
    "import os, sys\n"
    "from azureml_user.parallel_run import EntryScript\n"
    "out = os.path.join(EntryScript().output_dir, 'a', 'models')\n"
    "one = os.path.join(EntryScript().output_dir, 'r', 'one.txt')\n"
    "def clean():\n"
    "    return os.listdir(out) == [] and os.path.isdir(os.path.dirname(one)) and not os.path.exists(one)\n"
)
OUTPUTS = [["models", "a/models", False], ["one", "r/one.txt", True]]


def test_named_outputs_are_there_and_empty_whenever_the_script_runs(start):
    script = (
        NAMED + "def init():\n    assert clean()\n"
        "def run(mini_batch):\n"
        "    assert clean(), (os.listdir(out), os.path.exists(one))\n"
        "    name = os.path.basename(mini_batch[0])\n"
        "    os.makedirs(os.path.join(out, 'model', 'deep'))\n"
        "    for path in (os.path.join(out, 'model', 'deep', name), one):\n"
        "        with open(path, 'w') as file:\n            file.write(name)\n"
        "    if name.startswith('bad'):\n        raise ValueError(name)\n"
        "    return mini_batch\n"
    )
    process = start(script, outputs=OUTPUTS).ready()
    assert process.run(files("bad")).error.category == "ValueError"
    for name in ("x", "y"):
        outcome = process.run(files(name))
        assert outcome.files == [f"a/models/model/deep/{name}", "r/one.txt"], outcome.error
        assert process.run(files("bad2")).error.message == "bad2"
    assert (process.folder / "staging/2/r/one.txt").read_text() == "x"


def test_what_init_wrote_below_a_named_output_goes_with_the_first_mini_batch(start):
    script = (
        NAMED + "def init():\n"
        "    os.makedirs(os.path.join(out, 'kept'))\n"
        "    open(os.path.join(out, 'kept', 'first'), 'w').close()\n"
        "def run(mini_batch):\n"
        "    name = os.path.basename(mini_batch[0])\n"
        "    open(os.path.join(out, 'kept', name), 'w').close()\n"
        "    if name == 'bad':\n        raise ValueError(name)\n"
        "    return [sorted(os.listdir(out))]\n"
    )
    process = start(script, outputs=OUTPUTS).ready()
    assert process.run(files("bad")).files == []
    assert process.run(files("x")).files == ["a/models/kept/first", "a/models/kept/x"]
    assert process.run(files("y")).files == ["a/models/kept/y"]


@pytest.mark.parametrize("after", ["", "    raise ValueError('no')\n"])
def test_a_named_output_that_the_script_takes_away_is_there_again(start, after):
    script = (
        NAMED + "import shutil\n"
        "def run(mini_batch):\n"
        "    assert clean()\n"
        "    name = os.path.basename(mini_batch[0])\n"
        "    if name == 'removes':\n        shutil.rmtree(EntryScript().output_dir)\n"
        "    if name == 'moves':\n        os.rename(out, out + '-2')\n"
        "    if name == 'replaces':\n        os.rmdir(out)\n        open(out, 'w').close()\n"
        "    if name == 'fills':\n        os.mkdir(one)\n        open(one + '/x', 'w').close()\n"
        "    if name == 'nothing':\n        return mini_batch\n"
        f"{after}    return mini_batch\n"
    )
    process = start(script, outputs=OUTPUTS).ready()
    for name, expected in [
        ("removes", []),
        ("moves", []),
        ("replaces", ["a/models"]),
        ("fills", ["r/one.txt/x"]),
        ("removes", []),
    ]:
        outcome = process.run(files(name))
        assert outcome.files == ([] if after else expected), outcome.error
        assert process.run(files("nothing")).error is None


# How a script may have its output folder, or one below it, lead to a folder of others.
LEADING = {
    "a link in its place": "shutil.rmtree(out); os.symlink(others, out)",
    "a link to the folder above": "shutil.rmtree(out); os.symlink(others.parent, out)",
    "moved away, and a link": "os.rename(out, str(out) + '-away'); os.symlink(others, out)",
    "a link below": "os.symlink(others, out / 'link')",
    "a link in a folder": "(out / 'sub').mkdir(); os.symlink(others, out / 'sub' / 'link')",
    "a link in place of a folder": "shutil.rmtree(out / 'kept'); os.symlink(others, out / 'kept')",
    "a link to a file": "os.symlink(others / 'file', out / 'file')",
    "a file in its place": "shutil.rmtree(out); out.write_text('x')",
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("how", LEADING)
def test_nothing_is_touched_that_a_link_leads_to(start, tmp_path, how, fails):
    others = tmp_path / "others"
    (others / "below").mkdir(parents=True)
    (others / "file").write_text("of others")
    (others / "below" / "file").write_text("of others")

    def seen():
        stats = [(path, path.stat()) for path in sorted(others.rglob("*"))]
        return [(path, stat.st_ino, stat.st_nlink, stat.st_size, stat.st_mtime_ns) for path, stat in stats]

    before = seen()
    script = (
        HEAD + f"import shutil\nothers = pathlib.Path({str(others)!r})\n"
        "def init():\n    (out / 'kept').mkdir()\n"
        "def run(mini_batch):\n    if mini_batch[0].endswith('bad'):\n"
        f"        {LEADING[how]}\n        if {fails}:\n            raise ValueError\n"
        "    else:\n        (out / 'own').write_text('x')\n    return mini_batch\n"
    )
    process = start(script).ready()
    outcome = process.run(files("bad"))
    assert (outcome.files, outcome.error.category) == ([], "ValueError" if fails else "OutputError")
    if not fails:
        what = "a file" if "a file in" in how else "a symbolic link"
        assert f" is {what}; only regular files can be written below" in outcome.error.message
    assert process.run(files("a")).files == ["own"]
    assert seen() == before
    assert below(process.folder / "staging") == ["2/own"]


def test_a_file_that_others_hold_is_copied(start, tmp_path):
    held = tmp_path / "held"
    held.write_text("of others")
    script = HEAD + f"def run(mini_batch):\n    os.link({str(held)!r}, out / 'held')\n    return mini_batch\n"
    process = start(script).ready()
    assert process.run().files == ["held"]
    staged = process.folder / "staging" / "1" / "held"
    assert staged.read_text() == "of others"
    assert held.stat().st_nlink == 1 and staged.stat().st_ino != held.stat().st_ino
