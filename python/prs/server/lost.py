"""Connections that could not be had, or broke: whether another try may help, and what a caller is told."""

from __future__ import annotations

import http.client
import socket
import ssl

from prs.errors import Unreachable
from prs.server.address import Address


class Lost(Exception):
    """A connection that could not be had, or broke."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause

    @property
    def is_passing(self) -> bool:
        """Whether another try may have another end."""
        if isinstance(self.cause, ssl.SSLError):
            # Nobody speaks TLS there, or another than it should be.
            return isinstance(self.cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        if isinstance(self.cause, socket.gaierror):
            return self.cause.errno == socket.EAI_AGAIN
        return True

    def raised(self, address: Address) -> Unreachable:
        """The exception for a caller."""
        if isinstance(self.cause, ssl.SSLCertVerificationError):
            return Unreachable(
                f"{address}: its certificate is not to be trusted ({self.cause.verify_message}): where it "
                "is of an authority of your own, give the file of that as ca_file",
                "cannot_connect",
            )
        if isinstance(self.cause, (socket.timeout, TimeoutError)):
            why = "it gives no answer in time"
        elif isinstance(self.cause, http.client.HTTPException):
            why = "the connection broke"
        else:
            why = getattr(self.cause, "strerror", None) or str(self.cause)
        hint = (
            ": start it with prs serve"
            if isinstance(self.cause, ConnectionRefusedError) and address.is_loopback
            else ""
        )
        return Unreachable(f"cannot reach the server {address}: {why}{hint}", "cannot_connect")
