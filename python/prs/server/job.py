"""A job at a server."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, unquote

from prs import program
from prs.errors import AccessDenied, PrsError, TooManyRequests, Unreachable, UsageError
from prs.job import Job, local_path
from prs.progress import Display
from prs.records import DistinctError, FailedMiniBatch, Log, Status
from prs.server.connection import Connection, Document, pages, path_of
from prs.server.download import download
from prs.server.packing import Packer
from prs.server.uploads import Uploads

if TYPE_CHECKING:
    from prs.server.server import Server

# How long the server is asked to keep an answer back until the job has ended, seconds: where a person sees
# the progress, and where not.
_TICK = 1.0
_LONG_LOOK = 20.0
# How long a wait puts up with a server that gives no answer, seconds; between two looks then.
_PATIENCE = 60.0
_PAUSES = (0.1, 2.0)


class ServerJob(Job):
    """A job at a server of prs: what `prs.Job` is, and `resubmit`. It runs whether this Python does or
    not."""

    def __init__(self, server: Server, job_id: str, source: Path | None = None) -> None:
        """Not to be called: `prs.submit` and `prs.job` give one. `source` is the folder that its code came
        from."""
        self._id = self._name = job_id
        self._server = server
        self._source = source
        self._child = None
        self._last = None
        self._said = ""

    def __repr__(self) -> str:
        return f"<prs.Job {self._id} at {self._server.url}>"

    @property
    def server(self) -> Server:
        """The server that it is at."""
        return self._server

    @property
    def url(self) -> str:
        """Its page, for a browser."""
        return f"{self._server.url}{path_of('jobs', self._id).removeprefix('/api/v1')}"

    def status(self) -> Status:
        """How it stands, or how it ended."""
        return self._seen(self._status(self._get()))

    @property
    def notes(self) -> Sequence[str]:
        """What the server notes about it: which settings have no meaning there, what is odd about its
        code."""
        found = self._get("spec").get("spec", {}).get("notes") or []
        return [str(one) for one in found]

    def result(
        self, output_path: str | os.PathLike[str] | None = None, *, allow_incomplete: bool = False
    ) -> Path:
        """Waits for its end without a word, as `wait` does; returns the path of the result file, of the
        folder of the output where the job has no such file (`output_action: summary_only`).

        It is copied from the server, checked with its SHA-256, into the folder `output_path`, where nothing
        is overwritten: with all files of the output. Without `output_path` it is the result file alone: where
        the server is this machine the file that the job wrote, else a copy in a temporary folder, which goes
        with this Python. Raises as `wait`; with `allow_incomplete` not for missing items."""
        status = self._completed(allow_incomplete, is_copied=output_path is not None)
        if output_path is not None:
            return self._copy_all(Path(output_path).absolute(), status)
        here = self._of_this_machine(status)
        if here is not None:
            return here
        if status.output_file is None:
            raise UsageError(
                f"job {self._id} has no result file: give output_path, a folder to copy the files of its "
                "output to"
            )
        # A job that went on has another result.
        folder = _results.folder(self._server.url, self._id, str(status.record["incarnation"]))
        path = folder / _name_of(status.output_file)
        if not path.is_file():
            sha256 = status.record["output"].get("sha256")
            download(self._connection, self._path("result"), path, sha256)
        return path

    def failed_items(self) -> list[FailedMiniBatch]:
        """The mini-batches that failed or lack items, each with its items and its tries; empty where none
        does. A job that has not ended has no such list yet: `prs.UsageError`."""
        found = list(pages(self._connection, self._path("failed-items"), {}))
        if not self.status().is_final:
            raise UsageError(f"job {self._id} has not ended: its failed items are known then")
        return [FailedMiniBatch.of(one) for one in found]

    def errors(self) -> list[DistinctError]:
        """Its distinct errors with a traceback each, those that cost most items first; also while it runs."""
        found = [*pages(self._connection, self._path("errors"), {}), *self._get("errors")["init"]]
        return [DistinctError.of(one) for one in found]

    @overload
    def logs(self) -> list[Log]: ...

    @overload
    def logs(self, name: str) -> str: ...

    def logs(self, name: str | None = None) -> list[Log] | str:
        """Which logs there are; with `name`, as that list or a message has it, the text of one."""
        if name is None:
            listed = pages(self._connection, self._path("logs"), {"delimiter": "none"})
            return [Log(one["path"], one["bytes"]) for one in listed]
        answer = self._connection.send("GET", self._path("logs", name), headers={"Accept": "text/plain"})
        return answer.body.decode("utf-8", "replace")

    def cancel(self) -> Status:
        """Ends it and waits until it has; what is done is kept for `resume`. A job that has ended stays as it
        is."""
        try:
            self._connection.post(self._path("cancel"), Document(b"{}"))
        except UsageError as error:
            if error.problem is None or error.problem.type != "job-has-ended":
                raise
        return self.wait(progress=False, check=False)

    def resume(
        self, *, code: str | os.PathLike[str] | None = None, detach: bool = False, **settings: Any
    ) -> Job:
        """Runs what has no rows yet; the rows that are there stay. Returns this job, which then runs: `wait`
        waits for it.

        `code` is `old`, that of the job, which is what it is without it, too; `new`, the folder that this
        object was handed in from as it is now; or a folder. `settings` are those that `prs resume --set`
        takes. A job goes on by itself, with `detach` or without."""
        folder = self._folder_of_code(code)
        texts = {key: program.as_text(value) for key, value in settings.items()}
        try:
            if folder is None:
                self._connection.post(self._path("resume"), Document.of({"set": texts}), is_once=True)
            else:
                bundle = Packer(self._connection).code(folder)
                uploads = Uploads(self._connection)
                body = Document.of({"set": texts, "code": uploads.bundle(bundle)})
                uploads.send()
                self._connection.post(self._path("resume"), body, is_once=True, shown="resume")
                bundle.close()
        except UsageError as error:
            kind = None if error.problem is None else error.problem.type
            if kind == "job-is-active":
                raise UsageError(f"job {self._id} runs: there is nothing to resume", kind) from None
            if kind != "nothing-to-resume":
                raise
        self._last = None
        return self

    def resubmit(
        self,
        *,
        name: str | None = None,
        display_name: str | None = None,
        tags: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> ServerJob:
        """Runs all of it again, with its code and inputs, as a new job, with changes; returns that."""
        body = {
            "set": {key: program.as_text(value) for key, value in settings.items()},
            "name": name,
            "display_name": display_name,
            "tags": dict(tags or {}),
        }
        answer = self._connection.post(
            self._path("resubmit"), Document.of(body), is_once=True, shown="resubmit"
        )
        return ServerJob(self._server, answer.record()["job_id"], self._source)

    def show(self) -> Mapping[str, Any]:
        """Its settings as they are stored. Values of environment variables that sound like secrets are
        `***`."""
        shown: Mapping[str, Any] = self._get("spec")["spec"]
        return shown

    def _output_format(self, result: Path) -> Any:
        try:
            return super()._output_format(result)
        except AccessDenied:
            # Who calls endpoints sees no settings: the server tells how it reads the file.
            with result.open("rb") as file:
                if file.read(4) == b"PAR1":
                    return "parquet"
            told = self._get("output-preview")
            if told["kind"] == "json_lines":
                return "json_lines"
            if told["kind"] == "table" and not told["is_guessed"]:
                return {"delimiter": told["delimiter"], "header": told["columns"] is not None}
            return None

    def leave(self) -> None:
        """Nothing: the job is the server's."""

    @property
    def named(self) -> list[str]:
        """No command of the program names it."""
        raise UsageError(f"job {self._id} is at {self._server.url}: the program here does not know it")

    @property
    def _connection(self) -> Connection:
        return self._server.connection

    def _path(self, *parts: str) -> str:
        return path_of("jobs", self._id, *parts) if parts else path_of("jobs", self._id)

    def _get(self, *parts: str) -> dict[str, Any]:
        return self._connection.get(self._path(*parts))

    def _status(self, record: Mapping[str, Any]) -> Status:
        return self._server.status_of(record)

    def _looks(self, display: Display, until: float | None = None, holds: bool = False) -> Iterator[float]:
        """Looks at the job until it has ended. The server keeps its answer back meanwhile, so that the end is
        seen at once and a look costs little."""
        last_answer, pause, hold = time.monotonic(), _PAUSES[0], 0.0
        while True:
            try:
                # It is this loop that has patience.
                status = self._look(hold)
                last_answer, pause = time.monotonic(), _PAUSES[0]
            except (Unreachable, TooManyRequests):
                if time.monotonic() - last_answer > _PATIENCE:
                    raise
                yield pause
                pause = min(pause * 2, _PAUSES[1])
                continue
            display.show(status)
            if status.is_final:
                return
            # Who waits says here that it is enough.
            yield 0.0 if hold >= 1 else _PAUSES[0]
            longest = _LONG_LOOK if holds and not display.is_shown else _TICK
            hold = longest if until is None else min(longest, until - time.monotonic())

    def _look(self, hold: float) -> Status:
        """How it stands; at its end, or after `hold` seconds."""
        query = {"wait_for": "ended", "timeout": int(hold)} if hold >= 1 else None
        return self._seen(self._status(self._connection.get(self._path(), query, patience=0.0)))

    def _folder_of_code(self, code: str | os.PathLike[str] | None) -> Path | None:
        if code is None or code == "old":
            return None
        if code != "new":
            return Path(code).absolute()
        if self._source is None:
            raise UsageError(
                f"job {self._id} was not handed in by this object, which knows no folder of its code: give "
                "the folder as code"
            )
        return self._source

    def _of_this_machine(self, status: Status) -> Path | None:
        """The result file, where the server is on this machine and the file is."""
        path = local_path(status.output_file) if self._server.is_loopback else None
        try:
            is_it = path is not None and path.stat().st_size == status.record["output"].get("bytes")
        except OSError:
            return None
        return path if is_it else None

    def _copy_all(self, folder: Path, status: Status) -> Path:
        """Copies all files of the output."""
        output: Mapping[str, Any] = status.record["output"]
        uri, file = str(output["uri"]).rstrip("/"), status.output_file
        result = (
            None if file is None else file[len(uri) + 1 :] if file.startswith(f"{uri}/") else _name_of(file)
        )
        names = [str(one["path"]) for one in pages(self._connection, self._path("outputs"), {})]
        for name in names:
            parts = name.split("/")
            if "" in parts or ".." in parts or "\0" in name:
                raise PrsError(
                    f"job {self._id} has a file {name!r} in its output, which has no place in a folder"
                )
            if (folder / name).exists():
                raise UsageError(f"{folder / name} is there already: name another folder, or remove it")
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            sha256 = output.get("sha256") if name == result else None
            download(self._connection, self._path("outputs", name), folder / name, sha256)
        return folder if result is None else folder / result


class _Results:
    """A temporary folder for copies of results, which goes with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._owner = 0

    def folder(self, *names: str) -> Path:
        """One in it."""
        with self._lock:
            if self._folder is None or self._owner != os.getpid():
                self._folder, self._owner = Path(tempfile.mkdtemp(prefix="prs-results-")), os.getpid()
                atexit.register(_remove, self._folder, self._owner)
            folder = self._folder.joinpath(*(quote(name, safe="") for name in names))
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _remove(folder: Path, owner: int) -> None:
    if owner == os.getpid():
        rmtree(folder, ignore_errors=True)


_results = _Results()


def _name_of(file: str) -> str:
    """The last part of a path or of a URL."""
    return unquote(file.rstrip("/").rsplit("/", 1)[-1]) if "://" in file else Path(file).name
