"""As much of a client of Redis as benchmarks need, without a package."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


class Redis:
    """A connection; closed at the end of the block."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Redis:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def call(self, *arguments: object) -> object:
        """The answer: bytes, a number, None, or a list of these. Raises RuntimeError for a refusal."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in arguments]
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
        self._socket.sendall(b"".join(parts))
        return self._answer()

    def _answer(self) -> object:
        line = self._stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"*":
            return [self._answer() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self._stream.read(int(rest) + 2)[:-2]
        return rest
