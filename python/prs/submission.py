"""`prs.submit` hands a job in; `prs.job` and `prs.jobs` find those that there are."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from prs import program
from prs.errors import PrsError, UsageError
from prs.job import Job, start
from prs.parallel_run import JobLike, as_document
from prs.records import Status
from prs.server import server as servers
from prs.server.server import ServerLike
from prs.servers import FleetLike, Place

# The name under which the program reads a job file from standard input.
_STANDARD_INPUT = "-"
# What the folder of a run has.
_JOB = "job.json"


def submit(
    job: JobLike,
    *,
    server: ServerLike = None,
    fleet: FleetLike = None,
    runs: str | os.PathLike[str] | None = None,
    detach: bool = False,
    **settings: Any,
) -> Job:
    """Hands a job in; returns as soon as it has an id, while it runs.

    `job` is the path of a job file, a mapping with a job file's keys, a `prs.ParallelRunConfig` or a
    `prs.ParallelRunStep`; relative paths in all but a file start from the current folder. `settings` are
    those that `prs submit --set` takes, such as `mini_batch_size=50`, for a job file of Azure also keys with
    dots, through `**{"inputs.pictures.path": "..."}`. Where `job` is no file, `settings` may have any of its
    keys.

    `server` is the URL of a server of prs, or a `prs.Server`: the job is handed in there, with its code and
    the files of this machine that it names. Without it that is so where the variable `PRS_SERVER` names one,
    unless `fleet` or `runs` is given; `False` is no server.

    `fleet` says where it runs: a `prs.Fleet`, the name of a profile, `False` for this machine, and by default
    where `prs submit` would run it. `runs` is the folder of the runs on this machine, `prs-runs` by default.

    A job of this machine runs beside this Python, and is canceled where this ends; `Job.resume` or `prs
    resume` goes on with it. A job of a fleet goes on by itself; the folder of its `output` is filled while
    this Python lives, and with `detach` not at all. Ctrl-C in this call ends what hands the job in, and
    cancels a job of this machine.

    Raises `prs.JobFileError` for what is no job that prs runs, `prs.Unreachable` for a server."""
    at = servers.server_for(server, fleet is not None or runs is not None)
    if at is not None:
        return at.submit(job, **settings)
    place = Place.of(fleet, runs)
    name, document, rest = source(job, settings)
    runs_here = program.runs_of(place)
    options = [name, *place.arguments(), *program.settings(rest), *(["--detach"] if detach else [])]
    child = start("submit", options, place, is_embedded=runs_here is not None, document=document)
    job_id = child.wait_for_start()
    if not job_id:
        code = child.exit_code or 0
        if code < 0:
            raise PrsError(f"prs was killed by signal {-code} before there was a job", None, code)
        job_id = program.record_of(child.printed, child.said, code, is_job_file=True)["job_id"]
    if detach:
        child.wait()
        program.record_of(child.printed, child.said, child.exit_code or 0, is_job_file=True)
    return Job(job_id, place.of_job(runs_here), None if detach else child)


async def submit_async(
    job: JobLike,
    *,
    server: ServerLike = None,
    fleet: FleetLike = None,
    runs: str | os.PathLike[str] | None = None,
    detach: bool = False,
    **settings: Any,
) -> Job:
    """As `submit`, beside the event loop. `await job.wait_async()` waits for the job. A task that is
    cancelled here cancels a job of this machine as soon as it has an id."""
    handing_in = _HandingIn()
    try:
        return await asyncio.to_thread(
            handing_in.submit, job, server=server, fleet=fleet, runs=runs, detach=detach, **settings
        )
    except asyncio.CancelledError:
        handing_in.leave()
        raise


class _HandingIn:
    """A `submit` in a thread, whose job is ended where nobody waits for it any more. The thread sees to that
    itself: the event loop may be gone by then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_left = False
        self._job: Job | None = None

    def submit(self, job: JobLike, **given: Any) -> Job:
        """As `submit`."""
        made = submit(job, **given)
        with self._lock:
            self._job, is_left = made, self._is_left
        if is_left:
            made.leave()
        return made

    def leave(self) -> None:
        """Ends the job, as soon as there is one."""
        with self._lock:
            self._is_left, made = True, self._job
        if made is not None:
            made.leave()


def job(
    name: str | os.PathLike[str],
    *,
    server: ServerLike = None,
    fleet: FleetLike = None,
    runs: str | os.PathLike[str] | None = None,
) -> Job:
    """The job of this name: its id, the beginning of one, its name (the newest), `@latest`, `@failed`; on
    this machine also the folder of its run. `server` is as for `submit`. Raises `prs.UsageError` where there
    is none."""
    at = servers.server_for(server, fleet is not None or runs is not None)
    if at is not None:
        return at.job(os.fspath(name))
    place = Place.of(fleet, runs)
    place = place.of_job(program.runs_of(place))
    named = os.fspath(name)
    record = program.call("status", [named, *place.arguments()], place)
    # A run may lie elsewhere than in the folder of the runs: its folder is then all there is to name it by.
    is_folder = place.runs is not None and os.path.isfile(os.path.join(named, _JOB))
    return Job(record["job_id"], place, name=os.path.abspath(named) if is_folder else None)


def jobs(
    *,
    name: str | None = None,
    state: str | Sequence[str] = (),
    since: str | None = None,
    limit: int | None = None,
    server: ServerLike = None,
    fleet: FleetLike = None,
    runs: str | os.PathLike[str] | None = None,
) -> list[Status]:
    """The jobs of a folder, of a fleet or of a server, newest first: of this `name`, in one of these states,
    submitted within `since` (`"90s"`, `"12h"`, `"2d"`), `limit` at most. `prs.job(status.job_id)` gives
    one."""
    at = servers.server_for(server, fleet is not None or runs is not None)
    if at is not None:
        return at.jobs(name=name, state=state, since=since, limit=limit)
    place = Place.of(fleet, runs)
    options = place.arguments()
    for option, value in [("--name", name), ("--since", since), ("-n", limit)]:
        options += [] if value is None else [option, str(value)]
    for one in [state] if isinstance(state, str) else state:
        options += ["--state", one]
    return [Status.of(record) for record in program.call("list", options, place)["jobs"]]


def invoke(
    endpoint: str,
    inputs: str | Mapping[str, Any] | None = None,
    *,
    server: ServerLike = None,
    outputs: Mapping[str, Any] | None = None,
    deployment: str | None = None,
    name: str | None = None,
    display_name: str | None = None,
    experiment_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    **settings: Any,
) -> Job:
    """Calls a batch endpoint at a server; returns the job that runs. `server` is as for `submit`, and by
    default the one of `PRS_SERVER`, else the only one of this user that runs on this machine; the rest is as
    for `prs.Server.invoke`."""
    at = servers.server_for(True if server is None else server, False)
    if at is None:
        raise UsageError("an endpoint is called at a server: give its URL; without one there is prs invoke")
    return at.invoke(
        endpoint,
        inputs,
        outputs=outputs,
        deployment=deployment,
        name=name,
        display_name=display_name,
        experiment_name=experiment_name,
        tags=tags,
        **settings,
    )


def source(job: JobLike, settings: Mapping[str, Any]) -> tuple[str, str | None, Mapping[str, Any]]:
    """What the program is given as the job file, the document on its standard input, and the settings
    beside it."""
    if isinstance(job, (str, os.PathLike)):
        return os.fspath(job), None, settings
    whole, rest = as_document(job, settings)
    return _STANDARD_INPUT, json.dumps(whole, default=program.plain, ensure_ascii=False), rest
