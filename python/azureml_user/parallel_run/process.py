"""`python -m azureml_user.parallel_run.process`: the life of one process.

Started by the agent with two inherited descriptors; shakes hands, imports the script, calls `init()`, lets
the extension run mini-batches and ends in order. Started by hand it only says so.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import sys
import time
from types import SimpleNamespace
from typing import Any, Callable

from azureml_user.parallel_run import (
    context,
    errors,
    folders,
    foreground,
    frames,
    logs,
    parquet_output,
    profiling,
    results,
    script,
    settings,
    stacks,
    surroundings,
    tables,
)
from azureml_user.parallel_run.entry_script import EntryScript

_SOCKET = "PRS_PROCESS_SOCKET"
_PAGE = "PRS_PROCESS_PAGE"
# prs's own script that needs the slices that frames are of.
_SPLIT = "azureml_user.parallel_run.shuffle_split"
# prs's own script for models of MLflow, which makes rows itself.
_SCORER = "azureml_user.parallel_run.score_mlflow"
# Python processes are killed before the agent when memory runs out.
_OOM_SCORE = "500"


class Host:
    """What the loop in the extension calls."""

    def __init__(
        self,
        start: Any,
        entry: script.Script,
        profiler: profiling.Profiler | None,
        describe: Callable[[BaseException, str], errors.Description],
        result_of: Callable[[Any], Any],
    ) -> None:
        self.run: Callable[..., Any] = entry.run
        self.result_of = result_of
        self.describe = describe
        form = start.output_format
        to_csv = settings.to_csv_arguments(entry.path, start.arguments, form)
        parquet = parquet_output.ParquetOutput() if form == "parquet" else None
        is_json = form == "json_lines"
        only_tables = form is not None and not is_json
        is_csv = only_tables and parquet is None
        is_scored = start.entry_script == _SCORER
        self.results = results.Results(
            tables.Tables(to_csv, is_csv), only_tables, is_json, parquet, is_scored
        )
        self.frames = frames.Frames() if frames.check(start.inputs) else None
        if self.frames is not None and start.entry_script == _SPLIT:
            self.frames.want_slices(start.arguments)
        self.tables = [self._table_work(one) for one in start.inputs]
        self.profiler = profiler
        self._datasets = [context.Dataset(one.name, one.kind, one.path) for one in start.inputs]
        self.context = self._make_context if entry.takes_context or entry.has_lanes else None

    def _table_work(self, one: Any) -> Any | None:
        """What is done with the slices of an input."""
        if one.table is None or self.frames is None:
            return None
        # It needs pandas, which jobs over files may not have.
        from azureml_user.parallel_run.table_work import TableWork

        return TableWork(one.table, self.frames.text)

    def _make_context(
        self,
        index: int,
        id: str,
        retry_count: int,
        input: int,
        names: Callable[[], list[str]],
        keys: list[tuple[str, context.Key]] | None,
        output_dir: str | None = None,
    ) -> context.MiniBatchContext:
        dataset = self._datasets[input]
        return context.MiniBatchContext(index, id, retry_count, dataset, names, keys, output_dir)


def main() -> int:
    """Runs the process to its end; the exit code is 0 when it ended in order and 1 when init failed."""
    socket, page = os.environ.pop(_SOCKET, None), os.environ.pop(_PAGE, None)
    if socket is None or page is None:
        print(
            "this module is started by prs worker; to try a script, import it and call run()", file=sys.stderr
        )
        return 2
    import prs_process

    began = time.monotonic()
    folders.hold()
    _volunteer_for_oom()
    connection = prs_process.Connection.open(int(socket), int(page), platform.python_version())
    start = json.loads(connection.start(), object_hook=lambda fields: SimpleNamespace(**fields))
    os.register_at_fork(after_in_child=connection.forget)

    terminal = foreground.take()
    if terminal is None:
        stacks.set_up(start.stack_path, start.stack_signal)
        describe = functools.partial(errors.describe, code_dir=start.code_dir)
    else:
        describe = terminal.describe
    profiler: profiling.Profiler | None = None
    try:
        _prepare(start, has_terminal=terminal is not None)
        if terminal is not None:
            terminal.begin(start.code_dir)
        profile_path = start.profile_path or os.path.join(start.log_dir, f"{start.process_name}.profile")
        profiler = profiling.make(start.arguments, profile_path)
        frames.check(start.inputs)
        entry = script.load(start.code_dir, start.entry_script, settings.streams(start.arguments))
        sys.argv[0] = entry.path
        _check_concurrency(start, entry)
        if start.entry_script == _SCORER:
            entry.module.configure(start.run_max_try)
        caller = _Caller(entry.is_async)
        host = Host(start, entry, profiler, describe, caller.result_of)
    except BaseException as error:
        described = describe(error, f"importing {start.entry_script}")
        connection.import_failed(described, errors.keeps_from_importing(error))
        return 1
    if terminal is not None and terminal.only_imports:
        connection.ready(time.monotonic() - began, errors.frame_of(entry.run))
        return 0
    try:
        _call(entry.init, caller, profiler)
    except BaseException as error:
        is_permanent = isinstance(error, (ModuleNotFoundError, errors.ScriptError))
        connection.init_failed(describe(error, "init()"), is_permanent)
        return 1
    connection.ready(time.monotonic() - began, errors.frame_of(entry.run), entry.has_lanes)

    if not entry.has_lanes:
        prs_process.serve(connection, host)
    else:
        _serve_several(
            connection, prs_process.Lanes(connection, host), entry, start.concurrency, caller, profiler
        )

    connection.shutting_down()
    failure = None
    try:
        _call(entry.shutdown, caller, None)
    except BaseException as error:
        failure = describe(error, "shutdown()")
    caller.close()
    if profiler is not None:
        profiler.dump()
    connection.bye(failure)
    return 0


def _prepare(start: Any, has_terminal: bool) -> None:
    """Gives the script the surroundings it expects: `EntryScript`, logs, `sys.argv`, its own folder."""
    if sys.path and sys.path[0] in ("", os.getcwd()):
        # What the script writes into its working folder is not to be imported.
        del sys.path[0]
    for folder in (start.log_dir, start.working_dir, start.output_dir):
        folders.make(folder)
    for output in start.outputs:
        path = os.path.join(start.output_dir, output.path)
        folders.make(os.path.dirname(path) if output.is_file else path)
    folders.enter(start.working_dir)
    EntryScript()._configure(
        agent_name=start.process_name,
        node_id=start.node_id,
        logging_level=start.logging_level,
        log_dir=start.log_dir,
        working_dir=start.working_dir,
        output_dir=start.output_dir,
        has_terminal=has_terminal,
    )
    logs.set_up(start.logging_level)
    surroundings.set_up()
    sys.argv = [os.path.join(start.code_dir, start.entry_script), *start.arguments]


def _check_concurrency(start: Any, entry: script.Script) -> None:
    """Refuses a setting that would have no meaning."""
    if start.concurrency.is_asked_for and not entry.has_lanes:
        raise errors.ScriptError(
            "ValueError",
            f"max_concurrency: {start.concurrency.most} is for scripts with an async def run(), or that "
            f"stream (--amlbi_async_mode true); run() in {entry.path} is neither: remove the key, or define "
            "it, and what decorates it, with async def",
        )


def _serve_several(
    connection: Any,
    lanes: Any,
    entry: script.Script,
    limits: Any,
    caller: _Caller,
    profiler: profiling.Profiler | None,
) -> None:
    """Serves a script that has several mini-batches under way at once."""
    EntryScript()._has_lanes()
    logs.name_mini_batches()
    if entry.streaming is not None:
        from azureml_user.parallel_run import streaming

        streaming.Stream(lanes, entry.streaming, limits.most, connection.notice, profiler).serve()
    else:
        from azureml_user.parallel_run import concurrent

        concurrent.serve(lanes, entry, caller.loop(), limits.run_timeout, profiler)


class _Caller:
    """Calls `init()` and `shutdown()`, which may be async, and awaits what a plain `run()` leaves to be
    awaited; the event loop is made when there is something to await."""

    def __init__(self, needs_loop: bool) -> None:
        self._loop: Any = None
        if needs_loop:
            # A plain init() may ask for it.
            self.loop()

    def loop(self) -> Any:
        """The event loop of the process."""
        if self._loop is None:
            from azureml_user.parallel_run.concurrent import EventLoop

            self._loop = EventLoop()
        return self._loop

    def call(self, function: Callable[[], Any]) -> None:
        result = function()
        if script.is_pending(result):
            self.result_of(result)

    def result_of(self, result: Any) -> Any:
        """What `result` gives, an awaitable or an async iterable."""
        return self.loop().result_of(result)

    def close(self) -> None:
        """The script is done with the loop."""
        if self._loop is not None:
            # What is left of the script's own tasks ends with the process.
            with contextlib.suppress(Exception):
                self._loop.close()


def _call(function: Callable[[], Any] | None, caller: _Caller, profiler: profiling.Profiler | None) -> None:
    if function is None:
        return
    if profiler is None:
        caller.call(function)
        return
    profiler.enable()
    try:
        caller.call(function)
    finally:
        profiler.disable()


def _volunteer_for_oom() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(_OOM_SCORE)
    except OSError:
        # Not allowed to here; the kernel then chooses by size alone.
        pass


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    finally:
        logs.close_output()
    sys.exit(code)
