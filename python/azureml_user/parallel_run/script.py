"""Imports the entry script and looks at its functions (spec E1-E3).

The script is imported as a module, by the name it would have for its siblings, never executed as text: its
classes can be pickled, its relative imports work, `__file__` is right.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import AsyncGenerator, Coroutine
from types import ModuleType
from typing import Any, Callable, NamedTuple

from azureml_user.parallel_run.arity import takes_context
from azureml_user.parallel_run.errors import ScriptError

_CALL = "__call__"


class Streaming(NamedTuple):
    """The functions of a script that streams (spec E17)."""

    enqueue: Callable[..., Any]
    takes_context: bool
    get_finished_batch_result: Callable[[], Any]
    check_all_tasks_processed: Callable[[], Any] | None
    get_processing_batch_number: Callable[[], Any] | None


class Script:
    """An imported entry script. One that `streams` has no `run`, or none that is called: `run` is its
    `enqueue`."""

    def __init__(self, module: ModuleType, streams: bool = False) -> None:
        self.module = module
        self.path = getattr(module, "__file__", None) or module.__name__
        self.init = _optional(module, "init")
        self.shutdown = _optional(module, "shutdown")
        self.streaming = _streaming(module) if streams else None
        self.run = _function(module, "run") if self.streaming is None else self.streaming.enqueue
        self.takes_context = takes_context(self.run, "enqueue" if streams else "run")
        self.is_async = self.streaming is None and is_async(self.run)

    @property
    def has_lanes(self) -> bool:
        """Whether it may have several mini-batches under way at once."""
        return self.is_async or self.streaming is not None


def load(code_dir: str, entry_script: str, streams: bool = False) -> Script:
    """Imports `entry_script`, a file below `code_dir` or a dotted module name, with `code_dir` first on
    `sys.path`. `streams`: whether the job says so. Raises `ScriptError` where it cannot be used, and whatever
    importing it raises."""
    if code_dir in sys.path:
        sys.path.remove(code_dir)
    sys.path.insert(0, code_dir)
    path = _file_of(code_dir, entry_script)
    if path is not None:
        return Script(_import_file(code_dir, path), streams)
    try:
        return Script(importlib.import_module(entry_script), streams)
    except ModuleNotFoundError as error:
        if error.name and (entry_script == error.name or entry_script.startswith(f"{error.name}.")):
            raise ScriptError(
                "ModuleNotFoundError",
                f"the entry script {entry_script!r} is neither a file below {code_dir} nor a module that can "
                f"be imported (no module named {error.name!r}); {_content(code_dir)}",
            ) from None
        raise


def _file_of(code_dir: str, entry_script: str) -> str | None:
    """The file that is meant, or `None` for a module's name."""
    path = os.path.normpath(os.path.join(code_dir, entry_script))
    if os.path.commonpath([os.path.abspath(code_dir), os.path.abspath(path)]) != os.path.abspath(code_dir):
        raise ScriptError("ValueError", f"the entry script {entry_script!r} is not below {code_dir}")
    if os.path.isfile(path):
        return path
    if entry_script.endswith(".py") or "/" in entry_script:
        raise ScriptError(
            "FileNotFoundError",
            f"the entry script {entry_script!r} does not exist in {code_dir}; {_content(code_dir)}",
        )
    return None


