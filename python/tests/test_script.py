"""The entry script: how it is found, imported and refused (spec E1-E3, E11)."""

from __future__ import annotations

import os

import pytest
from harness import files

ECHO = "def run(mini_batch):\n    return [{}]\n"


def row_of(process):
    outcome = process.ready().run(files("a"))
    assert outcome.error is None, outcome.error
    return outcome.rows.decode().rstrip("\n")


def test_paths_become_rows(start):
    process = start("def run(mini_batch):\n    return [p + ': ok' for p in mini_batch]\n").ready()
    outcome = process.run(files("a", "sub/b"))
    assert (outcome.items, outcome.returned, outcome.error) == (2, 2, None)
    assert outcome.rows == b"/data/a: ok\n/data/sub/b: ok\n"
    assert process.shutdown() is None


def test_a_part_has_some_of_the_files_and_their_names(start):
    process = start("def run(paths, context):\n    return list(zip(paths, context.items))\n").ready()
    process.hand_over(files("a", "b", "c", "d"), part=(1, 3))
    outcome = process.outcome()
    assert outcome.error is None, outcome.error
    assert (outcome.items, process.page.items) == (2, 2)
    assert [line.split("'")[3] for line in outcome.rows.decode().splitlines()] == ["b", "c"]


def test_paths_without_a_base_are_taken_as_they_are(start):
    process = start("def run(mini_batch):\n    return mini_batch\n").ready()
    assert process.run(files("/x/a", "/y/é", base="")).rows == "/x/a\n/y/é\n".encode()


@pytest.mark.parametrize(
    ("code", "entry_script", "name"),
    [
        ({"score.py": ECHO.format("__name__")}, "score.py", "score"),
        ({"score.py": ECHO.format("__name__")}, "./score.py", "score"),
        ({"score.py": ECHO.format("__name__")}, "score", "score"),
        ({"sub/score.py": ECHO.format("__name__")}, "sub/score.py", "sub.score"),
        ({"pkg/__init__.py": "", "pkg/main.py": ECHO.format("__name__")}, "pkg.main", "pkg.main"),
        ({"pkg/__init__.py": "", "pkg/main.py": ECHO.format("__name__")}, "pkg/main.py", "pkg.main"),
        ({"my-score.py": ECHO.format("__name__")}, "my-score.py", "my-score"),
        ({"score.v2.py": ECHO.format("__name__")}, "score.v2.py", "score_v2"),
        ({"logging.py": ECHO.format("__name__")}, "logging.py", "entry_logging"),
        ({"json.py": ECHO.format("__name__")}, "json.py", "entry_json"),
    ],
)
def test_the_script_is_imported_by_its_proper_name(start, code, entry_script, name):
    assert row_of(start(code=code, entry_script=entry_script)) == name


def test_relative_imports_siblings_and_packages_work(start):
    main = (
        "import os, helper\nfrom . import other\nfrom .deep.er import VALUE\n"
        "def run(mini_batch):\n"
        "    text = open(os.path.join(os.path.dirname(__file__), 'data.txt')).read()\n"
        "    return [f'{helper.X} {other.Y} {VALUE} {text}']\n"
    )
    code = {
        "helper.py": "X = 1\n",
        "pkg/__init__.py": "",
        "pkg/main.py": main,
        "pkg/other.py": "Y = 2\n",
        "pkg/deep/__init__.py": "",
        "pkg/deep/er.py": "VALUE = 3\n",
        "pkg/data.txt": "4",
    }
    assert row_of(start(code=code, entry_script="pkg/main.py")) == "1 2 3 4"


def test_a_script_in_a_plain_folder_finds_what_lies_beside_it(start):
    code = {
        "sub/score.py": "import beside\ndef run(mini_batch):\n    return [beside.X]\n",
        "sub/beside.py": "X = 5\n",
    }
    assert row_of(start(code=code, entry_script="sub/score.py")) == "5"


def test_classes_of_the_script_can_be_pickled(start):
    script = (
        "import pickle, sys\nclass Thing: pass\n"
        "def run(mini_batch):\n"
        "    same = type(pickle.loads(pickle.dumps(Thing()))) is Thing\n"
        "    return [same and sys.modules[__name__].run is run]\n"
    )
    assert row_of(start(script)) == "True"
    assert row_of(start(script, entry_script="a.b.py")) == "True"


