"""HTTP to a server of prs: one request at a time, again where that does no harm, and never to another host.

Every request may be repeated: those that only read, those with an `Idempotency-Key`, and those of which a
second one changes nothing. So a connection that breaks, and a server that is started anew or has no room
(429, 503), cost time alone. Certificates are always checked. Redirects are not followed: a token goes to the
server that it was given for. A server of this machine is asked directly, whatever proxies the variables name.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Protocol
from urllib.parse import quote, urlencode, urlsplit

from prs._version import __version__
from prs.errors import AccessDenied, Problem, ProgramMismatch, PrsError
from prs.records import SCHEMA
from prs.server.address import TOKEN_VARIABLE, Address, Credentials
from prs.server.lost import Lost
from prs.server.problems import exception, problem_in
from prs.server.proxy import login, proxy_for

# How long a request is repeated while nobody answers, seconds: a look at a job, and what changes something.
LOOK_PATIENCE = 10.0
PATIENCE = 60.0
# How long an answer may let wait for its next byte, seconds; for that to a job that is handed in, which the
# server unpacks and stores first.
_SILENCE = 60.0
LONG_SILENCE = 900.0
# Between two tries, seconds: at first and at most.
_PAUSES = (0.1, 2.0)
# Answers after which the same request is sent again.
_AGAIN = (429, 502, 503, 504)
_IN_PROGRESS = "request-in-progress"
# An idle connection is used for another request this long, seconds: servers close theirs after a while.
_IDLE = 15.0
_MOST_IDLE = 4
_PIECE = 1 << 18


class Body(Protocol):
    """What is sent: its size in bytes, and its bytes, from the beginning each time they are asked for."""

    @property
    def content_type(self) -> str: ...

    @property
    def size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Document:
    """JSON as a body."""

    text: bytes
    content_type: str = "application/json"

    @classmethod
    def of(cls, value: Any, default: Callable[[Any], Any] | None = None) -> Document:
        """A value as JSON."""
        return cls(json.dumps(value, default=default, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    @property
    def size(self) -> int:
        return len(self.text)

    def pieces(self) -> Iterator[bytes]:
        yield self.text


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def record(self) -> dict[str, Any]:
        """Its JSON."""
        try:
            record = json.loads(self.body)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise PrsError("the answer is no JSON: is there another server than prs at the URL?")
        if record.get("schema", SCHEMA) != SCHEMA:
            raise ProgramMismatch(
                f"the server has records of schema {record['schema']}, and this package reads {SCHEMA}: "
                "install the version of prs-run that the server has"
            )
        return record


class Connection:
    """Connections to one server. It may be used by several threads, and after a fork."""

    def __init__(self, address: Address, credentials: Credentials, ca_file: str | None = None) -> None:
        self.address = address
        self.credentials = credentials
        self._tls = None
        if address.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise PrsError(f"the certificates of ca_file cannot be read: {ca_file}: {error}") from None
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []

    def __repr__(self) -> str:
        return f"<Connection {self.address}>"

    def __getstate__(self) -> Any:
        # It has a token, which does not belong into a file.
        raise TypeError("a connection to a server cannot be pickled: pass its URL on, and connect there")

    def get(
        self, path: str, query: Mapping[str, Any] | None = None, *, patience: float = LOOK_PATIENCE
    ) -> dict[str, Any]:
        """The JSON at an address."""
        return self.send("GET", path, query=query, patience=patience).record()

    def post(
        self,
        path: str,
        body: Body | None = None,
        *,
        is_once: bool = False,
        shown: str | None = None,
        silence: float = LONG_SILENCE,
    ) -> Answer:
        """Sends something; with `is_once` under a key, so that it is done once however often it is sent."""
        headers = {"Idempotency-Key": str(uuid.uuid4())} if is_once else {}
        return self.send(
            "POST", path, body=body, headers=headers, patience=PATIENCE, shown=shown, silence=silence
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        patience: float = LOOK_PATIENCE,
        silence: float = _SILENCE,
        shown: str | None = None,
    ) -> Answer:
        """The answer to a request, which is sent again for `patience` seconds after the last sign of life
        where nobody answers or the server says that it has no room."""
        until, pause = time.monotonic() + patience, _PAUSES[0]
        while True:
            try:
                answer = self._once(method, path, query, body, headers or {}, silence)
            except Lost as lost:
                if not lost.is_passing or time.monotonic() + pause > until:
                    raise lost.raised(self.address) from None
                time.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _PAUSES[1])
                continue
            if answer.status < 300:
                return answer
            if answer.status == 401 and self.credentials.renewed():
                continue
            if answer.status < 400:
                raise self.moved(answer)
            problem = problem_in(answer.status, answer.headers.get("Content-Type", ""), answer.body)
            if answer.status in _AGAIN or problem.type == _IN_PROGRESS:
                wait = _retry_after(answer.headers, pause)
                if problem.type == _IN_PROGRESS:
                    # That is a sign of life.
                    until = max(until, time.monotonic() + patience)
                if time.monotonic() + wait <= until:
                    time.sleep(wait)
                    pause = min(pause * 2, _PAUSES[1])
                    continue
            raise self.refusal(problem, shown)

    @contextlib.contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        """An answer whose body is still to be read. Raises `Lost` where the connection is, also while the
        body is read within the block."""
        connection, _ = self._open(fresh=True)
        try:
            response = self._ask(connection, "GET", path, None, None, headers, _SILENCE)
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise Lost(error) from None
        finally:
            connection.close()

    def elsewhere(self, url: str) -> tuple[Connection, str]:
        """A connection to where this server sends a request on, its storage, and the address there. It is
        shown no token: the URL has what the storage wants."""
        at = urlsplit(url)
        if at.scheme not in ("https", self.address.scheme) or not at.hostname:
            raise PrsError(
                f"{self.address} sends a request on to {at.scheme or 'no'} URL: it is not followed"
            )
        there = Connection(Address.of(f"{at.scheme}://{at.netloc}"), Credentials(None))
        return there, f"{at.path}?{at.query}" if at.query else at.path

    def refusal(self, problem: Problem, shown: str | None = None) -> PrsError:
        """The exception for a problem of this server."""
        if problem.status == 401 and self.credentials.token is None:
            return AccessDenied(
                f"{self.address} asks for a token: give it as token, or in {TOKEN_VARIABLE} beside PRS_SERVER"
                + (
                    "; a server of yours on this machine would have said it in a file"
                    if self.address.is_loopback
                    else ""
                ),
                problem.type or None,
            )
        return exception(problem, str(self.address), shown)

    def moved(self, answer: Answer) -> PrsError:
        """The exception for an answer that leads elsewhere."""
        at = urlsplit(answer.headers.get("Location", ""))
        where = f" to {at.scheme}://{at.hostname}" if at.hostname and at.scheme else ""
        return PrsError(f"{self.address} sends requests on{where}: give the URL that the server itself has")

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Body | None,
        headers: Mapping[str, str],
        silence: float,
    ) -> Answer:
        is_fresh = False
        while True:
            connection, is_fresh = self._open(fresh=is_fresh)
            try:
                response = self._ask(connection, method, path, query, body, headers, silence)
                answer = Answer(response.status, response.headers, response.read())
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not is_fresh and not isinstance(error, (socket.timeout, TimeoutError)):
                    # The server had closed it since it was used last.
                    is_fresh = True
                    continue
                raise Lost(error) from None
            except BaseException:
                connection.close()
                raise
            self._keep(connection, response)
            return answer

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Body | None,
        headers: Mapping[str, str],
        silence: float,
    ) -> http.client.HTTPResponse:
        target = f"{self.address.path}{path}"
        if query:
            target += f"?{urlencode(query, doseq=True)}"
        proxy, shown = proxy_for(self.address), {}
        if proxy is not None and self.address.scheme == "http":
            target = self.address.origin + target
            shown = login(proxy)
        connection.timeout = silence
        if connection.sock is not None:
            connection.sock.settimeout(silence)
        connection.putrequest(method, target, skip_accept_encoding=True)
        sent = {
            "Accept": "application/json",
            "User-Agent": f"prs-python/{__version__ or 'sources'}",
            **shown,
            **headers,
        }
        if self.credentials.token is not None:
            sent["Authorization"] = f"Bearer {self.credentials.token}"
        if body is not None:
            sent["Content-Type"] = body.content_type
        if body is not None or method == "POST":
            sent["Content-Length"] = str(0 if body is None else body.size)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        if body is not None:
            try:
                for piece in body.pieces():
                    connection.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses may answer before it has read everything: that says more.
                pass
        return connection.getresponse()

    def _open(self, fresh: bool) -> tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it is a new one."""
        with self._lock:
            if self._owner != os.getpid():
                # Those belong to the process that this one was forked off.
                self._owner, self._idle = os.getpid(), []
            while self._idle and not fresh:
                connection, since = self._idle.pop()
                if time.monotonic() - since < _IDLE:
                    return connection, False
                connection.close()
        proxy = proxy_for(self.address)
        if proxy is None:
            return self._direct(self.address.host, self.address.port), True
        through = self._direct(proxy.hostname or "", proxy.port or 3128)
        if self._tls is not None:
            through.set_tunnel(self.address.host, self.address.port, login(proxy))
        return through, True

    def _direct(self, host: str, port: int) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=_SILENCE, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_SILENCE)

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            if len(self._idle) < _MOST_IDLE and self._owner == os.getpid():
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def _retry_after(headers: http.client.HTTPMessage, pause: float) -> float:
    """How long the server asks to wait, seconds."""
    try:
        return max(0.05, float(headers.get("Retry-After", "")))
    except ValueError:
        return pause


def path_of(*parts: str) -> str:
    """An address below `/api/v1`, of parts that may have any letter; `/` parts the last one."""
    *first, last = parts
    return "/".join(["/api/v1", *(quote(part, safe="") for part in first), quote(last, safe="/")])


def pieces_of(file: Any) -> Iterator[bytes]:
    """The bytes of an open file."""
    while piece := file.read(_PIECE):
        yield piece


def pages(
    connection: Connection, path: str, query: Mapping[str, Any], limit: int | None = None
) -> Iterator[Any]:
    """The entries of a list, page by page, `limit` at most."""
    left, cursor = limit, None
    while left is None or left > 0:
        asked: dict[str, Any] = {**query, "limit": 500 if left is None else min(left, 500)}
        if cursor is not None:
            asked["cursor"] = cursor
        page = connection.get(path, asked)
        value: Sequence[Any] = page["value"]
        yield from value
        left, cursor = None if left is None else left - len(value), page.get("next_cursor")
        if cursor is None:
            return
