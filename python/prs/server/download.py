"""Files of a job from a server: piece by piece, on from where it broke off, and checked."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import time
from pathlib import Path
from typing import IO

from prs.errors import PrsError, Unreachable, UsageError
from prs.server.connection import LOOK_PATIENCE, PATIENCE, Answer, Connection
from prs.server.lost import Lost
from prs.server.problems import problem_in

_PIECE = 1 << 18
_PAUSES = (0.1, 2.0)
_AGAIN = (429, 502, 503, 504)
# The same of a storage that the server sends a download on to: its URL holds for a while, and the next one is
# signed anew.
_STORAGE_AGAIN = (*_AGAIN, 403, 500)


def download(connection: Connection, path: str, to: Path, sha256: str | None = None) -> Path:
    """Copies the file at an address to `to`, which is not overwritten. It appears there once it is whole, and
    has its SHA-256 where that is known. A connection that breaks is made again, and the download goes on at
    the byte.

    Raises `prs.UsageError` where there is a file, `prs.PrsError` where the bytes are not those of the job."""
    if to.exists():
        raise UsageError(f"{to} is there already: name another folder, or remove it")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(f".{to.name}.part-{os.getpid()}-{time.monotonic_ns()}")
        with open(part, "xb") as file:
            try:
                digest = _Download(connection, path, file).run()
                if sha256 is not None and digest != sha256:
                    raise PrsError(
                        f"{connection.address}{path}: what came has another SHA-256 than the result of the "
                        "job"
                    )
                _appear(part, to)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(part)
    except FileExistsError:
        raise UsageError(f"{to} is there already: name another folder, or remove it") from None
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror or error}") from None
    return to


def _appear(part: Path, to: Path) -> None:
    """Gives a file its name, and replaces none."""
    try:
        os.link(part, to)
    except FileExistsError:
        raise
    except OSError:
        # Not all file systems have links.
        if to.exists():
            raise FileExistsError(to) from None
        os.rename(part, to)


class _Download:
    """A file on its way."""

    def __init__(self, connection: Connection, path: str, file: IO[bytes]) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self._digest = hashlib.sha256()
        self._done = 0
        self._tag: str | None = None
        # Of all, bytes, once it is known.
        self._total: int | None = None
        # Who was asked last, and what a storage answered in place of the file.
        self._at = connection.address
        self._refused: int | None = None

    def run(self) -> str:
        """Brings all of it; gives its SHA-256."""
        until, pause = time.monotonic() + LOOK_PATIENCE, _PAUSES[0]
        while True:
            before, lost = self._done, None
            try:
                if self._go_on():
                    return self._digest.hexdigest()
            except Lost as error:
                lost = error
            if self._done > before:
                until, pause = time.monotonic() + PATIENCE, _PAUSES[0]
            if lost is not None and (not lost.is_passing or time.monotonic() + pause > until):
                raise lost.raised(self._at) from None
            if time.monotonic() + pause > until:
                raise Unreachable(self._breaks_off())
            time.sleep(pause)
            pause = min(pause * 2, _PAUSES[1])

    def _breaks_off(self) -> str:
        """What is said of a download that does not come to its end."""
        if not self._is_of_storage:
            return f"{self._at}: the download breaks off again and again"
        what = "breaks it off" if self._refused is None else f"answers {self._refused}"
        return f"{self._storage} {what} again and again"

    @property
    def _is_of_storage(self) -> bool:
        """Whether the server was not asked last."""
        return self._at != self._connection.address

    @property
    def _storage(self) -> str:
        """What the storage is called in messages."""
        return f"{self._at}: the storage, to which {self._connection.address} sends the download on,"

    def _go_on(self) -> bool:
        """Asks for what is missing; says whether that is nothing now."""
        self._at, self._refused = self._connection.address, None
        headers = {"Accept": "*/*"}
        if self._done:
            headers["Range"] = f"bytes={self._done}-"
            if self._tag is not None:
                headers["If-Match"] = self._tag
        with self._connection.stream(self._path, headers) as response:
            if response.status == 401 and self._connection.credentials.renewed():
                return False
            if response.status != 307:
                return self._take(response)
            location = response.headers.get("Location", "")
        there, path = self._connection.elsewhere(location)
        self._at = there.address
        with there.stream(path, headers) as response:
            if response.status in _STORAGE_AGAIN:
                self._refused = response.status
                return False
            return self._take(response)

    def _take(self, response: http.client.HTTPResponse) -> bool:
        """Takes what an answer has; says whether nothing is missing now."""
        if response.status in (412, 416) and self._done:
            is_whole = response.status == 416 and self._done == self._total
            if not is_whole:
                self._forget()
            return is_whole
        if response.status in _AGAIN:
            return False
        if response.status not in (200, 206):
            raise self._refusal(response)
        self._begin(response)
        while piece := response.read(_PIECE):
            self._write(piece)
        return self._total is None or self._done >= self._total

    def _begin(self, response: http.client.HTTPResponse) -> None:
        tag = response.headers.get("ETag")
        is_other = self._tag is not None and tag != self._tag
        if self._done and (response.status == 200 or is_other):
            # It is another file now, or the server gives all of it.
            self._forget()
            if response.status == 206:
                raise Lost(http.client.HTTPException("the file was replaced"))
        self._tag = tag
        length = response.headers.get("Content-Length")
        self._total = None if length is None else self._done + int(length)

    def _forget(self) -> None:
        """Begins anew."""
        self._file.seek(0)
        self._file.truncate()
        self._digest, self._done, self._tag = hashlib.sha256(), 0, None

    def _write(self, piece: bytes) -> None:
        try:
            self._file.write(piece)
        except OSError as error:
            raise PrsError(f"the download cannot be kept: {error.strerror or error}") from None
        self._digest.update(piece)
        self._done += len(piece)

    def _refusal(self, response: http.client.HTTPResponse) -> PrsError:
        if self._is_of_storage:
            return PrsError(f"{self._storage} answers {response.status}")
        if response.status < 400:
            return self._connection.moved(Answer(response.status, response.headers, b""))
        body = response.read(1 << 16)
        return self._connection.refusal(
            problem_in(response.status, response.headers.get("Content-Type", ""), body)
        )
