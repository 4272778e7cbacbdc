"""One mini-batch of a job in this interpreter: `prs.try_batch`.

The program plans the job, picks the mini-batch and brings its data here, as `prs try --pytest` does; what
it prints is a test in Python, which is run here. So breakpoints, `%debug` and whatever else this Python
has look into `init()` and `run()`, and what they raise passes through as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
import weakref
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from prs import program
from prs.errors import PrsError, UsageError
from prs.job import Job
from prs.parallel_run import JobLike
from prs.server.job import ServerJob
from prs.servers import FleetLike, Place
from prs.submission import source

_FUNCTION = "test_mini_batch_"
# Where this Python has modules that are no script's, as `sysconfig` calls these folders.
_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")
# Modules that run the script. Their sources may lie in its folder.
_KEPT = ("__main__", "prs", "azureml_user", "prs_process")


class _Folder:
    """A temporary folder that goes with the last that needs it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="prs-try-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class TriedBatch:
    """What `run()` made of a mini-batch.

    `result` is what it returned, `mini_batch` what it was given (paths, or a DataFrame). `items` is how
    many items the mini-batch has, and `returned` how many elements are in the result: a job would miss the
    rest. `init_seconds` and `run_seconds` are how long the two took. `output` is a folder with the files
    that the script wrote to its output, gone with this object."""

    minibatch_index: int
    mini_batch: Any = field(repr=False)
    result: Any = field(repr=False)
    items: int
    returned: int
    init_seconds: float
    run_seconds: float
    output: Path
    _folder: _Folder = field(repr=False, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether there is an element for each item."""
        return self.returned >= self.items


def try_batch(
    job: JobLike | Job,
    mini_batch: int | None = None,
    *,
    item: str | os.PathLike[str] | None = None,
    failed: bool = False,
    code: str | None = None,
    fleet: FleetLike = None,
    runs: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> TriedBatch:
    """Runs the script's `init()` and `run()` in this interpreter, with a mini-batch as the job has it.

    `job` is what `prs.submit` takes, or a `prs.Job` or the name of one. Which mini-batch: the first one, the
    one of this number (`mini_batch`, from 0), the one that has this `item` (a file, of a table `FILE:ROW`),
    of a job the first that `failed`. `code` is `new` or `old`, of a job.

    The script and the modules of its folder are imported anew each time, `init()` included, so that a
    change counts. It needs what the script imports in this interpreter, whatever `environment` says. What
    the script raises is raised here; `prs.PrsError` where there is no such mini-batch. Variables of
    `environment_variables` are not set. An async script in a running event loop, which notebooks have,
    runs in a thread of its own, where breakpoints do not stop."""
    options, document, place = _whereabouts(job, settings, fleet, runs)
    if place.runs is not None and place.folder not in (None, Path.cwd()):
        item = _from_here(item)
    for option, value in [("--mini-batch", mini_batch), ("--item", item), ("--code", code)]:
        options += (
            []
            if value is None
            else [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
        )
    options += ["--failed"] if failed else []
    folder = _Folder()
    data = os.path.join(folder.name, "data")
    test = program.text("try", [*options, "--pytest", "--data", data], place, document=document)
    return _run(test, folder)


def _whereabouts(
    job: JobLike | Job, settings: Mapping[str, Any], fleet: FleetLike, runs: str | os.PathLike[str] | None
) -> tuple[list[str], str | None, Place]:
    """What the program is told of the job, its document where it has no file, and where it is."""
    if isinstance(job, Job):
        if isinstance(job, ServerJob):
            raise UsageError(
                f"job {job.id} is at a server, and its data there: give the job file, or what else handed "
                "it in"
            )
        if fleet is not None or runs is not None:
            raise UsageError("a prs.Job is where it is: leave fleet and runs out")
        return [*job.named, *program.settings(settings)], None, job.place
    place = Place.of(fleet, runs)
    name, document, rest = source(job, settings)
    return [name, *place.arguments(), *program.settings(rest)], document, place


def _from_here(item: str | os.PathLike[str] | None) -> str | None:
    """The item for a program that runs in another folder: the absolute path of what is here, also with a
    row."""
    if item is None:
        return None
    named = os.fspath(item)
    path, colon, row = named.rpartition(":")
    if os.path.exists(named):
        return os.path.abspath(named)
    return os.path.abspath(path) + colon + row if path and os.path.exists(path) else named


def _run(test: str, folder: _Folder) -> TriedBatch:
    """Runs the printed test, and notes what it makes."""
    space: dict[str, Any] = {"__name__": "prs_tried_batch"}
    with _restored():
        exec(compile(test, "<prs try --pytest>", "exec"), space)
        names = [name for name in space if name.startswith(_FUNCTION)]
        if len(names) != 1:
            raise PrsError("prs try --pytest printed no test that this package knows: install prs-run anew")
        seen = _Seen(space["testing"])
        space["testing"] = seen
        test_folder = Path(folder.name, "test")
        test_folder.mkdir()
        function: Any = space[names[0]]
        arguments: dict[str, Any] = {"tmp_path": test_folder}
        if "monkeypatch" in function.__code__.co_varnames[: function.__code__.co_argcount]:
            arguments["monkeypatch"] = _Variables()
        function(**arguments)
    output = test_folder / "output"
    output.mkdir(exist_ok=True)
    return TriedBatch(
        minibatch_index=int(names[0][len(_FUNCTION) :]),
        mini_batch=seen.mini_batch,
        result=seen.result,
        items=seen.items,
        returned=seen.returned,
        init_seconds=seen.init_seconds,
        run_seconds=seen.run_seconds,
        output=output,
        _folder=folder,
    )


class _Seen:
    """Stands for `azureml_user.parallel_run.testing` in the test, and notes what passes by."""

    def __init__(self, testing: ModuleType) -> None:
        self._testing = testing
        self.mini_batch: Any = None
        self.result: Any = None
        self.items = self.returned = 0
        self.init_seconds = self.run_seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._testing, name)

    def Job(self, source_directory: str, entry_script: str, **settings: Any) -> Any:
        """As `testing.Job`, of modules as they are now."""
        _forget_modules(source_directory)
        began = time.perf_counter()
        with _own_loop(self._testing):
            job = self._testing.Job(source_directory, entry_script, **settings)
            self.init_seconds = time.perf_counter() - began
        run = job.run

        def noted(mini_batch: Any, **about: Any) -> Any:
            self.mini_batch = mini_batch
            began = time.perf_counter()
            with _own_loop(self._testing):
                self.result = run(mini_batch, **about)
            self.run_seconds = time.perf_counter() - began
            return self.result

        job.run = noted
        return job

    def count(self, result: Any) -> Any:
        """As `testing.count`; the test may compare it with any number, which is noted."""
        self.returned = self._testing.count(result)
        return _Noted(self)


class _Noted:
    """Equal to the number of items, whatever that is: too few elements are the caller's to judge."""

    def __init__(self, seen: _Seen) -> None:
        self._seen = seen

    def __eq__(self, items: object) -> bool:
        self._seen.items = items if isinstance(items, int) else 0
        return True

    __hash__ = None  # type: ignore[assignment]


class _Variables:
    """What a test asks pytest's `monkeypatch` for. The variables are as before when the test is over."""

    def setenv(self, name: str, value: str) -> None:
        os.environ[name] = value


def _forget_modules(source_directory: str) -> None:
    """Has what lies in the folder imported anew, but for the libraries of this Python, which may lie there
    too, and for what runs the script."""
    folder = os.path.realpath(source_directory) + os.sep
    paths = {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in _LIBRARIES}
    libraries = tuple(path for path in paths if not folder.startswith(path))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in _KEPT:
            continue
        path = os.path.realpath(file)
        if (
            path.startswith(folder)
            and not path.startswith(libraries)
            and "site-packages" not in path[len(folder) :]
        ):
            del sys.modules[name]


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Puts back what a script of a job finds changed: its arguments, where modules are looked for,
    variables."""
    arguments, path, variables = sys.argv[:], sys.path[:], dict(os.environ)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = arguments, path
        for name in set(os.environ) - set(variables):
            del os.environ[name]
        os.environ.update(variables)


@contextlib.contextmanager
def _own_loop(testing: Any) -> Iterator[None]:
    """Where an event loop runs in this thread, which no second one may then, that of the script runs in
    another."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    kept = testing.EventLoop
    testing.EventLoop = _ThreadLoop
    try:
        yield
    finally:
        testing.EventLoop = kept


class _ThreadLoop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="prs-try-loop", daemon=True).start()

    def result_of(self, result: Any) -> Any:
        """What `result` gives once it is awaited, or gathered, where it is to be."""
        given: Callable[[], Coroutine[Any, Any, Any]]
        if hasattr(result, "__aiter__"):

            async def given() -> Any:
                return [one async for one in result]

        elif hasattr(type(result), "__await__"):

            async def given() -> Any:
                return await result

        else:
            return result
        return asyncio.run_coroutine_threadsafe(given(), self._loop).result()