def test_the_script_does_not_see_the_descriptors_or_the_working_folder(start, monkeypatch):
    # Settings of the whole test run.
    for name in [name for name in os.environ if name.startswith(("PRS_TEST_", "PRS_FUZZ_"))]:
        monkeypatch.delenv(name)
    script = (
        "import os, sys, subprocess\n"
        "def run(mini_batch):\n"
        "    held = [k for k in os.environ if k.startswith('PRS_')]\n"
        "    child = subprocess.run([sys.executable, '-c', 'import os; "
        'print(sorted(os.listdir("/proc/self/fd")))\'],\n'
        "                           capture_output=True, text=True, close_fds=False).stdout.strip()\n"
        "    return [held, os.getcwd() in sys.path or '' in sys.path, sys.path[0] == "
        "os.path.dirname(__file__), child]\n"
    )
    outcome = start(script).ready().run(files("a"))
    held, seen, first, child = outcome.rows.decode().splitlines()
    assert (held, seen, first) == ("[]", "False", "True")
    assert child == "['0', '1', '2', '3']"


def test_children_can_import_the_package(start):
    script = (
        "import subprocess, sys\n"
        "def run(mini_batch):\n"
        "    code = 'from azureml_user.parallel_run import EntryScript as E; print(E().output_dir)'\n"
        "    return [subprocess.run([sys.executable, '-c', code], capture_output=True, "
        "text=True).stdout.strip()]\n"
    )
    process = start(script)
    assert row_of(process) == process.start_fields["output_dir"]


def test_arguments_reach_the_script(start):
    script = (
        "import argparse, sys\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--mini_batch_size', type=int)\nparser.add_argument('--mine')\n"
        "known, rest = parser.parse_known_args()\n"
        "def run(mini_batch):\n    return [sys.argv[0], known.mini_batch_size, known.mine, rest]\n"
    )
    process = start(script, arguments=["--mini_batch_size", "5", "--mine", "ü", "--other", "x"])
    path, size, mine, rest = row_of(process).splitlines()
    assert path == str(process.code_dir / "score.py")
    assert (size, mine, rest) == ("5", "ü", "['--other', 'x']")


RUN = "def run(mini_batch):\n    return []\n"


@pytest.mark.parametrize(
    ("options", "category", "message"),
    [
        ({"script": None}, "FileNotFoundError", "the entry script 'score.py' does not exist in"),
        ({"script": RUN, "entry_script": "../score.py"}, "ValueError", "is not below"),
        (
            {"script": None, "code": {"a.py": RUN}, "entry_script": "pkg.main"},
            "ModuleNotFoundError",
            "there are: a.py",
        ),
        ({"script": "def run(:\n"}, "SyntaxError", "(score.py, line 1)"),
        (
            {"script": "import no_such_module\n" + RUN},
            "ModuleNotFoundError",
            "No module named 'no_such_module'",
        ),
        ({"script": "1 / 0\n"}, "ZeroDivisionError", "division by zero"),
        ({"script": "raise RuntimeError('at import')\n"}, "RuntimeError", "at import"),
        ({"script": "import sys; sys.exit(3)\n"}, "SystemExit", "importing score.py called sys.exit(3)"),
        (
            {"script": "import sys\nsys.exit('enough')\n"},
            "SystemExit",
            "importing score.py called sys.exit(enough)",
        ),
        ({"script": "def init():\n    pass\n"}, "AttributeError", "has no function run()"),
        ({"script": "x = 1\n"}, "AttributeError", "has no function run()"),
        ({"script": "run = 7\n"}, "TypeError", "is a int, not a function"),
        ({"script": "def run():\n    pass\n"}, "TypeError", "run() takes no argument"),
        ({"script": "def run(a, b, c):\n    pass\n"}, "TypeError", "requires 3 arguments (a, b, c)"),
        ({"script": "def run(a, *, b):\n    pass\n"}, "TypeError", "requires the keyword argument 'b'"),
        ({"script": "init = 3\n" + RUN}, "TypeError", "init in"),
        ({"script": RUN + "def init():\n    raise KeyError('weights')\n"}, "KeyError", "'weights'"),
        (
            {"script": RUN + "import sys\ndef init():\n    sys.exit('no GPU')\n"},
            "SystemExit",
            "init() called sys.exit(no GPU)",
        ),
        (
            {"script": RUN + "def init():\n    raise KeyboardInterrupt\n"},
            "KeyboardInterrupt",
            "init() raised",
        ),
    ],
)
def test_a_script_that_cannot_be_used_is_refused_with_the_reason(start, options, category, message):
    error = start(**options).init_failed()
    script = options.get("script") or ""
    stage = "Init" if "def init()" in script and "def run" in script else "Import"
    assert (error.stage, error.category) == (stage, category)
    assert message in error.message


