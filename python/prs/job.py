"""A job: how it stands, its end, its result, what failed, and how it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import unquote, urlsplit

from prs import program, results
from prs.child import Child
from prs.errors import Canceled, Incomplete, JobFailed, Killed, PrsError, Unreachable, UsageError
from prs.progress import Display, display_for
from prs.records import DistinctError, FailedMiniBatch, Log, Status
from prs.servers import Place

if TYPE_CHECKING:
    import pandas

# Between two looks at a job, seconds: the record of an embedded run changes once a second.
_LOOK = 1.0
# The first looks at a job of which no program tells that it has ended.
_FIRST_LOOK = 0.1
# How often a wait looks whether the program has ended that runs the job, seconds.
_TICK = 0.05
# How long a wait puts up with servers that give no answer, seconds.
_PATIENCE = 60.0
_GONE = "interrupted: the program that ran it is gone"


class Job:
    """A job of this machine or of a fleet. `prs.submit`, `prs.job` and `prs.jobs` give one.

    Each method asks the program `prs`, and raises a `prs.PrsError` with its words where it refuses:
    `prs.Unreachable` for a server, `prs.UsageError` for what cannot be."""

    def __init__(
        self, job_id: str, place: Place, child: Child | None = None, name: str | None = None
    ) -> None:
        """Not to be called: `prs.job` finds a job."""
        self._id = job_id
        # What commands call it.
        self._name = job_id if name is None else name
        self._place = place
        # The program that runs it or waits for it, until its outcome was told: after that, and where this
        # object started none, the record of the job says how it stands.
        self._child = child
        # What the last program said that has ended.
        self._said = ""
        self._last: Status | None = None
        # The result file in the folder of `output`, and when the job ended that the program filled it for.
        self._filled: tuple[Path | None, str | None] = (None, None)

    @property
    def place(self) -> Place:
        """Where it is, for the program."""
        return self._place

    @property
    def id(self) -> str:
        """Its id."""
        return self._id

    @property
    def state(self) -> str:
        """Its state, as `status()` has it."""
        return self.status().state

    def __repr__(self) -> str:
        return f"<prs.Job {self._id}>"

    def status(self) -> Status:
        """How it stands, or how it ended."""
        return self._seen(Status.of(self._call("status")))

    @property
    def notes(self) -> Sequence[str]:
        """What the program said on standard error since this object started it, a line each: which
        settings have no meaning here, where the run is, the first errors."""
        child = self._child
        return (self._said if child is None else child.said).splitlines()

    def wait(self, timeout: float | None = None, *, progress: bool = True, check: bool = True) -> Status:
        """Waits for its end; returns how it ended.

        `progress` shows a bar: a widget in a notebook that has ipywidgets, else a line on standard error.
        `timeout` is in seconds; after that the job goes on. Ctrl-C cancels a job that this object runs on
        this machine, and leaves any other as it is; either way `KeyboardInterrupt` is raised, once the job
        that it cancels has ended. A second Ctrl-C does not wait for that.

        Raises `prs.JobFailed`, `prs.Incomplete`, `prs.Canceled`, or `prs.Killed` where the program is gone
        that ran it, each with the first traceback of the script; with `check=False` only `prs.Killed`.
        `TimeoutError` after `timeout`."""
        until = None if timeout is None else time.monotonic() + timeout
        display = display_for(progress)
        try:
            for pause in self._looks(display, until, holds=True):
                if until is not None:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise TimeoutError(f"job {self._id} has not ended after {timeout} s; it goes on")
                    pause = min(pause, left)
                child = self._own_child
                if child is not None:
                    child.wait(pause)
                else:
                    time.sleep(pause)
        except KeyboardInterrupt:
            display.close()
            self._interrupt()
            raise
        finally:
            display.close()
        return self._end(check)

    async def wait_async(
        self, timeout: float | None = None, *, progress: bool = True, check: bool = True
    ) -> Status:
        """As `wait`, in a coroutine: the event loop goes on meanwhile. A task that is cancelled leaves the
        job as it is. The other methods take moments; `await asyncio.to_thread(job.result)` calls one
        beside the loop."""
        until = None if timeout is None else time.monotonic() + timeout
        display = display_for(progress)
        looks = self._looks(display, until)
        try:
            while (pause := await asyncio.to_thread(next, looks, None)) is not None:
                again = time.monotonic() + pause
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"job {self._id} has not ended after {timeout} s; it goes on")
                while not self._child_has_ended and (left := again - time.monotonic()) > 0:
                    if until is not None and time.monotonic() >= until:
                        raise TimeoutError(f"job {self._id} has not ended after {timeout} s; it goes on")
                    await asyncio.sleep(min(left, _TICK))
        finally:
            display.close()
        return await asyncio.to_thread(self._end, check)

    def result(
        self, output_path: str | os.PathLike[str] | None = None, *, allow_incomplete: bool = False
    ) -> Path:
        """Waits for its end without a word, as `wait` does, Ctrl-C included; returns the path of the result
        file, of the folder of the output where the job has no such file (`output_action: summary_only`).

        `output_path` is a folder to copy the output to, checked with its checksum; nothing there is
        overwritten. A result in object storage asks for one. Raises as `wait`; with `allow_incomplete` not
        for missing items."""
        ended = self._completed(allow_incomplete, is_copied=output_path is not None).ended_at
        options = [] if output_path is None else ["--output-path", os.path.abspath(os.fspath(output_path))]
        output = Status.of(self._call("result", *options))
        named = output.output_file or output.output
        local = local_path(named)
        filled, filled_for = self._filled
        if local is None and filled is not None and filled_for == ended and filled.is_file():
            # The program that waited for a fleet has filled the folder of `output`.
            return filled
        if local is None:
            raise UsageError(
                f"the result is in object storage ({named}): give output_path, a folder to copy it to"
            )
        return local

    def dataframe(
        self,
        output_path: str | os.PathLike[str] | None = None,
        *,
        allow_incomplete: bool = False,
        **options: Any,
    ) -> pandas.DataFrame:
        """The result as a `pandas.DataFrame`, which needs pandas. `output_path` and `allow_incomplete` are as
        for `result`.

        A result with `output_format` is read as that says: CSV by `pandas.read_csv`, Parquet by
        `pandas.read_parquet`, which needs pyarrow, JSON lines by `json`, or, where there are options, by
        `pandas.read_json`, which is told to leave values as they stand there (`dtype=False`, and no dates);
        `options` are for these. One without it is text: each line is a row with one column, `row`; where
        the script returns DataFrames, give options such as `sep=" ", header=None`, which read it as CSV."""
        path = self.result(output_path, allow_incomplete=allow_incomplete)
        return results.dataframe(path, self._output_format(path), options)

    def _output_format(self, result: Path) -> Any:
        """How its result, which is at this path, is written."""
        return self.show().get("output_format")

    @property
    def output(self) -> str:
        """The folder of its output, a path or a URL, whether anything is in it yet or not."""
        return self.status().output

    def failed_items(self) -> list[FailedMiniBatch]:
        """The mini-batches that failed or lack items, each with its items and its tries; empty where none
        does. A job that has not ended has no such list yet: `prs.UsageError`."""
        record = self._call("errors", "--items")
        return [FailedMiniBatch.of(one) for one in record["mini_batches"]]

    def errors(self) -> list[DistinctError]:
        """Its distinct errors with a traceback each, those that cost most items first; also while it runs."""
        return [DistinctError.of(one) for one in self._call("errors")["errors"]]

    @overload
    def logs(self) -> list[Log]: ...

    @overload
    def logs(self, name: str) -> str: ...

    def logs(self, name: str | None = None) -> list[Log] | str:
        """Which logs there are; with `name`, as that list or a message has it, the text of one."""
        if name is not None:
            return program.text("logs", [*self.named, "--file", name], self.place)
        return [Log(one["file"], one["bytes"]) for one in self._call("logs")["logs"]]

    def resubmit(self, **settings: Any) -> Job:
        """Runs all of it again as a new job, with its code and inputs and with changes: for a job at a
        server."""
        raise UsageError(
            f"job {self._id} is at no server: prs.submit hands it in again, and prs resubmit does with its "
            "own code"
        )

    def cancel(self) -> Status:
        """Ends it and waits until it has; what is done is kept for `resume`. A job that has ended stays as it
        is."""
        if self.status().is_final:
            return self.status()
        record = self._call("cancel")
        child = self._own_child
        if child is not None:
            child.wait()
        return self._seen(Status.of(record))

    def resume(
        self, *, code: str | os.PathLike[str] | None = None, detach: bool = False, **settings: Any
    ) -> Job:
        """Runs what has no rows yet; the rows that are there stay. Returns this job, which then runs: `wait`
        waits for it.

        `code` is `new` (`source_directory` as it is now) or `old` (that of the job), and has to be given
        where they differ. `settings` are those that `prs resume --set` takes; relative paths start from the
        folder that was the current one when this object was made. `detach` is for a fleet: nobody waits
        there, and the folder of `output` is not filled."""
        if self._own_child is not None and not self._child_has_ended:
            raise UsageError(f"job {self._id} runs: there is nothing to resume", "usage")
        options = [*self.named, *program.settings(settings)]
        options += [] if code is None else ["--code", os.fspath(code)]
        options += ["--detach"] if detach else []
        is_embedded = program.runs_of(self.place) is not None
        child = start("resume", options, self.place, is_embedded=is_embedded)
        child.wait_for_start()
        if child.has_ended and not child.id:
            # It was refused, or there is nothing left to do, and the record says so.
            program.record_of(child.printed, child.said, child.exit_code or 0)
        self._child, self._last = child, None
        if detach:
            self._done_with(child)
        return self

    def show(self) -> Mapping[str, Any]:
        """Its settings as they are stored."""
        shown: Mapping[str, Any] = self._call("show")["spec"]
        return shown

    def leave(self) -> None:
        """Cancels a job of this machine that this object runs, and waits for nothing."""
        child = self._own_child
        if child is not None and child.is_embedded:
            child.interrupt()

    @property
    def named(self) -> list[str]:
        """How a command of the program names it."""
        return [self._name, *self.place.arguments()]

    @property
    def _own_child(self) -> Child | None:
        """The program that this process started. In a fork of that process there is none: the job is looked
        at there."""
        child = self._child
        return child if child is not None and child.is_ours else None

    @property
    def _child_has_ended(self) -> bool:
        child = self._own_child
        return child is not None and child.has_ended

    def _done_with(self, child: Child) -> None:
        """Its outcome counts once: from now on the record of the job says how it stands."""
        if self._child is child:
            self._said, self._child = child.said, None

    def _call(self, command: str, *options: str) -> dict[str, Any]:
        return program.call(command, [*self.named, *options], self.place)

    def _seen(self, status: Status) -> Status:
        self._last = status
        return status

    def _looks(self, display: Display, until: float | None = None, holds: bool = False) -> Iterator[float]:
        """Looks at the job until it has ended, shows what it sees, and gives the pauses between, in
        seconds. `until` is when who waits gives up, and `holds` whether a look may take a while itself."""
        pause, last_answer = _FIRST_LOOK, time.monotonic()
        while not self._child_has_ended:
            is_told = self._own_child is not None
            # Nobody needs to look where nothing is shown and the program tells the end.
            if not is_told or display.is_shown:
                try:
                    status = self.status()
                    last_answer = time.monotonic()
                except Unreachable:
                    # The job goes on without the server; the program that runs it knows more than one that
                    # asks.
                    if not is_told and time.monotonic() - last_answer > _PATIENCE:
                        raise
                else:
                    display.show(status)
                    if status.is_final and not is_told:
                        return
            yield pause
            pause = min(pause * 2, _LOOK)
        child = self._own_child
        if child is not None and not child.printed and (not child.is_embedded or self._runs()):
            # Only the program that waited is gone: the job goes on, and the folder of `output` is not filled.
            # One of this machine goes on where another program resumed it.
            self._done_with(child)
            yield from self._looks(display, until, holds)
        elif display.is_shown and child is not None and child.exit_code in (0, 10, 42, 130):
            with contextlib.suppress(PrsError):
                display.show(self.status())

    def _runs(self) -> bool:
        """Whether it is being run, as far as can be known."""
        try:
            return not self.status().is_final
        except PrsError:
            return False

    def _interrupt(self) -> None:
        """What Ctrl-C does to a job that is waited for."""
        child = self._own_child
        if child is None or not child.is_embedded:
            return
        child.interrupt()
        try:
            child.wait()
        except KeyboardInterrupt:
            child.interrupt()
            raise

    def _completed(self, allow_incomplete: bool, is_copied: bool) -> Status:
        """Waits until it has. A result that `is_copied` from where it is may be missing in the folder of
        `output`, which could not be filled."""
        try:
            return self.wait(progress=False)
        except _NotFilled as not_filled:
            if not is_copied:
                raise
            return not_filled.status
        except Incomplete as incomplete:
            if not allow_incomplete or incomplete.status is None:
                raise
            return incomplete.status

    def _end(self, check: bool) -> Status:
        """How a job ended that has; raises where it should have ended otherwise."""
        child = self._own_child
        if child is not None:
            self._done_with(child)
        if child is None:
            last = self._last
            status = last if last is not None and last.is_final else self.status()
        elif not child.printed:
            status = self._after_loss(child)
        else:
            status = self._seen(Status.of(program.record_of(child.printed, child.said, child.exit_code or 0)))
            self._filled = (local_path(status.output_file), status.ended_at)
        if (status.reason or "").startswith(_GONE):
            raise Killed(f"job {self._id}: {status.reason}; in Python: job.resume()", self._id, status)
        if check:
            self._check(status, None if child is None else status.record.get("last_start"))
        # The program of a start without a result ends so, too, where the result of a start before it stands.
        ended_well = status.state != "completed" or child is None or child.exit_code in (0, 10)
        ended_well = ended_well or status.record.get("last_start") is not None
        if child is not None and child.printed and not ended_well:
            # What belongs to its end did not work, such as the copy of its output.
            raise _NotFilled(_last_words(child.said), status, child.exit_code)
        return status

    def _after_loss(self, child: Child) -> Status:
        """How the job stands whose program is gone: another may have gone on with it, and ended it."""
        code = child.exit_code or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code} and said nothing"
        try:
            status = self.status()
        except PrsError:
            status = None
        if status is not None and status.is_final and not (status.reason or "").startswith(_GONE):
            return status
        raise Killed(
            f"the program that ran job {self._id} {how}; what is done is kept, and job.resume() goes on "
            "from there",
            self._id,
            status,
            exit_code=code,
        )

    def _check(self, status: Status, last_start: Mapping[str, Any] | None) -> None:
        if last_start is not None:
            # The start that this object ran.
            how = f"{last_start['state']}: {last_start['reason']}"
            stands = f"what start {last_start['result_of']} completed stands"
            told = f"start {last_start['start']} of job {self._id} {how}; {stands}"
            if last_start["state"] == "canceled":
                raise Canceled(told, self._id, status, exit_code=130)
            raise JobFailed(told, self._id, status, exit_code=42)
        if status.state == "failed":
            raise JobFailed(
                f"job {self._id} failed: {status.reason}", self._id, status, self._traceback(), 42
            )
        if status.state == "canceled":
            raise Canceled(f"job {self._id} was canceled: {status.reason}", self._id, status, exit_code=130)
        if not status.complete and not status.failures_allowed:
            missing, total = status.items.failed, status.items.total
            raise Incomplete(
                f"job {self._id} completed, and {missing} of {total} items are missing from the result: "
                "job.failed_items() lists them, job.resume() runs them again",
                self._id,
                status,
                self._traceback(),
                10,
            )

    def _traceback(self) -> str:
        """The first traceback there is; the job has ended, whether or not it can be had."""
        try:
            found = [error.traceback for error in self.errors() if error.traceback]
        except PrsError:
            return ""
        return found[0] if found else ""


class _NotFilled(PrsError):
    """The job completed, and the folder of its `output` could not be filled."""

    def __init__(self, message: str, status: Status, exit_code: int | None) -> None:
        super().__init__(message, None, exit_code)
        self.status = status


def start(
    command: str, options: Sequence[str], place: Place, *, is_embedded: bool, document: str | None = None
) -> Child:
    """Starts the program on a job."""
    whole = [program.find(), command, "-o", "json", *options]
    return Child(whole, place.environment(), is_embedded=is_embedded, document=document, folder=place.folder)


def local_path(named: str | None) -> Path | None:
    """A path on this machine; `None` for a URL that is none, and for nothing."""
    if named is None:
        return None
    if named.startswith("file://"):
        return Path(unquote(urlsplit(named).path))
    return None if "://" in named else Path(named)


def _last_words(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else "prs ended and said nothing"
