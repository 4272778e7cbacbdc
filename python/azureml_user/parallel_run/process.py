"""`python -m azureml_user.parallel_run.process`: the life of one process.

Started by the agent with two inherited descriptors; shakes hands, imports the script, calls `init()`, lets
the extension run mini-batches and ends in order. Started by hand it only says so.
"""

from __future__ import annotations

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
    foreground,
    frames,
    logs,
    profiling,
    results,
    script,
    settings,
    stacks,
    tables,
)
from azureml_user.parallel_run.entry_script import EntryScript

_SOCKET = "PRS_PROCESS_SOCKET"
_PAGE = "PRS_PROCESS_PAGE"
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
    ) -> None:
        self.run: Callable[..., Any] = entry.run
        self.describe = describe
        form = start.output_format
        to_csv = settings.to_csv_arguments(entry.path, start.arguments, form)
        is_csv = form is not None
        self.results = results.Results(tables.Tables(to_csv, is_csv), only_tables=is_csv)
        self.frames = frames.Frames() if frames.check(start.inputs) else None
        self.profiler = profiler
        self._datasets = [context.Dataset(one.name, one.kind, one.path) for one in start.inputs]
        self.context = self._make_context if entry.takes_context else None

    def _make_context(
        self, index: int, id: str, retry_count: int, input: int, names: Callable[[], list[str]]
    ) -> context.MiniBatchContext:
        return context.MiniBatchContext(index, id, retry_count, self._datasets[input], names)


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
        entry = script.load(start.code_dir, start.entry_script)
        sys.argv[0] = entry.path
        host = Host(start, entry, profiler, describe)
    except BaseException as error:
        described = describe(error, f"importing {start.entry_script}")
        connection.import_failed(described, errors.keeps_from_importing(error))
        return 1
    if terminal is not None and terminal.only_imports:
        connection.ready(time.monotonic() - began, errors.frame_of(entry.run))
        return 0
    try:
        _call(entry.init, profiler)
    except BaseException as error:
        connection.init_failed(describe(error, "init()"), isinstance(error, ModuleNotFoundError))
        return 1
    connection.ready(time.monotonic() - began, errors.frame_of(entry.run))

    prs_process.serve(connection, host)

    connection.shutting_down()
    failure = None
    try:
        _call(entry.shutdown, None)
    except BaseException as error:
        failure = describe(error, "shutdown()")
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
        os.makedirs(folder, exist_ok=True)
    os.chdir(start.working_dir)
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
    sys.argv = [os.path.join(start.code_dir, start.entry_script), *start.arguments]


def _call(function: Callable[[], Any] | None, profiler: profiling.Profiler | None) -> None:
    if function is None:
        return
    if profiler is None:
        function()
        return
    profiler.enable()
    try:
        function()
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
