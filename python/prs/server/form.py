"""A job as a form with files (multipart/form-data, RFC 7578), which is sent piece by piece."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

from prs.errors import UsageError
from prs.server.files import Archive, exactly


class Form:
    """Fields and files in their order."""

    def __init__(self) -> None:
        self._boundary = uuid.uuid4().hex
        self._parts: list[tuple[bytes, bytes | Path | Archive, int]] = []

    @property
    def content_type(self) -> str:
        """With what parts the fields."""
        return f"multipart/form-data; boundary={self._boundary}"

    def field(self, name: str, text: str) -> None:
        """Adds a text."""
        body = text.encode("utf-8", "surrogatepass")
        self._parts.append((self._head(f'name="{_quoted(name)}"'), body, len(body)))

    def settings(self, settings: dict[str, str]) -> None:
        """Adds settings, each as a field of its own."""
        for key, value in settings.items():
            if "\n" in value or "\r" in value:
                raise UsageError(
                    f"{key}: a setting of a job at a server has no line breaks: write it in the job file"
                )
            self.field("set", f"{key}={value}")

    def file(self, name: str, own: str, body: Path | Archive) -> None:
        """Adds a file, with the name that it has there."""
        size = body.size if isinstance(body, Archive) else body.stat().st_size
        head = self._head(f'name="{_quoted(name)}"; filename="{_quoted(own)}"', "application/octet-stream")
        self._parts.append((head, body, size))

    @property
    def size(self) -> int:
        """All of it, bytes."""
        return sum(len(head) + size + 2 for head, _, size in self._parts) + len(self._end())

    def pieces(self) -> Iterator[bytes]:
        """All of it."""
        for head, body, size in self._parts:
            yield head
            if isinstance(body, bytes):
                yield body
            elif isinstance(body, Archive):
                yield from body.pieces()
            else:
                yield from exactly(body, size)
            yield b"\r\n"
        yield self._end()

    def _head(self, disposition: str, kind: str | None = None) -> bytes:
        lines = [f"--{self._boundary}", f"Content-Disposition: form-data; {disposition}"]
        lines += [] if kind is None else [f"Content-Type: {kind}"]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")

    def _end(self) -> bytes:
        return f"--{self._boundary}--\r\n".encode()


def _quoted(text: str) -> str:
    """A name in a header, as browsers write it."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