@pytest.mark.parametrize(
    ("script", "is_permanent"),
    [
        ("import no_such_module\n", True),
        ("from os import no_such_name\n", True),
        ("def run(mini_batch)\n", True),
        ("  x = 1\n", True),
        ("import helper\n", True),
        ("x = 1\n", True),
        ("raise OSError('no answer')\n", False),
        (RUN + "def init():\n    import no_such_module\n", True),
        (RUN + "def init():\n    raise ImportError('no GPU')\n", False),
        (RUN + "def init():\n    raise OSError('no answer')\n", False),
    ],
)
def test_what_the_next_process_would_fail_with_too_is_told(start, script, is_permanent):
    process = start(script, code={"helper.py": "1 +\n"})
    process.init_failed()
    assert process.is_permanent == is_permanent


def test_tracebacks_begin_in_the_script(start):
    error = start("import helper\n" + RUN, code={"helper.py": "def f():\n    1 / 0\nf()\n"}).init_failed()
    assert "azureml_user" not in error.traceback
    assert "importlib" not in error.traceback
    assert "helper.py" in error.traceback
    process = start("def run(mini_batch):\n    return [1 / 0]\n").ready()
    traceback = process.run().error.traceback
    assert traceback.count("File ") == 1
    assert "score.py" in traceback


RETRIES = (
    "def retries(times, on_error=None):\n    def w(f):\n        def g(*a, **k):\n            if on_error:\n"
    "                on_error.__name__\n            return f(*a, **k) if times else None\n        return g\n"
    "    return w\n"
)
WRAPS = (
    "import functools\ndef wraps(f):\n    @functools.wraps(f)\n    def g(*a, **k):\n"
    "        return f(*a, **k)\n    return g\n"
)
HOLDER = (
    "class Holder:\n    def __init__(self, f):\n        self.f, self.times = f, 1\n"
    "    def __call__(self, *a, **k):\n        return self.f(*a, **k)\n"
)


