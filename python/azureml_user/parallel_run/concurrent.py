"""An `async def run`: each mini-batch is a task of one event loop, up to `max_concurrency` at once (E17).

A thread takes mini-batches from the agent and reads their data, so that the loop never waits for a disk. A
task that takes longer than `run_invocation_timeout` is cancelled; the agent kills the process of one that
does not heed it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any

from azureml_user.parallel_run import context, profiling, script

# Between two signs of life: the agent takes a loop for held after two seconds without one.
_LIFE_SECONDS = 0.5
# How long tasks that the script has left behind may take to end.
_LEFT_SECONDS = 1.0


class EventLoop:
    """The one event loop of a process: `init()`, `run()` and `shutdown()` share it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def result_of(self, result: Any) -> Any:
        """What `result` gives once it is awaited, or gathered, where it is to be."""
        if hasattr(result, "__aiter__"):
            result = _gather(result)
        if not inspect.isawaitable(result):
            return result
        result, error = self.loop.run_until_complete(_caught(result))
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ends the tasks that the script has left behind, as far as they can be ended."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=_LEFT_SECONDS))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


def serve(
    lanes: Any,
    entry: script.Script,
    loop: EventLoop,
    timeout: float,
    profiler: profiling.Profiler | None,
) -> None:
    """Runs mini-batches until the agent says that no more come and all have ended. `timeout` is in seconds, 0
    is none."""
    tasks = _Tasks(lanes, entry, loop.loop, timeout, profiler)
    if profiler is not None:
        profiler.enable()
    try:
        tasks.serve()
    finally:
        if profiler is not None:
            profiler.disable()


class _Tasks:
    """The mini-batches that are under way."""

    def __init__(
        self,
        lanes: Any,
        entry: script.Script,
        loop: asyncio.AbstractEventLoop,
        timeout: float,
        profiler: profiling.Profiler | None,
    ) -> None:
        self._lanes = lanes
        self._run, self._takes_context = entry.run, entry.takes_context
        self._loop = loop
        self._timeout = timeout
        self._profiler = profiler
        self._tasks: set[asyncio.Task[None]] = set()
        self._no_more = False
        self._ended = False
        self._failure: BaseException | None = None

    def serve(self) -> None:
        feeder = threading.Thread(target=self._feed, name="prs-feeder", daemon=True)
        self._loop.call_soon(self._show_life)
        self._loop.call_soon(feeder.start)
        while not self._ended:
            # What a task of the script's own may raise; who awaits it has it, too.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        if self._failure is not None:
            raise self._failure

    def _feed(self) -> None:
        """Body of the thread that takes mini-batches."""
        failure: BaseException | None = None
        try:
            while True:
                turn = self._lanes.next()
                if turn is None:
                    break
                self._loop.call_soon_threadsafe(self._begin, turn)
        except BaseException as error:
            failure = error
        self._loop.call_soon_threadsafe(self._feeder_ended, failure)

    def _feeder_ended(self, failure: BaseException | None) -> None:
        self._no_more = True
        if failure is not None:
            self._end(failure)
        elif not self._tasks:
            self._end(None)

    def _begin(self, turn: Any) -> None:
        task = self._loop.create_task(_Steps(self._one(turn), turn))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _one(self, turn: Any) -> None:
        # Its time begins here, and not with the task: others may have held the loop since.
        argument, about = turn.take()
        # A task has a context of its own, which all that `run()` starts inherits.
        context.current.set(about)
        clock = _Clock(self._loop, turn, self._timeout)
        task = asyncio.current_task()
        if self._timeout and task is not None:
            clock.start(self._timeout, task)
        try:
            result = self._run(argument, about) if self._takes_context else self._run(argument)
            if hasattr(result, "__aiter__"):
                result = await _gather(result)
            elif inspect.isawaitable(result):
                result = await result
        except GeneratorExit:
            # The loop is closed over it.
            raise
        except BaseException as error:
            clock.stop()
            if clock.is_late:
                turn.cancelled(error)
            else:
                turn.fail(error)
        else:
            clock.stop()
            if clock.is_late:
                turn.cancelled()
            else:
                turn.finish(result)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self._end(failure)
        elif self._no_more and not self._tasks:
            self._end(None)

    def _end(self, failure: BaseException | None) -> None:
        self._ended = True
        self._failure = self._failure or failure
        self._loop.stop()

    def _show_life(self) -> None:
        self._lanes.show_life()
        if self._profiler is not None:
            # To write its figures ends it.
            self._profiler.disable()
            self._profiler.dump_if_due()
            self._profiler.enable()
        if not self._ended:
            self._loop.call_later(_LIFE_SECONDS, self._show_life)


class _Clock:
    """Cancels a task that takes too long, once. Time in which the process was stopped does not count."""

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: Any, timeout: float) -> None:
        self.is_late = False
        self._loop, self._turn, self._timeout = loop, turn, timeout
        self._timer: asyncio.TimerHandle | None = None

    def start(self, seconds: float, task: asyncio.Task[None]) -> None:
        self._timer = self._loop.call_later(seconds, self._ring, task)

    def _ring(self, task: asyncio.Task[None]) -> None:
        left = self._turn.left(self._timeout)
        if left > 0:
            self.start(left, task)
            return
        self.is_late = True
        task.cancel()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _Steps(Coroutine):  # type: ignore[type-arg]
    """A coroutine that tells the agent while it has the loop: where the process dies or hangs then, it is
    known over which mini-batch."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], turn: Any) -> None:
        self._coroutine = coroutine
        self._enter, self._leave = turn.enter, turn.leave

    def send(self, value: Any) -> Any:
        self._enter()
        try:
            return self._coroutine.send(value)
        finally:
            self._leave()

    def throw(self, *error: Any) -> Any:
        self._enter()
        try:
            return self._coroutine.throw(*error)
        finally:
            self._leave()

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Any:
        return self._coroutine.__await__()


async def _caught(result: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Its result or its exception: one that passed through the loop would have the lines of asyncio in its
    traceback, and `SystemExit` would end the loop."""
    try:
        return await result, None
    except GeneratorExit:
        # The loop is closed over it.
        raise
    except BaseException as error:
        return None, error


async def _gather(results: Any) -> list[Any]:
    return [result async for result in results]
