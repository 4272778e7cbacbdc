"""A script that streams (spec E17, `--amlbi_async_mode true`): it is handed mini-batches by `enqueue()`,
which returns at once, and tells by `get_finished_batch_result()` which have finished since it was asked last.

All its functions are called in the main thread, one after the other. What it does meanwhile, in threads or
loops of its own, is its affair. Several forms of results are taken, see `entries`.
"""

from __future__ import annotations

import contextvars
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, NamedTuple

from azureml_user.parallel_run import context, errors, profiling, script

# Between two questions for results: short after something has happened, then longer and longer, seconds.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
# While nothing is under way, seconds.
_IDLE_PAUSE = 0.5
# How long the script may go on by itself when all its mini-batches have ended, seconds.
_LAST_PATIENCE = 1.0
# Results of mini-batches that nobody waits for: so many are told of.
_MOST_NOTICES = 5
_RESULT_KEYS = ("ret", "result", "results")
_EXPECTED = (
    "expected is a dict of mini_batch_id to a result, or to a dict with the result as 'ret' and, where it "
    "failed, 'exception', or an iterable of such pairs"
)


class Finished(NamedTuple):
    """A mini-batch that the script has finished."""

    mini_batch_id: str
    result: Any
    exception: BaseException | None


class Stream:
    """The mini-batches that a script has under way."""

    def __init__(
        self,
        lanes: Any,
        functions: script.Streaming,
        most: int,
        notice: Callable[[str], None],
        profiler: profiling.Profiler | None = None,
    ) -> None:
        self._lanes = lanes
        self._script = functions
        self._most = most
        self._notice = notice
        self._profiler = profiler
        self._waiting: dict[str, Any] = {}
        # Mini-batches that were delivered again while they are under way: their results would be told by the
        # same id, so each is handed over when the one before it has ended.
        self._later: dict[str, deque[Any]] = {}
        self._notices = 0

    def serve(self) -> None:
        """Hands mini-batches over until the agent says that no more come and all have ended."""
        pause = _SHORTEST_PAUSE
        while True:
            self._lanes.show_life()
            if self._profiler is not None:
                self._profiler.dump_if_due()
            turn = None
            if self._is_full() or (self._waiting and self._lanes.is_over):
                time.sleep(pause)
            else:
                turn = self._lanes.next(pause if self._waiting else _IDLE_PAUSE)
            if turn is not None:
                self._enqueue(turn)
            if self._waiting:
                has_moved = self._look_for_results() or turn is not None
                pause = _SHORTEST_PAUSE if has_moved else min(pause * 2, _LONGEST_PAUSE)
            elif self._lanes.is_over:
                break
        self._wait_for_the_rest()

    def _is_full(self) -> bool:
        """Whether the script itself says that it has enough; it may count what nobody waits for any more."""
        number = self._script.get_processing_batch_number
        if not self._waiting or number is None:
            return False
        try:
            return bool(self._profiled(number) >= self._most)
        except BaseException as error:
            self._fail_all(error, "get_processing_batch_number()")
            return False

    def _enqueue(self, turn: Any) -> None:
        if turn.mini_batch_id in self._waiting:
            self._later.setdefault(turn.mini_batch_id, deque()).append(turn)
        else:
            self._hand_over(turn)

    def _enqueue_later(self, mini_batch_id: str) -> None:
        """One has ended: hands over the next run of the same mini-batch."""
        later = self._later.pop(mini_batch_id, None)
        while later and mini_batch_id not in self._waiting:
            self._hand_over(later.popleft())
        if later:
            self._later[mini_batch_id] = later

    def _hand_over(self, turn: Any) -> None:
        argument, about = turn.take()
        arguments = (argument, about) if self._script.takes_context else (argument,)
        turn.enter()
        try:
            contextvars.copy_context().run(self._call_for, about, arguments)
        except BaseException as error:
            turn.fail(error, "enqueue()")
        else:
            self._waiting[turn.mini_batch_id] = turn
        finally:
            turn.leave()

    def _call_for(self, about: context.MiniBatchContext, arguments: tuple[Any, ...]) -> None:
        context.current.set(about)
        refuse_pending(self._profiled(self._script.enqueue, *arguments))

    def _look_for_results(self) -> bool:
        """Asks for results; whether there are any."""
        try:
            finished = list(entries(self._profiled(self._script.get_finished_batch_result)))
        except BaseException as error:
            self._fail_all(error, "get_finished_batch_result()")
            return True
        for one in finished:
            turn = self._waiting.pop(one.mini_batch_id, None)
            if turn is None:
                self._note_unknown(one.mini_batch_id)
            elif one.exception is not None:
                turn.fail(one.exception, "the script")
            else:
                turn.finish(one.result)
        # Not before all are looked at: a second result by the same id is not one of the next run.
        for one in finished:
            self._enqueue_later(one.mini_batch_id)
        return bool(finished)

    def _fail_all(self, error: BaseException, place: str) -> None:
        """`place` raised this: of which mini-batch it tells is not known."""
        failed, self._waiting = self._waiting, {}
        for turn in failed.values():
            turn.fail(error, place)
        for mini_batch_id in failed:
            self._enqueue_later(mini_batch_id)

    def _note_unknown(self, mini_batch_id: str) -> None:
        self._notices += 1
        if self._notices <= _MOST_NOTICES:
            self._notice(
                f"get_finished_batch_result() has a result of {mini_batch_id}, which is not under way: it "
                "is left out"
            )

    def _wait_for_the_rest(self) -> None:
        """Lets the script end what nobody waits for, before it is shut down."""
        all_processed = self._script.check_all_tasks_processed
        until = time.monotonic() + _LAST_PATIENCE
        place = "check_all_tasks_processed()"
        try:
            while all_processed is not None and not all_processed() and time.monotonic() < until:
                self._lanes.show_life()
                time.sleep(_SHORTEST_PAUSE)
        except BaseException as error:
            category, message, *_ = errors.describe(error, place)
            self._notice(f"{place} raised {category}: {message}; the script is shut down all the same")

    def _profiled(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._profiler is None:
            return function(*arguments)
        self._profiler.enable()
        try:
            return function(*arguments)
        finally:
            self._profiler.disable()


def refuse_pending(result: Any) -> None:
    """Refuses what an `enqueue()` returned that a decorator made of an async one: its mini-batch would never
    be finished."""
    if script.is_pending(result):
        raise TypeError(
            f"enqueue() returned {_named(result)}, which nobody awaits: define it with def, or remove "
            "--amlbi_async_mode for an async def run()"
        )


def entries(finished: Any) -> Iterator[Finished]:
    """What `get_finished_batch_result()` returned, one mini-batch after the other; refuses anything else."""
    if finished is None:
        return
    if isinstance(finished, Mapping):
        pairs: Iterable[Any] = finished.items()
    elif isinstance(finished, Iterable) and not isinstance(finished, (str, bytes, bytearray)):
        pairs = finished
    else:
        raise TypeError(f"get_finished_batch_result() returned {_named(finished)}; {_EXPECTED}")
    for pair in pairs:
        if isinstance(pair, Mapping):
            yield _entry(None, pair)
        elif isinstance(pair, (tuple, list)) and len(pair) == 2:
            yield _entry(*pair)
        else:
            raise TypeError(f"get_finished_batch_result() has {_named(pair)} among its pairs; {_EXPECTED}")


def _entry(key: Any, value: Any) -> Finished:
    about, result, exception = None, value, None
    if isinstance(value, Mapping):
        names = [name for name in _RESULT_KEYS if name in value]
        about, exception = value.get("mini_batch_context"), value.get("exception")
        if not names and exception is None:
            raise TypeError(
                f"get_finished_batch_result() has a dict with {sorted(map(str, value))} for {key!r}, none of "
                f"which is the result; {_EXPECTED}"
            )
        result = value[names[0]] if names else None
        key = value.get("mini_batch_id", key) if key is None else key
    elif isinstance(value, tuple) and len(value) == 2:
        # With its context, in either order.
        for about_place in (0, 1):
            if isinstance(value[about_place], context.MiniBatchContext):
                about, result = value[about_place], value[1 - about_place]
    if exception is not None and not isinstance(exception, BaseException):
        exception = RuntimeError(str(exception))
    return Finished(_id(about, key), result, exception)


def _id(about: Any, key: Any) -> str:
    """The id of the mini-batch: its context knows it best, for scripts name it as they like."""
    of_context = getattr(about, "mini_batch_id", None)
    if isinstance(of_context, str):
        return of_context
    if isinstance(key, context.MiniBatchContext):
        return key.mini_batch_id
    try:
        # By its index, a number or one as text.
        return f"mb-{int(key):010}"
    except (TypeError, ValueError):
        pass
    if isinstance(key, str):
        return key
    raise TypeError(
        f"get_finished_batch_result() names a mini-batch by {_named(key)}; expected is its mini_batch_id, "
        "its minibatch_index, or its context"
    )


def _named(value: Any) -> str:
    return f"{value!r:.60} ({type(value).__name__})"
