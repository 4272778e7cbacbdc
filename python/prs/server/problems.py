"""What a server refuses, as exceptions of this package: its problem documents (RFC 9457) in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from prs.errors import (
    AccessDenied,
    JobFileError,
    Problem,
    PrsError,
    TooManyRequests,
    Unreachable,
    UsageError,
)

_ABOUT_JOB = ("job-file", "upload-missing", "bad-upload")
_KINDS: dict[int, type[PrsError]] = {
    400: UsageError,
    401: AccessDenied,
    403: AccessDenied,
    404: UsageError,
    409: UsageError,
    410: UsageError,
    412: UsageError,
    413: UsageError,
    416: UsageError,
    421: UsageError,
    422: UsageError,
    429: TooManyRequests,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}
# What a job that is no file is called in messages; it has no lines.
MAPPING = "job"
# Of an answer that is no problem document, how much is repeated.
_SHOWN = 200


def problem_in(status: int, content_type: str, body: bytes) -> Problem:
    """The problem that an answer has; of one without such a document what can be said."""
    if "json" in content_type:
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if isinstance(document, dict) and isinstance(document.get("title"), str):
            kind = document.get("type")
            return Problem(
                type=kind.rsplit("/", 1)[-1] if isinstance(kind, str) else "",
                title=document["title"],
                status=status,
                detail=str(document.get("detail") or ""),
                hint=document.get("hint") if isinstance(document.get("hint"), str) else None,
                request_id=str(document.get("request_id") or ""),
                errors=[one for one in document.get("errors") or [] if isinstance(one, dict)],
            )
    text = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN] if "text/plain" in content_type else ""
    return Problem("", f"the answer is {status}, and none of a server of prs", status, text, None, "", [])


def exception(problem: Problem, server: str, shown: str | None = None) -> PrsError:
    """The exception for a problem. `shown` is what the job file is called that was handed in."""
    kind = _KINDS.get(problem.status, PrsError)
    if problem.type in _ABOUT_JOB:
        kind = JobFileError
    raised = kind(_message(problem, server, shown), problem.type or None)
    raised.problem = problem
    return raised


def _message(problem: Problem, server: str, shown: str | None) -> str:
    lines = [_line(one, shown) for one in problem.errors]
    # Details of a job file say how many problems there are, which the lines show.
    said = "\n".join(lines) if lines else f"{server}: {problem.detail or problem.title}"
    if not lines and problem.status >= 500 and problem.request_id:
        said = f"{said} (request {problem.request_id})"
    return f"{said}\nhint: {problem.hint}" if problem.hint else said


def _line(error: Mapping[str, Any], shown: str | None) -> str:
    """A problem of a job file as the program has it."""
    key, line, detail = error.get("key"), error.get("line"), error.get("detail", "")
    place = shown or "job file"
    if line is not None and shown is not None and shown != MAPPING:
        place = f"{place}:{line}"
    return f"{place}: {key}: {detail}" if key else f"{place}: {detail}"
