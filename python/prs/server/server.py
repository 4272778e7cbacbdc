"""A server of prs: jobs are handed in there and found, and endpoints are called."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union
from urllib.parse import quote

from prs import program
from prs._version import __version__
from prs.errors import JobFileError, ProgramMismatch, PrsError, UsageError
from prs.parallel_run import JobLike, as_document
from prs.records import Status
from prs.server.address import URL_VARIABLE, Address, Credentials, find
from prs.server.connection import Connection, Document, pages, path_of
from prs.server.files import Bundle
from prs.server.form import Form
from prs.server.job import ServerJob
from prs.server.packing import JobFile, Packed, Packer
from prs.server.problems import MAPPING
from prs.server.uploads import Uploads

_MOST_TEXT = 4 << 20
# So much, bytes, goes along with the job itself; more is sent before it, file by file.
_WITH_JOB = 64 << 10


class Server:
    """A server of prs. `prs.connect` gives one.

    It may be used by several threads at once. Its token stands in no message, and not in what it prints
    as."""

    def __init__(self, address: Address, credentials: Credentials, ca_file: str | None = None) -> None:
        """Not to be called: `prs.connect` finds a server."""
        self.connection = Connection(address, credentials, ca_file)

    def __repr__(self) -> str:
        return f"<prs.Server {self.url}>"

    @property
    def url(self) -> str:
        """Its URL."""
        return str(self.connection.address)

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return self.connection.address.is_loopback

    def whoami(self) -> Mapping[str, Any]:
        """Who asks with this token, and what they may: `name`, `role`, `endpoints`."""
        return self.connection.get("/api/v1/whoami")

    def version(self) -> str:
        """The version of the server."""
        return str(self.connection.get("/api/v1/version")["version"])

    def submit(self, job: JobLike, **settings: Any) -> ServerJob:
        """Hands a job in, as `prs.submit` does: its code, and what it names of files of this machine, is
        packed and sent along. Returns as soon as the server has it.

        It is one job, however often the request has to be sent. Raises `prs.JobFileError` for what is no job
        that prs runs, `prs.AccessDenied` for a token that may not, `prs.Unreachable`."""
        packed = Packer(self.connection).job(_job_file(job, settings))
        body = self._form(packed) if packed.size <= _WITH_JOB else self._uploaded(packed)
        answer = self.connection.post("/api/v1/jobs", body, is_once=True, shown=packed.job.shown)
        return ServerJob(self, answer.record()["job_id"], packed.source)

    def _form(self, packed: Packed) -> Form:
        """A job with all that goes along, as one body."""
        form = Form()
        form.field("job", packed.job.as_sent())
        if packed.below:
            form.field("job_folder", packed.below)
        form.settings({key: program.as_text(value) for key, value in packed.job.settings.items()})
        if packed.code is not None and packed.code.archive is not None:
            form.file("code", "code.tar.gz", packed.code.archive)
        for name, own, body in packed.inputs:
            of_input = body.archive if isinstance(body, Bundle) else body
            if of_input is not None:
                form.file(f"input.{name}", own, of_input)
        return form

    def _uploaded(self, packed: Packed) -> Document:
        """A job that names what goes along, after that was sent."""
        uploads = Uploads(self.connection)
        body: dict[str, Any] = {
            "yaml": packed.job.as_sent(),
            "job_folder": packed.below,
            "set": {key: program.as_text(value) for key, value in packed.job.settings.items()},
            "inputs": {
                name: uploads.bundle(body) if isinstance(body, Bundle) else uploads.file(own, body)
                for name, own, body in packed.inputs
            },
        }
        if packed.code is not None:
            body["code"] = uploads.bundle(packed.code)
        uploads.send()
        return Document.of(body)

    def job(self, name: str) -> ServerJob:
        """The job of this name: its id, the beginning of one, its name (the newest), `@latest`, `@failed`.
        Raises `prs.UsageError` where there is none."""
        if name in ("@latest", "@failed"):
            query = {} if name == "@latest" else {"state": ["failed", "incomplete"]}
            found = next(pages(self.connection, "/api/v1/jobs", query, 1), None)
        else:
            try:
                record = self.connection.get(path_of("jobs", name), {"fields": "job_id"})
                return ServerJob(self, record["job_id"])
            except UsageError as error:
                if error.problem is None or error.problem.status not in (400, 404):
                    raise
            found = self._find(name)
        if found is None:
            raise UsageError(f"there is no job {name} at {self.url}: prs.jobs lists those that there are")
        return ServerJob(self, found["job_id"])

    def _find(self, name: str) -> Mapping[str, Any] | None:
        beginning = []
        for one in pages(self.connection, "/api/v1/jobs", {"q": name}):
            if one["name"] == name:
                found: Mapping[str, Any] = one
                return found
            if one["job_id"].startswith(name):
                beginning.append(one)
        if len(beginning) > 1:
            ids = ", ".join(one["job_id"] for one in beginning[:5])
            raise UsageError(f"{name} begins the ids of several jobs at {self.url}: {ids}")
        return beginning[0] if beginning else None

    def jobs(
        self,
        *,
        name: str | None = None,
        state: str | Sequence[str] = (),
        since: str | None = None,
        limit: int | None = None,
    ) -> list[Status]:
        """The jobs, newest first, as `prs.jobs` has them. Of a list the server gives no errors and no paths:
        `errors` is empty, `output` and `logs` too."""
        query: dict[str, Any] = {}
        if state:
            query["state"] = [state] if isinstance(state, str) else list(state)
        if since is not None:
            query["since"] = since
        if name is not None:
            # The server takes what a name begins with.
            query["name"] = name
        found: list[Status] = []
        for one in pages(self.connection, "/api/v1/jobs", query, limit if name is None else None):
            if limit is not None and len(found) == limit:
                break
            if name is None or one["name"] == name:
                found.append(self.status_of({**_NOT_LISTED, **one}))
        return found

    def invoke(
        self,
        endpoint: str,
        inputs: str | Mapping[str, Any] | None = None,
        *,
        outputs: Mapping[str, Any] | None = None,
        deployment: str | None = None,
        name: str | None = None,
        display_name: str | None = None,
        experiment_name: str | None = None,
        tags: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> ServerJob:
        """Calls a batch endpoint; returns the job that runs.

        Data is registered (`azureml:hearts@latest`), or at a URL. A model has one input: a text, or a mapping
        such as `{"data": {"path": "azureml:hearts@latest", "type": "uri_folder"}}`, with any name. A pipeline
        has inputs by their names: texts, numbers, or mappings with `path` and `type`. `outputs`
        say where outputs go. `deployment` is which one answers, else the default. `name` becomes the id of
        the job, and is refused where there is one. `settings` are those of one call, such as
        `mini_batch_size=20`."""
        given: Mapping[str, Any] = (
            {} if inputs is None else inputs if isinstance(inputs, Mapping) else {"data": {"path": inputs}}
        )
        body = {
            "inputs": {key: _bound(value) for key, value in given.items()},
            "outputs": {key: _bound(value) for key, value in (outputs or {}).items()},
            "deployment": deployment,
            "set": {key: program.as_text(value) for key, value in settings.items()},
            "name": name,
            "display_name": display_name,
            "experiment_name": experiment_name,
            "tags": dict(tags or {}),
        }
        answer = self.connection.post(
            f"/api/v1/endpoints/{quote(endpoint, safe='')}/invoke",
            Document.of(body, program.plain),
            is_once=True,
            shown="invoke",
        )
        return ServerJob(self, answer.record()["job_id"])

    def status_of(self, record: Mapping[str, Any]) -> Status:
        """A job as the server has it."""
        try:
            return Status.of(record)
        except KeyError as missing:
            raise self._mismatch(f"its jobs have no {missing.args[0]!r}") from None

    def _mismatch(self, what: str) -> PrsError:
        version = ""
        with contextlib.suppress(PrsError):
            version = f" {self.version()}"
        return ProgramMismatch(
            f"the server {self.url} is prs{version}, and this package is of {__version__ or 'sources'}: "
            f"{what}; "
            "install the same version at both"
        )


ServerLike = Union[Server, str, bool, None]

# What a list leaves out of a job.
_NOT_LISTED: Mapping[str, Any] = {
    "reason": None,
    "failures_allowed": False,
    "errors": [],
    "output": {"uri": "", "file": None, "rows": 0},
    "logs": "",
    "nodes": 0,
    "processes": 0,
    "reused_from": None,
}

_known: dict[tuple[Address, str | None], Server] = {}
_lock = threading.Lock()


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    ca_file: str | os.PathLike[str] | None = None,
    insecure_http: bool = False,
) -> Server:
    """A server of prs; asks it who this is.

    `url` is its URL; without one that of the variable `PRS_SERVER`, or the only server of this user that runs
    on this machine. `token` is one that `prs token create` printed; without one that of `PRS_TOKEN`, which
    belongs to the server of `PRS_SERVER`. A server of this user on this machine needs none: it says it in a
    file.

    `ca_file` has the certificates of an authority of your own, in PEM. A token goes to another machine over
    https alone; `insecure_http` is for a network that nobody else listens to.

    Raises `prs.AccessDenied` for a token that the server does not know, `prs.Unreachable`."""
    server = _server(url, token, None if ca_file is None else os.fspath(ca_file), insecure_http)
    try:
        who = server.whoami()
    except PrsError as error:
        if error.problem is not None and not error.problem.type:
            raise PrsError(
                f"{server.url} is no server of prs, or one behind a proxy that answers itself: {error}"
            ) from None
        raise
    if "role" not in who:
        raise PrsError(f"{server.url} is no server of prs")
    return server


def server_for(server: ServerLike, is_elsewhere: bool) -> Server | None:
    """The server that a call means: `None` where it is none. `is_elsewhere` says whether the caller has named
    another place, before which a variable does not count."""
    if isinstance(server, Server):
        found: Server | None = server
    elif server is None:
        found = _kept(None) if os.environ.get(URL_VARIABLE) and not is_elsewhere else None
    elif server is False:
        return None
    elif server is True:
        found = _kept(None)
    elif isinstance(server, (str, os.PathLike)):
        found = _kept(os.fspath(server))
    else:
        raise TypeError("server is a URL, a prs.Server, True, None (as PRS_SERVER says) or False")
    if found is not None and is_elsewhere:
        raise UsageError(
            "a job is at a server, or on the fleet or in the folder that is named: give one of them"
        )
    return found


def _kept(url: str | None) -> Server:
    """A server by its URL, the same one for the same credentials, so that its connections are used again."""
    made = _server(url, None, None, False)
    key = (made.connection.address, made.connection.credentials.token)
    with _lock:
        return _known.setdefault(key, made)


def _server(url: str | None, token: str | None, ca_file: str | None, insecure_http: bool) -> Server:
    address, credentials = find(url, token)
    if address.scheme == "http" and not address.is_loopback and not insecure_http:
        raise UsageError(
            f"{address} is no https URL, so that others could read the token: give the https URL of the "
            "server, or prs.connect(url, insecure_http=True) in a network that nobody else listens to"
        )
    return Server(address, credentials, ca_file)


def _job_file(job: JobLike, settings: Mapping[str, Any]) -> JobFile:
    """A job as it is to be sent."""
    if isinstance(job, (str, os.PathLike)):
        path = Path(job)
        try:
            if path.stat().st_size > _MOST_TEXT:
                raise UsageError(f"{path} is larger than a job file is")
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{path}: the job file is not UTF-8 text") from None
        except OSError as error:
            raise JobFileError(
                f"{path}: cannot read the job file: {error.strerror or error}", "usage"
            ) from None
        return JobFile(text, None, path.absolute().parent, settings, str(path))
    whole, rest = as_document(job, settings)
    return JobFile(None, whole, Path.cwd(), rest, MAPPING)


def _bound(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