@pytest.mark.parametrize(
    ("definition", "count"),
    [
        ("def run(mini_batch):\n    return [1]", "1"),
        ("def run(a, b):\n    return [2]", "2"),
        ("def run(mini_batch, anything=None):\n    return [1 if anything is None else 2]", "1"),
        ("def run(mini_batch, anything=None, *more):\n    return [1 if anything is None else 2]", "1"),
        ("def run(*args):\n    return [len(args)]", "2"),
        ("def run(mini_batch, *more):\n    return [1 + len(more)]", "2"),
        ("def run(a, *, key=1):\n    return [1]", "1"),
        ("class C:\n    def run(self, a):\n        return [1]\nrun = C().run", "1"),
        ("class C:\n    def run(self, a, b):\n        return [2]\nrun = C().run", "2"),
        ("class C:\n    def __call__(self, a, b):\n        return [2]\nrun = C()", "2"),
        ("import functools\ndef f(x, a):\n    return [1]\nrun = functools.partial(f, 0)", "1"),
        ("import functools\ndef f(x, a, b):\n    return [2]\nrun = functools.partial(f, 0)", "2"),
        (
            "def w(f):\n    def g(*a, **k):\n        return f(*a, **k)\n    return g\n"
            "@w\ndef run(a):\n    return [1]",
            "1",
        ),
        (
            "import functools\ndef w(f):\n    @functools.wraps(f)\n    def g(*a, **k):\n"
            "        return f(*a, **k)\n"
            "    return g\n@w\ndef run(a, b):\n    return [2]",
            "2",
        ),
        # A decorator without functools.wraps that holds more than the function: its own is called run.
        (RETRIES + "@retries(2, on_error=print)\ndef run(a):\n    return [1]", "1"),
        (RETRIES + "@retries(2, on_error=print)\ndef run(a, b):\n    return [2]", "2"),
        (RETRIES + "@retries(2, on_error=lambda e: e)\n@retries(1)\ndef run(a):\n    return [1]", "1"),
        # The decorator itself takes one, whatever it was put on.
        (
            "import functools\ndef w(f):\n    @functools.wraps(f)\n    def g(a):\n        return f(a, 0)\n"
            "    return g\n@w\ndef run(a, b):\n    return [1 if b == 0 else 2]",
            "1",
        ),
        # Callable objects: of a class that holds the function, of one that copies its names, and methods.
        (HOLDER + "run = Holder(lambda a: [1])", "1"),
        (HOLDER + "run = Holder(lambda a, b: [2])", "2"),
        (HOLDER + "run = Holder(lambda a, model=1: [model])", "1"),
        (HOLDER + "run = Holder(lambda a: [1]).__call__", "1"),
        (
            HOLDER
            + "import functools\ndef run(a):\n    return [1]\n"
            + "run = functools.update_wrapper(Holder(run), run)",
            "1",
        ),
        (
            "import functools\n@functools.lru_cache\ndef cached(a):\n    return [1]\n"
            "def run(a):\n    return cached(len(a))",
            "1",
        ),
        (WRAPS + "class C:\n    @wraps\n    def run(self, a):\n        return [1]\nrun = C().run", "1"),
        (WRAPS + "class C:\n    @wraps\n    def run(self, a, b):\n        return [2]\nrun = C().run", "2"),
        (WRAPS + "class C:\n    @wraps\n    def __call__(self, a):\n        return [1]\nrun = C()", "1"),
        (WRAPS + "class C:\n    @wraps\n    def __call__(self, a, b):\n        return [2]\nrun = C()", "2"),
        # Partials, with arguments in front and by name, of functions and of decorated ones.
        ("import functools\ndef f(a, model):\n    return [model]\nrun = functools.partial(f, model=1)", "1"),
        (WRAPS + "@wraps\ndef f(x, a):\n    return [1]\nrun = functools.partial(f, 0)", "1"),
        (WRAPS + "@wraps\ndef f(x, a, b):\n    return [2]\nrun = functools.partial(f, 0)", "2"),
        (WRAPS + "@wraps\ndef f(a, model):\n    return [model]\nrun = functools.partial(f, model=1)", "1"),
        (
            RETRIES
            + "import functools\n@retries(1)\ndef f(x, a):\n    return [1]\nrun = functools.partial(f, 0)",
            "1",
        ),
        # One that holds itself.
        ("def w():\n    def g(*a):\n        return [len(a)] if g else []\n    return g\nrun = w()", "2"),
        ("run = lambda mini_batch: ['1']", "1"),
        ("run = sorted", "/data/a"),
    ],
)
def test_the_context_is_passed_where_there_is_a_second_parameter(start, definition, count):
    assert row_of(start(definition + "\n")) == count


def test_init_runs_once_and_shutdown_once(start):
    script = (
        "calls = []\ndef init():\n    calls.append('init')\n"
        "def run(mini_batch):\n    calls.append('run')\n    return [','.join(calls)]\n"
        "def shutdown():\n    print(calls)\n"
    )
    process = start(script).ready()
    process.run()
    assert process.run().rows == b"init,run,run\n"
    assert process.shutdown() is None
    assert process.stdout == "['init', 'run', 'run']\n"


def test_an_error_in_shutdown_is_told(start):
    process = start(RUN + "def shutdown():\n    raise OSError('disk')\n").ready()
    error = process.shutdown()
    assert (error.stage, error.category, error.message) == ("Shutdown", "OSError", "disk")
