"""Files that are sent before what needs them, each named by its content: what the server has is not sent
again, and an upload that broke off continues with the file that it was sending."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from prs.errors import PrsError, UsageError
from prs.server.connection import LONG_SILENCE, PATIENCE, Connection, Document
from prs.server.files import Archive, Bundle, exactly, size_of

# Blobs that one question is about.
_AT_ONCE = 1_000
_TYPE = "application/octet-stream"
# Headers that every request has anyhow.
_OWN = ("host", "content-length")


class _Source(Protocol):
    @property
    def size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class _File:
    """A file of this machine."""

    path: Path
    size: int

    def pieces(self) -> Iterator[bytes]:
        return exactly(self.path, self.size)


@dataclass(frozen=True)
class _Blob:
    """What is sent under the name of its content."""

    sha256: str
    source: _Source
    content_type: str = _TYPE

    @property
    def size(self) -> int:
        return self.source.size

    def pieces(self) -> Iterator[bytes]:
        return self.source.pieces()


class Uploads:
    """Files for one request: they are added, then sent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._blobs: dict[str, _Blob] = {}

    def bundle(self, bundle: Bundle) -> dict[str, Any]:
        """Adds files of one folder; gives how a request names them."""
        named = {}
        if bundle.archive is not None:
            named["archive_sha256"] = self._add(bundle.archive)
        if bundle.files:
            named["manifest_sha256"] = self._manifest(bundle.files)
        return named

    def file(self, own: str, path: Path) -> dict[str, Any]:
        """Adds one file, which is called `own` there; gives how a request names it."""
        return {"manifest_sha256": self._manifest({own: path}), "is_file": True}

    def send(self) -> None:
        """Sends what the server does not have. Raises `prs.UsageError` for a file that changes meanwhile."""
        blobs = list(self._blobs.values())
        for at in range(0, len(blobs), _AT_ONCE):
            asked = [{"sha256": one.sha256, "bytes": one.size} for one in blobs[at : at + _AT_ONCE]]
            answer = self._connection.post("/api/v1/uploads/missing", Document.of({"blobs": asked}))
            for one in answer.record()["missing"]:
                blob = self._blobs[one["sha256"]]
                if not (
                    one["upload_url"]
                    and self._put_there(blob, one["upload_url"], one.get("upload_headers", {}))
                ):
                    self._put(blob)

    def _put_there(self, blob: _Blob, url: str, headers: Mapping[str, str]) -> bool:
        """Sends a file straight to the storage; says whether that has it."""
        own = {name: value for name, value in headers.items() if name.lower() not in _OWN}
        try:
            there, path = self._connection.elsewhere(url)
            there.send("PUT", path, body=blob, headers=own, silence=LONG_SILENCE)
        except UsageError:
            raise
        except PrsError:
            # The server can take it, too: its storage may be where this machine does not reach.
            return False
        return True

    def _put(self, blob: _Blob) -> None:
        path = f"/api/v1/blobs/{blob.sha256}"
        try:
            self._connection.send("PUT", path, body=blob, patience=PATIENCE, silence=LONG_SILENCE)
        except UsageError as error:
            if isinstance(blob.source, _File) and error.problem and error.problem.type == "digest-mismatch":
                raise UsageError(
                    f"{blob.source.path} was changed while it was sent: hand the job in again"
                ) from None
            raise

    def _add(self, source: Archive | _File | Document) -> str:
        digest = hashlib.sha256()
        for piece in source.pieces():
            digest.update(piece)
        blob = _Blob(digest.hexdigest(), source)
        self._blobs[blob.sha256] = blob
        return blob.sha256

    def _manifest(self, files: dict[str, Path]) -> str:
        lines = []
        for name, path in files.items():
            source = _File(path, size_of(path))
            lines.append(json.dumps({"path": name, "bytes": source.size, "sha256": self._add(source)}))
        return self._add(Document(("\n".join(lines) + "\n").encode()))