def _content(code_dir: str) -> str:
    try:
        names = sorted(os.listdir(code_dir))
    except OSError as error:
        return f"the folder cannot be listed: {error.strerror}"
    if not names:
        return "the folder is empty"
    shown = ", ".join(names[:20])
    return f"there are: {shown}" + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _import_file(code_dir: str, path: str) -> ModuleType:
    """Imports `path` by its name below `code_dir`; by another name only where that one means another file (a
    script called `logging.py`) or is none (`score.v2.py`)."""
    folder = os.path.dirname(path)
    stem, suffix = os.path.splitext(os.path.relpath(path, code_dir))
    if not os.path.isfile(os.path.join(folder, "__init__.py")) and folder != code_dir:
        # Not a package: what lies beside the script is imported as if the script had been started by itself.
        sys.path.insert(1, folder)
    name = stem.replace(os.sep, ".")
    if "." not in stem and suffix == ".py" and _means(name, path):
        return importlib.import_module(name)
    own_name = os.path.basename(stem).replace(".", "_")
    while own_name in sys.modules or (own_name == name and not _means(name, path)):
        own_name = f"entry_{own_name}"
    spec = importlib.util.spec_from_loader(own_name, _loader(own_name, path), origin=path)
    if spec is None:
        raise ScriptError("ImportError", f"{path} cannot be imported as a Python module")
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[own_name] = module
    try:
        _loader(own_name, path).exec_module(module)
    except BaseException:
        sys.modules.pop(own_name, None)
        raise
    return module


def _loader(name: str, path: str) -> importlib.machinery.SourceFileLoader:
    return importlib.machinery.SourceFileLoader(name, path)


def _means(name: str, path: str) -> bool:
    """Whether importing `name` gives the file `path`."""
    loaded = sys.modules.get(name)
    try:
        spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):
        return False
    return (
        spec is not None
        and spec.origin is not None
        and os.path.realpath(spec.origin) == os.path.realpath(path)
    )


def _optional(module: ModuleType, name: str) -> Callable[..., Any] | None:
    return _function(module, name) if getattr(module, name, None) is not None else None


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    where = getattr(module, "__file__", module.__name__)
    if found is None and name == "run" and hasattr(module, "enqueue"):
        raise ScriptError(
            "AttributeError",
            f"{where} has no function run() but enqueue(): give a script that streams the arguments "
            "[--amlbi_async_mode, true]",
        )
    if found is None:
        raise ScriptError("AttributeError", f"{where} has no function {name}(); define {name}(mini_batch)")
    if not callable(found):
        raise ScriptError("TypeError", f"{name} in {where} is a {type(found).__name__}, not a function")
    return found


def _streaming(module: ModuleType) -> Streaming:
    where = getattr(module, "__file__", module.__name__)
    for name, form in [
        ("enqueue", "enqueue(mini_batch, mini_batch_context)"),
        ("get_finished_batch_result", "get_finished_batch_result()"),
    ]:
        if getattr(module, name, None) is None:
            raise ScriptError(
                "AttributeError",
                f"{where} has no function {name}(), which --amlbi_async_mode true asks for: define {form}, "
                "or remove the argument",
            )
    names = ["get_finished_batch_result", "check_all_tasks_processed", "get_processing_batch_number"]
    functions = [_optional(module, name) for name in names]
    enqueue = _function(module, "enqueue")
    for name, function in zip(["enqueue", *names], [enqueue, *functions]):
        if function is not None and is_async(function):
            raise ScriptError(
                "TypeError",
                f"{name}() in {where} is async: with --amlbi_async_mode true it is called as it is, so "
                "define it with def; for an async def run() remove the argument",
            )
    finished, all_processed, number = functions
    assert finished is not None
    return Streaming(enqueue, takes_context(enqueue, "enqueue"), finished, all_processed, number)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether `function` is itself async. What a decorator hides does not count: the decorator may well run
    it to its end, by `asyncio.run()` for one, and that fails where a loop runs already."""
    while isinstance(function, functools.partial):
        function = function.func
    candidates = [function, getattr(type(function), _CALL, None)]
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in candidates)


def is_pending(result: Any) -> bool:
    """Whether a function that is not async itself has left work to be done: it gave a coroutine or an async
    generator of another. Not any awaitable: clients of services may be, and are ready all the same."""
    return isinstance(result, (Coroutine, AsyncGenerator))


def is_awaited(result: Any) -> bool:
    """Whether what a plain `run()` returned is awaited, or gathered: no awaitable is a result."""
    return any(hasattr(type(result), name) for name in ("__await__", "__aiter__"))
