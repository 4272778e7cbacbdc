"""The JSON of the program as typed values: docs/json.md says what each key means.

A key that this package does not know is left aside, as docs/json.md asks for; `Status.record` has all of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

# The form of the records that this package reads.
SCHEMA = 1
R = TypeVar("R")

_FINAL = ("completed", "failed", "canceled")
# What keys were called in the records of earlier programs.
_RENAMED = {"submitted_at": "submitted", "ended_at": "ended", "reused_from": "reused"}


@dataclass(frozen=True)
class MiniBatchCounts:
    """Counts of mini-batches: planned so far, with a try that succeeded, and without and no try left."""

    scheduled: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        """Those that have their outcome."""
        return self.succeeded + self.failed


@dataclass(frozen=True)
class ItemCounts:
    """Counts of items (files, or rows of tables) in mini-batches that have their outcome."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Frame:
    """A line of the script. `line` counts from 1; `text` is what stands there, where that is known."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class DistinctError:
    """Tries that failed alike: `tries` of them, because of which `items_lost` items are missing.

    `traceback` is that of one of them, `None` where there is none and in `Status.errors`."""

    status: str
    category: str
    message: str
    tries: int
    mini_batches_lost: int
    items_lost: int
    frame: Frame | None
    traceback: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> DistinctError:
        """Reads one."""
        frame = record.get("frame")
        return cls(
            status=record["status"],
            category=record["category"],
            message=record["message"],
            tries=record["tries"],
            mini_batches_lost=record["mini_batches_lost"],
            items_lost=record["items_lost"],
            frame=None if frame is None else _of(Frame, frame),
            traceback=record.get("traceback"),
        )


@dataclass(frozen=True)
class FailedTry:
    """A try that failed: which one (`number`, from 1), how, where, and the message of the exception."""

    number: int
    status: str
    category: str
    message: str
    node_id: int
    process: str


@dataclass(frozen=True)
class FailedMiniBatch:
    """A mini-batch that failed or lacks items. `items` are paths or URLs of files; of a table a mapping with
    `file`, `start` and `end` (bytes) and `records`."""

    mini_batch_id: str
    minibatch_index: int
    input: str | None
    items: Sequence[str | Mapping[str, Any]]
    items_total: int | None
    items_missing: int | None
    tries: Sequence[FailedTry]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> FailedMiniBatch:
        """Reads one."""
        tries = [_of(FailedTry, {**one, "number": one["try"]}) for one in record["tries"]]
        return _of(cls, {**record, "tries": tries})


@dataclass(frozen=True)
class Log:
    """A log of a job: its name as `Job.logs` takes it, and its size in bytes."""

    file: str
    bytes: int


@dataclass(frozen=True)
class Status:
    """How a job stands, or how it ended.

    `state` is `queued`, `scheduling`, `running`, `finalizing`, or at the end `completed`, `failed` or
    `canceled`. `complete` is true when the job completed with every item; `failures_allowed` when its job
    file says that some may be missing. `seconds` is how long the last start ran so far, `eta_seconds` how
    much is left, where that is known. `output` is the folder of the output and `output_file` the result
    file in it, paths or URLs; `logs` the folder of the logs. `reused_from` is the job whose output this
    one was given. `record` is the whole record, as `prs status -o json` prints it."""

    job_id: str
    name: str
    state: str
    reason: str | None
    complete: bool
    failures_allowed: bool
    submitted_at: str
    ended_at: str | None
    seconds: float
    mini_batches: MiniBatchCounts
    items: ItemCounts
    errors: Sequence[DistinctError]
    eta_seconds: float | None
    per_second: float
    nodes: int
    processes: int
    output: str
    output_file: str | None
    rows: int
    logs: str
    reused_from: str | None
    record: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Status:
        """Reads the record of a job, also with the names that some keys had in earlier records."""
        renamed = {new: record[old] for new, old in _RENAMED.items() if old in record and new not in record}
        record = {**record, **renamed}
        output = record["output"]
        return _of(
            cls,
            {
                **record,
                "mini_batches": _of(MiniBatchCounts, record["mini_batches"]),
                "items": _of(ItemCounts, record["items"]),
                "errors": [DistinctError.of(one) for one in record["errors"]],
                "output": output["uri"],
                "output_file": output["file"],
                "rows": output["rows"],
                "record": record,
            },
        )

    @property
    def steps(self) -> Mapping[str, Status | None]:
        """Of a pipeline that has ended, the jobs of its steps by their names, `None` for one that was not
        run; empty for any other job."""
        steps = self.record.get("steps") or {}
        return {name: None if one is None else Status.of(one) for name, one in steps.items()}

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.state in _FINAL


def _of(kind: type[R], record: Mapping[str, Any]) -> R:
    """A `kind` of those keys of `record` that it has."""
    return kind(**{one.name: record[one.name] for one in fields(cast(Any, kind))})
