"""What goes wrong, as exceptions: `PrsError` is above all of them. Their messages are the program's own
words, or those of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prs.records import Status


@dataclass(frozen=True)
class Problem:
    """What a server says of a request that it refuses (RFC 9457): `type` is the end of the address of a page
    that explains it, below `/problems/` of the server; `hint` what to do next; `errors` all that is wrong one
    by one, each with `pointer`, `key`, `line` and `detail`."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None
    request_id: str
    errors: Sequence[Mapping[str, Any]]


class PrsError(Exception):
    """Anything that prs refuses, or that goes wrong. `code` is what the program calls it (`usage`,
    `cannot_connect`, `failed`, `interrupted`), `exit_code` how it ended; both are `None` where it did not
    run. What a server refuses has its `problem`, and the type of that as `code`."""

    problem: Problem | None = None

    def __init__(self, message: str, code: str | None = None, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


class ProgramNotFound(PrsError):
    """There is no program `prs` to be run."""


class ProgramMismatch(PrsError):
    """The program is of another version than this package, and prints what the package does not know."""


class UsageError(PrsError):
    """What was asked for cannot be: no such job or log, a key that cannot be set, a file that is in the
    way."""


class JobFileError(UsageError):
    """The job file, or a setting, is not one that prs runs. The message has every problem, a line each."""


class Unreachable(PrsError):
    """A server of the fleet cannot be reached, or refuses this user; or a server of prs cannot be reached, or
    has no room."""


class AccessDenied(PrsError):
    """A server of prs does not know the token, or its role is too low for what was asked."""


class TooManyRequests(PrsError):
    """A server of prs takes no more requests of this token for now, also after some patience."""


class JobError(PrsError):
    """A job did not end as it should. `job_id` says which, `status` how it stands (`None` where nobody
    knows); `traceback` is that of its first error as the script raised it, empty where there is none."""

    def __init__(
        self,
        message: str,
        job_id: str,
        status: Status | None,
        traceback: str = "",
        exit_code: int | None = None,
    ) -> None:
        text = f"{message}\n\n{traceback.rstrip()}" if traceback else message
        super().__init__(text, None if status is None else status.state, exit_code)
        self.job_id = job_id
        self.status = status
        self.traceback = traceback


class JobFailed(JobError):
    """The job failed. `reason` is why."""

    @property
    def reason(self) -> str:
        """Why it failed, in a sentence."""
        if self.status is None:
            return ""
        last_start = self.status.record.get("last_start") or {}
        return self.status.reason or last_start.get("reason") or ""


class Incomplete(JobError):
    """The job completed, and items are missing from its result that its job file does not allow to be missing
    (exit code 10). `Job.failed_items` lists them, `Job.resume` runs them again, and `Job.result` with
    `allow_incomplete=True` gives what there is."""


class Canceled(JobError):
    """The job was canceled; what is done is kept for `Job.resume`."""


class Killed(JobError):
    """The program that ran the job is gone, killed or crashed. What is done is kept: `Job.resume` goes on."""
